"""Several tasks on one hidden layer: diagonal networks with a readout for each task (B).

A task is a pair X (d, N), y (N,), with samples as columns; it trains its own output only. So a network with
many outputs on the same samples, and one on different samples for each, are both described.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import minimize

from regimes._batches import check_width, checked_data
from regimes.flow import FlowOutcome

Array = np.ndarray
Task = tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class MultiOutputNetwork:
    """f_o(x) = (w₊∘v₊ₒ − w₋∘v₋ₒ)ᵀx: shared hidden weights ``w_plus``, ``w_minus`` of shape (d,), and
    readouts ``v_plus``, ``v_minus`` of shape (outputs, d)."""

    w_plus: Array
    v_plus: Array
    w_minus: Array
    v_minus: Array

    @classmethod
    def constant(cls, alpha: float, d: int, outputs: int = 2) -> MultiOutputNetwork:
        """The start with every weight ``alpha``; its predictors are all zero."""
        hidden, readout = np.full(d, float(alpha)), np.full((outputs, d), float(alpha))
        return cls(hidden, readout, hidden, readout)

    @property
    def predictor(self) -> Array:
        """The linear predictor of every output, shape (outputs, d)."""
        return self.w_plus * self.v_plus - self.w_minus * self.v_minus

    @property
    def imbalance(self) -> Array:
        """What gradient flow conserves on each branch, whatever the losses are: w² − Σₒ vₒ², shape (2, d)."""
        return np.stack(
            [self.w_plus**2 - (self.v_plus**2).sum(0), self.w_minus**2 - (self.v_minus**2).sum(0)]
        )

    @property
    def squares(self) -> float:
        """‖θ‖², the sum of squares of all weights."""
        return sum(np.square(part).sum() for part in vars(self).values())


@dataclass(frozen=True, eq=False)
class MultiTaskFlow:
    """A flow's end: its ``network``, the ``loss`` of each task, ``time``, ``evaluations`` and ``outcome``."""

    network: MultiOutputNetwork
    loss: Array
    time: float
    evaluations: int
    outcome: FlowOutcome


def multitask_flow(
    network: MultiOutputNetwork,
    tasks: Sequence[Task],
    weights: Sequence[float] = (1.0, 1.0),
    *,
    stop_loss: float = 1e-18,
    rtol: float = 1e-9,
    atol: float = 1e-14,
    time_limit: float = 1e12,
) -> MultiTaskFlow:
    """Gradient flow of all weights on Σₒ weightₒ Lₒ, with Lₒ = ‖y − Xᵀβₒ‖²/(2N), by LSODA.

    It stops when the sum of the losses of all tasks with a positive weight falls to ``stop_loss``. A task of
    weight 0 is not trained. One of weight infinity is *held*: at every moment its force is the one that keeps
    its predictor as it is, which is the limit of a task that is always fitted before the others move.
    ``rtol`` and ``atol`` bound the local error of the weights. Raises ValueError for shapes that do not fit.
    """
    system = _System(*network.v_plus.shape, tasks, weights)
    start = np.stack(
        [np.vstack([network.w_plus, network.v_plus]), np.vstack([network.w_minus, network.v_minus])]
    )

    def excess(time: float, state: Array) -> float:
        return system.losses(state)[system.weights > 0].sum() - stop_loss

    excess.terminal = True
    options = {"method": "LSODA", "rtol": rtol, "atol": atol, "events": excess}
    if not system.held.any():
        options["jac"] = system.jacobian
    run = solve_ivp(system.slope, (0, time_limit), start.ravel(), **options)
    end = run.y[:, -1]
    outcome = {1: FlowOutcome.REACHED_LOSS, 0: FlowOutcome.TIME_LIMIT}.get(
        run.status, FlowOutcome.NOISE_FLOOR
    )
    return MultiTaskFlow(
        _network(end, system.shape), system.losses(end), float(run.t[-1]), int(run.nfev), outcome
    )


def _network(state: Array, shape: tuple[int, ...]) -> MultiOutputNetwork:
    plus, minus = state.reshape(shape)
    return MultiOutputNetwork(plus[0], plus[1:], minus[0], minus[1:])


SIGNS = np.array([1.0, -1.0])


