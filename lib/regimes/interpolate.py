"""The preferred solution of Xᵀw = y: exact minimizers of potentials and norms, with certificates."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import linprog

from regimes._batches import basis_of, batch_of, check_width, checked_data, groups
from regimes.potentials import Separable

Array = np.ndarray
Basis = tuple[Array, Array]

BLOCK = 64
"""Settings that are solved together: bounds the memory without slowing the matrix products."""


class SolveOutcome(Enum):
    """How a solver ended, in words to act on."""

    CONVERGED = "converged: the residual is below the tolerance"
    STALLED = (
        "stalled: no direction reduces the dual further in this precision; the problem may be degenerate"
    )
    ITERATION_LIMIT = "iteration limit reached: allow more iterations or loosen the tolerance"


@dataclass(frozen=True, eq=False)
class Interpolant:
    """The solution of min Q(w) subject to Xᵀw = y, and how well it is certified.

    With the batch's leading axes first: ``solution`` w of shape (..., d), ``multipliers`` ν (..., N) with
    ∇Q(w) = Xν (a subgradient for the ℓ1 norm), and per problem the number of ``iterations``, the largest
    ``residual`` |Xᵀw − y|, the ``primal_value`` Q at the feasible point next to w, the ``dual_value``
    yᵀν − Q*(Xν) and the ``outcome``.
    """

    solution: Array
    multipliers: Array
    iterations: Array
    residual: Array
    primal_value: Array
    dual_value: Array
    outcome: Array

    @property
    def gap(self) -> Array:
        """The duality gap: no feasible predictor has a smaller Q than primal_value − gap."""
        return self.primal_value - self.dual_value

    @property
    def converged(self) -> Array:
        """Whether each problem was solved to its tolerance."""
        return self.outcome == SolveOutcome.CONVERGED


def interpolate(
    X: Array, y: Array, potential: Separable, *, tolerance: float = 1e-12, max_iterations: int = 200
) -> Interpolant:
    """Minimize a separable potential over {Xᵀw = y} by damped Newton iterations on the dual.

    ``X`` has shape (..., d, N), ``y`` (..., N); their leading axes and those of the ``potential`` broadcast.
    A problem has converged when max|Xᵀw − y| ≤ ``tolerance`` · max|y| (or, where that is larger, times the
    residual of the potential's own minimizer). Raises ValueError for shapes that do not fit and for linearly
    dependent columns of X.

    The dual D(ν) = Q*(Xν) − yᵀν is smooth and convex, and along a direction p its second derivative changes
    at most at the rate M = steepness · max|Xp|. The step ln(1 + rM)/M, r = −D'/D'' along p, therefore never
    increases D, tends to the full Newton step, and needs no line search (Sun and Tran-Dinh, 2019).
    """
    X, y = checked_data(X, y)
    d, N = X.shape[-2:]
    batch = batch_of(X, y, potential.batch)
    check_width(potential.width, d, "the potential's settings")
    flat = potential.rows(batch)
    out = _Columns(int(np.prod(batch)), d, N)
    for matrix, labels, places in groups(X, y, batch):
        basis = basis_of(matrix)
        for start in range(0, len(places), BLOCK):
            block = slice(start, start + BLOCK)
            at = places[block]
            _newton(matrix, labels[block], flat[at], tolerance, max_iterations, out, at)
            out.certify(matrix, labels[block], basis, flat[at], at)
    return out.shaped(batch)


def minimum_l2(X: Array, y: Array) -> Interpolant:
    """The interpolant of least ‖w‖₂, X(XᵀX)⁻¹y, as the minimizer of Q(w) = ½‖w‖².

    ``X`` has shape (..., d, N), ``y`` (..., N). Raises ValueError for shapes that do not fit and for linearly
    dependent columns of X.
    """
    X, y = checked_data(X, y)
    batch = batch_of(X, y)
    out = _Columns(int(np.prod(batch)), *X.shape[-2:])
    for matrix, labels, places in groups(X, y, batch):
        Q, R = basis_of(matrix)
        coordinates = solve_triangular(R, labels.T, trans="T")
        w = (Q @ coordinates).T
        out.solution[places] = w
        out.multipliers[places] = solve_triangular(R, coordinates).T
        out.residual[places] = np.abs(w @ matrix - labels).max(-1)
        nu = out.multipliers[places]
        out.primal_value[places] = np.square(_project(w, matrix, labels, (Q, R))).sum(-1) / 2
        out.dual_value[places] = (labels * nu).sum(-1) - np.square(nu @ matrix.T).sum(-1) / 2
    out.outcome[:] = SolveOutcome.CONVERGED
    return out.shaped(batch)


def minimum_l1(X: Array, y: Array) -> Interpolant:
    """An interpolant of least ‖w‖₁, by linear programming (HiGHS), with a dual certificate ‖Xν‖∞ ≤ 1.

    ``X`` has shape (..., d, N), ``y`` (..., N). Where several interpolants attain the least norm, one of
    them is returned. Raises ValueError for shapes that do not fit and for linearly dependent columns of X.
    """
    X, y = checked_data(X, y)
    batch = batch_of(X, y)
    d, N = X.shape[-2:]
    out = _Columns(int(np.prod(batch)), d, N)
    for matrix, labels, places in groups(X, y, batch):
        basis, both = basis_of(matrix), np.vstack([matrix, -matrix]).T
        # HiGHS judges feasibility by an absolute 1e-7, so it gets data of size one.
        unit = np.abs(matrix).max() or 1.0
        for target, at in zip(labels, places, strict=True):
            size = np.abs(target).max() or 1.0
            program = linprog(np.ones(2 * d), A_eq=both / unit, b_eq=target / size, method="highs")
            out.iterations[at] = program.nit
            out.outcome[at] = _LINPROG.get(program.status, SolveOutcome.STALLED)
            if program.x is None:
                continue
            w = (program.x[:d] - program.x[d:]) * (size / unit)
            nu = program.eqlin.marginals / unit
            nu = nu / max(1.0, np.abs(matrix @ nu).max())
            out.solution[at], out.multipliers[at] = w, nu
            out.residual[at] = np.abs(w @ matrix - target).max()
            out.primal_value[at] = np.abs(_project(w, matrix, target, basis)).sum()
            out.dual_value[at] = target @ nu
    return out.shaped(batch)


_LINPROG = {0: SolveOutcome.CONVERGED, 1: SolveOutcome.ITERATION_LIMIT}


class _Columns:
    """The fields of an Interpolant while they are being filled in, one row per problem."""

    def __init__(self, count: int, d: int, N: int) -> None:
        self.solution, self.multipliers = np.full((count, d), np.nan), np.full((count, N), np.nan)
        self.iterations = np.zeros(count, int)
        self.residual, self.primal_value, self.dual_value = np.full((3, count), np.nan)
        self.outcome = np.full(count, SolveOutcome.ITERATION_LIMIT, object)

    def certify(self, X: Array, y: Array, basis: Basis, potential: Separable, at: Array) -> None:
        """Values of both problems, at points that are feasible for each."""
        nu = self.multipliers[at]
        self.primal_value[at] = potential.value(_project(self.solution[at], X, y, basis))
        self.dual_value[at] = (y * nu).sum(-1) - potential.conjugate(nu @ X.T)

    def shaped(self, batch: tuple[int, ...]) -> Interpolant:
        return Interpolant(**{name: a.reshape(batch + a.shape[1:])[()] for name, a in vars(self).items()})


def _project(w: Array, X: Array, y: Array, basis: Basis) -> Array:
    """The point of {Xᵀw = y} nearest to w; ``basis`` is the QR decomposition of X."""
    Q, R = basis
    return w - (Q @ solve_triangular(R, (w @ X - y).T, trans="T")).T


def _newton(
    X: Array, y: Array, potential: Separable, tolerance: float, limit: int, out: _Columns, at: Array
) -> None:
    """Solve the problems that share X, writing rows ``at`` of ``out``; finished ones leave the batch."""
    nu = np.zeros(y.shape)
    for iteration in range(limit + 1):
        w = potential.inverse_gradient(nu @ X.T)
        slope = w @ X - y
        residual = np.abs(slope).max(-1)
        if iteration == 0:
            goal = tolerance * np.maximum(np.abs(y).max(-1), residual)
        out.solution[at], out.multipliers[at] = w, nu
        out.residual[at], out.iterations[at] = residual, iteration
        out.outcome[at[residual <= goal]] = SolveOutcome.CONVERGED
        go = residual > goal
        if iteration == limit or not go.any():
            return
        nu, w, slope, y, goal, at, potential = (a[go] for a in (nu, w, slope, y, goal, at, potential))
        step = _step(X, w, slope, potential)
        go = np.abs(step).max(-1) > 1e-16 * np.abs(nu).max(-1)
        out.outcome[at[~go]] = SolveOutcome.STALLED
        if not go.any():
            return
        nu, y, goal, at, potential = nu[go] + step[go], y[go], goal[go], at[go], potential[go]


def _step(X: Array, w: Array, slope: Array, potential: Separable) -> Array:
    """One damped Newton step for every problem of the block; zero where rounding leaves no descent."""
    stretch = 1 / potential.curvature(w)
    direction = np.empty_like(slope)
    for i, (h, g) in enumerate(zip(stretch, slope, strict=True)):
        scaled = np.sqrt(h)[:, None] * X
        direction[i] = -np.linalg.solve(scaled.T @ scaled, g)
    change = direction @ X.T
    rate = potential.steepness * np.abs(change).max(-1)
    ratio = -(slope * direction).sum(-1) / (stretch * change**2).sum(-1)
    # Stretches that drift further apart than e^20 in one step would make the next system singular in float64.
    damped = np.minimum(np.log1p(np.maximum(ratio, 0) * rate), 20) / rate
    return damped[:, None] * direction
