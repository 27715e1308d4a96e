"""Gradient flow itself, integrated to a stated loss: in the dual (N unknowns) and in the parameters (4d).

The loss is L(w) = ‖y − Xᵀw‖²/(2N) throughout, which fixes the unit of time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from scipy.integrate import DOP853
from scipy.optimize import brentq

from regimes import _chebyshev
from regimes._batches import batch_of, check_width, checked_data, groups, loss_levels
from regimes.models import DiagonalNetwork
from regimes.potentials import Separable

Array = np.ndarray

BLOCK = 64
"""Settings that flow together: their predictors and a few temporaries stay in the cache."""


class FlowOutcome(Enum):
    """How an integration ended, in words to act on."""

    REACHED_LOSS = "reached the stated loss"
    TIME_LIMIT = "time limit reached before the stated loss: allow more time"
    EVALUATION_LIMIT = "too many evaluations: allow more of them, or loosen rtol"
    NOISE_FLOOR = "stopped at the noise floor: the stated loss is below what this precision resolves"


@dataclass(frozen=True, eq=False)
class Flow:
    """A gradient flow's end and the checkpoints on its way, with the batch's leading axes first.

    At the end: ``solution`` w (..., d), ``multipliers`` ν = ∫r dt (..., N), ``time`` and ``loss`` (...).
    When the loss first fell to each of the ``levels`` (L,): ``times`` (..., L) and ``predictors``
    (..., L, d), NaN where that never happened; the last level is the stated loss. ``evaluations`` of the
    right-hand side, and the ``outcome``.
    """

    solution: Array
    multipliers: Array
    time: Array
    loss: Array
    levels: Array
    times: Array
    predictors: Array
    evaluations: Array
    outcome: Array

    @property
    def reached(self) -> Array:
        """Whether each flow came down to the stated loss."""
        return self.outcome == FlowOutcome.REACHED_LOSS


@dataclass(frozen=True, eq=False)
class ParameterFlow:
    """A gradient flow in parameter space: the ``network`` at its end and the ``path`` of networks on its way.

    ``path`` holds the weights when the loss first fell to each of the ``levels`` (L,), of shape (..., L, d),
    and ``times`` (..., L) says when; where that never happened the time is NaN and the weights are the end's.
    The other fields are those of :class:`Flow`.
    """

    network: DiagonalNetwork
    path: DiagonalNetwork
    time: Array
    loss: Array
    levels: Array
    times: Array
    evaluations: Array
    outcome: Array

    @property
    def solution(self) -> Array:
        """The linear predictor at the end, shape (..., d)."""
        return self.network.predictor

    @property
    def reached(self) -> Array:
        """Whether each flow came down to the stated loss."""
        return self.outcome == FlowOutcome.REACHED_LOSS


def dual_flow(
    X: Array,
    y: Array,
    potential: Separable,
    *,
    stop_loss: float = 1e-10,
    levels: Sequence[float] = (),
    rtol: float = 1e-3,
    time_limit: float = np.inf,
    max_evaluations: int = 100_000,
) -> Flow:
    """The exact gradient flow of the model behind ``potential``, as ν' = (y − Xᵀw)/N with ∇Q(w) = Xν.

    ``X`` has shape (..., d, N), ``y`` (..., N); their leading axes and those of the ``potential`` broadcast.
    Each flow stops when the training loss falls to ``stop_loss``, or at ``time_limit``; checkpoints are kept
    at the loss ``levels`` on the way. The step sizes keep the local relative errors of all coordinates of the
    predictor, and of the residual, below ``rtol``. That concerns clock and path only: ∇Q(w) ∈ span X, and so
    the limit, hold exactly at any step. Raises ValueError for shapes that do not fit and for a ``stop_loss``
    below the noise floor of float64.

    ν' is minus the gradient of a convex function: its Jacobian −Xᵀ diag(1/q'')X/N is symmetric and
    negative, as the stabilized integrator needs, and serves the error control and the stability bound.
    """
    X, y = checked_data(X, y)
    d, N = X.shape[-2:]
    batch = batch_of(X, y, potential.batch)
    check_width(potential.width, d, "the potential's settings")
    levels = loss_levels(
        levels, stop_loss, _noise_floor(X, y, potential.inverse_gradient(np.zeros(d)), 1e-12)
    )
    _check_accuracy(rtol, 1e-12, 0.1, time_limit)
    flat = potential.rows(batch)
    count = int(np.prod(batch))
    out = Flow(
        *(np.full((count, *shape), np.nan) for shape in ((d,), (N,), (), ())),
        levels,
        *(np.full((count, len(levels), *shape), np.nan) for shape in ((), (d,))),
        np.zeros(count, int),
        np.full(count, FlowOutcome.EVALUATION_LIMIT, object),
    )
    for matrix, labels, places in groups(X, y, batch):
        for first in range(0, len(places), BLOCK):
            at = places[first : first + BLOCK]
            block = _Block(matrix, labels[first : first + BLOCK], flat[at], at, out)
            block.run(rtol, time_limit, max_evaluations)
    fields = {k: a if k == "levels" else a.reshape(batch + a.shape[1:])[()] for k, a in vars(out).items()}
    return Flow(**fields)


class _Block:
    """Dual flows that share X, each with its own step size; finished ones leave."""

    STATE = ("nu", "w", "slope", "loss", "time")
    ROWS = (*STATE, "y", "potential", "at", "h", "stretch", "eigen", "radius", "level")

    def __init__(self, X: Array, y: Array, potential: Separable, at: Array, out: Flow) -> None:
        self.X, self.y, self.potential, self.at, self.out = X, y, potential, at, out
        self.nu, self.time, self.level = np.zeros(y.shape), np.zeros(len(y)), np.zeros(len(y), int)
        self.w, self.slope, self.loss = self.state(self.nu, potential, y)
        self.stretch = 1 / potential.curvature(self.w)
        self.eigen = np.tile(np.linalg.eigh(X.T @ X)[1][:, -1], (len(y), 1))
        for _ in range(3):
            self.renew_radius()
        speed = potential.steepness * np.abs(self.slope @ X.T).max(-1)
        self.h = 0.1 / np.maximum(np.maximum(self.radius, speed), 1e-300)

    def state(self, nu: Array, potential: Separable, y: Array) -> tuple[Array, Array, Array]:
        """Predictor w(ν), slope ν' and loss."""
        w = potential.inverse_gradient(nu @ self.X.T)
        slope = (y - w @ self.X) / nu.shape[-1]
        return w, slope, np.square(slope).sum(-1) * (nu.shape[-1] / 2)

    def curve(self, change: Array) -> Array:
        """Minus the Jacobian at the current state, applied to δν, for ``change`` = Xδν."""
        return (change * self.stretch) @ self.X / self.nu.shape[-1]

    def renew_radius(self) -> None:
        """One round of power iteration, which comes from below, for the Jacobian's spectral radius."""
        image = self.curve(self.eigen @ self.X.T)
        size = np.linalg.norm(image, axis=-1)
        self.eigen, self.radius = image / size[:, None], 1.2 * size

    def take(self, rows: Array) -> None:
        """Keep only these flows, in this order."""
        for name in self.ROWS:
            setattr(self, name, getattr(self, name)[rows])

    def leave(self, done: Array, outcome: FlowOutcome) -> None:
        """Store the flows that are ``done`` as they are, and let them go."""
        at = self.at[done]
        self.out.solution[at], self.out.multipliers[at] = self.w[done], self.nu[done]
        self.out.time[at], self.out.loss[at], self.out.outcome[at] = self.time[done], self.loss[done], outcome
        self.take(~done)

    def run(self, rtol: float, time_limit: float, max_evaluations: int) -> None:
        self.cross(self.nu, self.slope, self.time)
        while len(self.at):
            h = np.minimum(self.h, time_limit - self.time)
            order = np.argsort(-_chebyshev.stages(h, self.radius), kind="stable")
            self.take(order)
            self.step(h[order], rtol)
            self.leave(self.time >= time_limit, FlowOutcome.TIME_LIMIT)
            self.leave(self.h <= 1e-14 * self.time, FlowOutcome.NOISE_FLOOR)
            self.leave(self.out.evaluations[self.at] >= max_evaluations, FlowOutcome.EVALUATION_LIMIT)

    def step(self, h: Array, rtol: float) -> None:
        """Try a step of every flow; where its error is too large the state stays and h shrinks."""
        s = _chebyshev.stages(h, self.radius)
        self.out.evaluations[self.at] += s + 2
        with np.errstate(over="ignore", invalid="ignore"):  # a step that overflows is rejected like any other
            nu = _chebyshev.advance(self.slopes(s), self.nu, self.slope, h, s)
            w, slope, loss = self.state(nu, self.potential, self.y)
            change = _chebyshev.error(self.nu, self.slope, nu, slope, h) @ self.X.T
            relative = np.linalg.norm(self.curve(change), axis=-1) / np.linalg.norm(slope, axis=-1)
            error = np.maximum(relative, self.potential.steepness * np.abs(change).max(-1)) / rtol
        error = np.where(np.isfinite(error), np.maximum(error, 1e-9), 1e9)
        good = error <= 1
        grown = h * np.clip(0.8 * error ** (-1 / 3), 0.2, 5)
        self.h = np.where(good & (h < self.h), self.h, grown)
        before = self.nu, self.slope, self.time
        for name, value in zip(self.STATE, (nu, w, slope, loss, self.time + h), strict=True):
            old = getattr(self, name)
            setattr(self, name, np.where(good.reshape(-1, *[1] * (old.ndim - 1)), value, old))
        self.stretch = 1 / self.potential.curvature(self.w)
        self.renew_radius()
        self.cross(*before)

    def slopes(self, s: Array) -> Callable[[Array, int], Array]:
        """The right-hand side for the first m flows, which are those with many stages."""
        sizes = {np.count_nonzero(s >= j) for j in range(2, s[0] + 1)}
        parts = {m: (self.potential[:m], self.y[:m]) for m in sizes}
        return lambda nu, m: self.state(nu, *parts[m])[1]

    def cross(self, nu: Array, slope: Array, time: Array) -> None:
        """Keep a checkpoint wherever the loss fell to the next level since the state ``nu`` at ``time``."""
        goals = np.append(self.out.levels, -1.0)
        while (rows := np.flatnonzero(self.loss <= goals[self.level])).size:
            y, potential, level = self.y[rows], self.potential[rows], self.level[rows]
            h = (self.time - time)[rows]
            ends = nu[rows], slope[rows], self.nu[rows], self.slope[rows]
            low, high = np.zeros(len(rows)), np.ones(len(rows))
            for _ in range(16):
                middle = (low + high) / 2
                below = self.state(_hermite(middle, h, *ends), potential, y)[2] <= goals[level]
                low, high = np.where(below, low, middle), np.where(below, middle, high)
            there, moment = _hermite(high, h, *ends), time[rows] + high * h
            w, f, loss = self.state(there, potential, y)
            self.out.times[self.at[rows], level] = moment
            self.out.predictors[self.at[rows], level] = w
            self.level[rows] += 1
            last = self.level[rows] == len(self.out.levels)
            for name, value in zip(self.STATE, (there, w, f, loss, moment), strict=True):
                getattr(self, name)[rows[last]] = value[last]
        self.leave(self.level == len(self.out.levels), FlowOutcome.REACHED_LOSS)