class _System:
    """Losses and gradient flow of the weights, flat or of shape (branch, hidden and readouts, feature)."""

    def __init__(self, outputs: int, d: int, tasks: Sequence[Task], weights: Sequence[float]) -> None:
        self.shape, self.tasks = (2, 1 + outputs, d), _checked(tasks, d)
        if not len(self.tasks) == len(weights) == outputs:
            counts = f"{len(self.tasks)} tasks, {len(weights)} weights and {outputs} outputs"
            raise ValueError(f"{counts}: one of each is needed")
        self.weights = np.asarray(weights, float)
        if not (self.weights >= 0).all():
            raise ValueError(f"weights = {weights}, but a weight is at least 0")
        self.held = np.isinf(self.weights)
        finite = np.where(self.held, 0.0, self.weights)
        self.K = np.stack([f * X @ X.T / len(y) for f, (X, y) in zip(finite, self.tasks, strict=True)])
        self.h = np.stack([f * X @ y / len(y) for f, (X, y) in zip(finite, self.tasks, strict=True)])

    def losses(self, state: Array) -> Array:
        pairs = zip(self.predictor(state), self.tasks, strict=True)
        return np.array([np.square(y - beta @ X).mean() / 2 for beta, (X, y) in pairs])

    def predictor(self, state: Array) -> Array:
        plus, minus = state.reshape(self.shape)
        return plus[0] * plus[1:] - minus[0] * minus[1:]

    def forces(self, state: Array) -> Array:
        """Minus the gradient with respect to every predictor, shape (outputs, d)."""
        g = self.h - (self.K @ self.predictor(state)[..., None])[..., 0]
        if self.held.any():
            g[self.held] = self.holding(state, g[~self.held])
        return g

    def holding(self, state: Array, g: Array) -> Array:
        """The forces on held tasks that keep dβ/dt = Mg at 0, from the forces ``g`` on the others."""
        both = state.reshape(self.shape)
        M = np.einsum("boi,bpi->iop", both[:, 1:], both[:, 1:])
        M += np.eye(len(self.held)) * np.square(both[:, 0]).sum(0)[:, None, None]
        among, across = M[:, self.held][:, :, self.held], M[:, self.held][:, :, ~self.held]
        return -np.linalg.solve(among, across @ g.T[..., None])[..., 0].T

    def slope(self, time: float, state: Array) -> Array:
        both, g = state.reshape(self.shape), self.forces(state)
        change = np.empty(self.shape)
        change[:, 0] = SIGNS[:, None] * (g * both[:, 1:]).sum(1)
        change[:, 1:] = SIGNS[:, None, None] * g * both[:, :1]
        return change.ravel()

    def jacobian(self, time: float, state: Array) -> Array:
        """Of :meth:`slope`, where no task is held: −Σ AᵀKA + (terms in g), with A = dβ/d(weights)."""
        both, g, (_, rows, d) = state.reshape(self.shape), self.forces(state), self.shape
        J, i = np.zeros(2 * self.shape), np.arange(d)
        for o in range(rows - 1):
            A = np.zeros((2, rows, d))
            A[:, 0], A[:, o + 1] = SIGNS[:, None] * both[:, o + 1], SIGNS[:, None] * both[:, 0]
            J -= A[..., None, None, None] * self.K[o][:, None, None, :] * A
            for branch, sign in enumerate(SIGNS):
                J[branch, 0, i, branch, o + 1, i] += sign * g[o]
                J[branch, o + 1, i, branch, 0, i] += sign * g[o]
        return J.reshape(state.size, state.size)


@dataclass(frozen=True, eq=False)
class Decayed:
    """A minimum of loss plus weight decay: its ``network``, the ``objective``, and the ``gap`` above the
    least value that any network of this kind could have, by convex duality."""

    network: MultiOutputNetwork
    objective: float
    gap: float