def _hermite(x: Array, h: Array, u0: Array, f0: Array, u1: Array, f1: Array) -> Array:
    """The cubic that has values u and slopes f at both ends of a step of size h, at the fraction x of it."""
    x, h = x[:, None], h[:, None]
    return u0 + x * x * (3 - 2 * x) * (u1 - u0) + x * (1 - x) * h * ((1 - x) * f0 - x * f1)


def _check_accuracy(rtol: float, least: float, most: float, time_limit: float) -> None:
    if not least <= rtol <= most:
        raise ValueError(f"rtol = {rtol}, but must lie between {least} and {most}")
    if not time_limit > 0:
        raise ValueError(f"time_limit = {time_limit}, but must be positive")


def _noise_floor(X: Array, y: Array, start: Array, resolution: float) -> float:
    """The loss of residuals that are ``resolution`` times as large as the labels or the first outputs."""
    outputs = np.broadcast_to(start, start.shape[:-1] + X.shape[-2:-1])[..., None, :] @ X
    return resolution**2 * max(np.square(a).mean(-1).max() for a in (y, outputs)) / 2


def parameter_flow(
    network: DiagonalNetwork,
    X: Array,
    y: Array,
    *,
    stop_loss: float = 1e-10,
    levels: Sequence[float] = (),
    rtol: float = 1e-9,
    atol: float = 1e-12,
    time_limit: float = 1e9,
    max_evaluations: int = 200_000,
    train_hidden: bool = True,
) -> ParameterFlow:
    """Gradient flow of all 4d weights of a diagonal network, by an adaptive method of order 8 (DOP853).

    It assumes nothing of the theory, so it can bear witness to it. ``X`` has shape (..., d, N), ``y``
    (..., N); the leading axes of both and of the ``network`` broadcast, and the flows are integrated one by
    one. ``rtol`` and ``atol`` bound the local error of the weights. With ``train_hidden`` false u stays what
    it was, and only the readout v moves (linear probing). Raises ValueError for shapes that do not fit, and
    for a ``stop_loss`` so small against ``rtol`` that the integration could never reach it.
    """
    X, y = checked_data(X, y)
    weights = np.stack([network.u_plus, network.v_plus, network.u_minus, network.v_minus], -2)
    check_width(weights.shape[-1], X.shape[-2], "the network's weights")
    batch = batch_of(X, y, weights.shape[:-2])
    _check_accuracy(rtol, 1e-13, 0.01, time_limit)
    levels = loss_levels(levels, stop_loss, _noise_floor(X, y, network.predictor, rtol))
    d, N = X.shape[-2:]
    shapes = ((*batch, 4, d), (*batch, d, N), (*batch, N))
    starts, matrices, labels = (np.broadcast_to(a, s) for a, s in zip((weights, X, y), shapes, strict=True))
    end, path = np.empty((*batch, 4, d)), np.empty((*batch, len(levels), 4, d))
    times = np.full((*batch, len(levels)), np.nan)
    time, loss = np.empty(batch), np.empty(batch)
    evaluations, outcome = np.empty(batch, int), np.empty(batch, object)
    for i in np.ndindex(*batch):
        system = _Weights(matrices[i], labels[i], train_hidden)
        solver = DOP853(system.slope, 0, starts[i].ravel(), time_limit, rtol=rtol, atol=atol)
        time[i], end[i], outcome[i] = _descend(solver, system, levels, max_evaluations, times[i], path[i])
        loss[i], evaluations[i] = system.loss(end[i]), solver.nfev
    return ParameterFlow(
        *(DiagonalNetwork(*np.moveaxis(weights, -2, 0)) for weights in (end, path)),
        time[()], loss[()], levels, times, evaluations[()], outcome[()],
    )  # fmt: skip


class _Weights:
    """Loss and gradient flow of one network's weights (u₊, v₊, u₋, v₋)."""

    def __init__(self, X: Array, y: Array, train_hidden: bool) -> None:
        self.X, self.y, self.rate = X, y, float(train_hidden)

    def residual(self, weights: Array) -> Array:
        up, vp, um, vm = weights.reshape(4, -1)
        return self.y - (up * vp - um * vm) @ self.X

    def loss(self, weights: Array) -> float:
        return np.square(self.residual(weights)).mean() / 2

    def slope(self, time: float, weights: Array) -> Array:
        up, vp, um, vm = weights.reshape(4, -1)
        force = self.X @ self.residual(weights) / len(self.y)
        hidden = self.rate * force
        return np.concatenate([vp * hidden, up * force, -vm * hidden, -um * force])


def _descend(
    solver: DOP853, system: _Weights, levels: Array, max_evaluations: int, times: Array, path: Array
) -> tuple[float, Array, FlowOutcome]:
    """Step until the last level is reached, filling ``times`` and ``path``; the end's time and weights."""
    passed = 0
    while True:
        while system.loss(solver.y) <= levels[passed]:
            times[passed], path[passed] = _crossing(solver, system, levels[passed])
            passed += 1
            if passed == len(levels):
                return times[-1], path[-1].copy(), FlowOutcome.REACHED_LOSS
        if solver.status != "running" or solver.nfev >= max_evaluations:
            path[passed:] = solver.y.reshape(4, -1)
            return solver.t, path[passed], _CAUSE[solver.status]
        solver.step()


_CAUSE = {
    "running": FlowOutcome.EVALUATION_LIMIT,
    "finished": FlowOutcome.TIME_LIMIT,
    "failed": FlowOutcome.NOISE_FLOOR,
}


def _crossing(solver: DOP853, system: _Weights, level: float) -> tuple[float, Array]:
    """When, within the last step, the loss fell to ``level``, and the weights at that time."""
    if solver.t_old is None:
        return solver.t, solver.y.reshape(4, -1)
    state = solver.dense_output()

    def excess(time: float) -> float:
        return np.log(system.loss(state(time)) / level)

    time = brentq(excess, solver.t_old, solver.t, xtol=1e-14, rtol=1e-14)
    return time, state(time).reshape(4, -1)