def decayed(tasks: Sequence[Task], decay: float, *, seed: int = 0, max_iterations: int = 20_000) -> Decayed:
    """Minimize Σₒ Lₒ + (decay/2)‖θ‖² over all weights by L-BFGS, from normal weights drawn from ``seed``.

    In terms of predictors this is the group lasso with the same ``decay`` (B, Corollary 1; Dai et al.).
    Raises ValueError for shapes that do not fit and a decay that is not positive.
    """
    if not decay > 0:
        raise ValueError(f"decay = {decay}, but must be positive")
    d, outputs = np.shape(tasks[0][0])[0], len(tasks)
    system = _System(outputs, d, tasks, np.ones(outputs))

    def objective(state: Array) -> tuple[float, Array]:
        value = system.losses(state).sum() + decay / 2 * state @ state
        return value, decay * state - system.slope(0, state)

    start = np.random.default_rng(seed).normal(size=2 * (outputs + 1) * d)
    options = {"maxiter": max_iterations, "maxfun": 2 * max_iterations, "ftol": 1e-16, "gtol": 1e-12}
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    network = _network(found.x, system.shape)
    return Decayed(network, found.fun, found.fun - _lasso_bound(network.predictor, tasks, decay))


def group_lasso_gap(B: Array, tasks: Sequence[Task], decay: float) -> float:
    """How far predictors ``B`` (outputs, d) are from minimizing Σₒ Lₒ + decay · Σᵢ ‖Bᵢ‖₂, at most."""
    losses = (np.square(y - beta @ X).mean() / 2 for beta, (X, y) in zip(B, tasks, strict=True))
    return sum(losses) + decay * group_norm(B) - _lasso_bound(B, tasks, decay)


def group_norm(B: Array) -> Array:
    """Σᵢ ‖Bᵢ‖₂ of predictors (..., outputs, d): the ℓ₁,₂ norm, with one group for each feature."""
    return np.linalg.norm(B, axis=-2).sum(-1)


def _lasso_bound(B: Array, tasks: Sequence[Task], decay: float) -> float:
    """A lower bound on loss + decay · group norm over all predictors, from the residuals at ``B``."""
    nu = [(y - beta @ X) / len(y) for beta, (X, y) in zip(B, tasks, strict=True)]
    reach = np.linalg.norm([X @ v for v, (X, _) in zip(nu, tasks, strict=True)], axis=0).max()
    nu = [v * min(1.0, decay / reach) for v in nu]
    return sum(v @ y - len(y) / 2 * v @ v for v, (_, y) in zip(nu, tasks, strict=True))


@dataclass(frozen=True, eq=False)
class GroupInterpolant:
    """Interpolants of least group norm: predictors ``solution`` (outputs, d), their ``norm``, and the ``gap``
    above the least norm possible, by convex duality."""

    solution: Array
    norm: float
    gap: float


def minimum_group_norm(tasks: Sequence[Task], *, iterations: int = 2000) -> GroupInterpolant:
    """The predictors of least Σᵢ ‖Bᵢ‖₂ that interpolate all ``tasks``, by reweighted least squares.

    Each round minimizes Σᵢ ‖Bᵢ‖²/sᵢ with sᵢ² = ‖Bᵢ‖² + ε² of the round before, while ε falls to 1e-10 of the
    largest weight. A task with N = d samples has its predictor fixed, and the rest is then the conditional
    minimum. Raises ValueError for shapes that do not fit.
    """
    tasks = _checked(tasks, np.shape(tasks[0][0])[0])
    B = np.stack([X @ np.linalg.solve(X.T @ X, y) for X, y in tasks])
    for epsilon in np.abs(B).max() * np.geomspace(0.3, 1e-10, iterations):
        s = np.sqrt(np.square(B).sum(0) + epsilon**2)
        nu = [np.linalg.solve((X.T * s) @ X, y) for X, y in tasks]
        B = np.stack([s * (X @ v) for v, (X, _) in zip(nu, tasks, strict=True)])
    reach = np.linalg.norm([X @ v for v, (X, _) in zip(nu, tasks, strict=True)], axis=0).max()
    bound = sum(v @ y for v, (_, y) in zip(nu, tasks, strict=True)) / max(reach, 1.0)
    norm = float(group_norm(B))
    return GroupInterpolant(B, norm, norm - bound)


def _checked(tasks: Sequence[Task], d: int) -> list[Task]:
    checked = [checked_data(X, y) for X, y in tasks]
    for X, y in checked:
        check_width(X.shape[0] if X.ndim == y.ndim + 1 == 2 else 0, d, "each task's X, seen as (N, d),")
    return checked
