"""Which solution is preferred: the potentials that gradient flow minimizes among interpolating predictors.

A separable potential Q(w) = Σᵢ qᵢ(wᵢ) is strictly convex; its minimizer on {Xᵀw = y} is the w with
∇Q(w) = Xν, which is what gradient flow conserves (A, section 3).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from regimes.models import DiagonalNetwork

Array = np.ndarray


DEGENERATE = (
    "; k = 0 is the degenerate start where A or B vanishes: this coordinate of w can never change its sign, "
    "or never move at all, and no strictly convex potential exists"
)


class Separable(Protocol):
    """What the solvers of :mod:`regimes.interpolate` and :mod:`regimes.flow` ask of a potential.

    Arrays of predictors w and of dual coordinates z = ∇Q(w) have shape (..., d).
    """

    steepness: float
    """A bound on |d ln(dw/dz)/dz|: how fast the dual map's slope can change."""

    @property
    def batch(self) -> tuple[int, ...]: ...
    @property
    def width(self) -> int: ...
    def rows(self, batch: tuple[int, ...]) -> Separable: ...
    def __getitem__(self, index: Array) -> Separable: ...
    def value(self, w: Array) -> Array: ...
    def gradient(self, w: Array) -> Array: ...
    def inverse_gradient(self, z: Array) -> Array: ...
    def curvature(self, w: Array) -> Array: ...
    def conjugate(self, z: Array) -> Array: ...


@dataclass(frozen=True, eq=False)
class Hypentropy:
    """The potential of a diagonal network (A, Theorem 1; B, Corollary 2; C, the doubled head).

    Q(w) = Σ q(wᵢ) with q'(x) = ½ arcsinh(2x/√k) − ½ arcsinh(2x₀/√k), where x₀ is the predictor at the start.
    It is ℓ2-like (x²/(2√k)) where √k is large against |x|, and ℓ1-like where it is small.

    The field is √k, because k itself underflows long before √k does. ``root_k`` > 0 and ``start`` broadcast
    against predictors of shape (..., d): a scalar serves all coordinates, shape (d,) is one for each, and a
    batch of settings has shape (S, 1) or (S, d). Raises ValueError where root_k is not positive and finite.
    """

    root_k: Array
    start: Array = 0.0  # type: ignore[assignment]
    offset: Array = field(init=False, repr=False)
    """c = arcsinh(2 start/√k), so that w = (√k/2) sinh(2z + c)."""

    steepness = 2.0

    def __post_init__(self) -> None:
        root_k, start = np.asarray(self.root_k, float), np.asarray(self.start, float)
        if not ((root_k > 0) & np.isfinite(root_k)).all():
            bad = root_k[~((root_k > 0) & np.isfinite(root_k))].flat[0]
            hint = DEGENERATE if bad == 0 else ""
            raise ValueError(f"root_k holds {bad}, but must be positive and finite{hint}")
        if not np.isfinite(start).all():
            raise ValueError("start holds a value that is not finite")
        offset = np.arcsinh(2 * (start / root_k))
        for name, value in (("root_k", root_k), ("start", start), ("offset", offset)):
            object.__setattr__(self, name, value)

    @classmethod
    def from_k(cls, k: float | Array, start: float | Array = 0.0) -> Hypentropy:
        """The potential with the paper's k (units of w²) instead of √k."""
        return cls(np.sqrt(np.asarray(k, float)), start)

    @classmethod
    def from_network(cls, network: DiagonalNetwork) -> Hypentropy:
        """The potential that gradient flow from ``network`` minimizes, for any start (A, Theorem 1)."""
        return cls(network.root_k, network.predictor)

    @property
    def batch(self) -> tuple[int, ...]:
        """The leading axes: all but the one of the coordinates."""
        return self.offset.shape[:-1]

    @property
    def width(self) -> int:
        """The length of the last axis: d, or 1 where all coordinates share their setting."""
        return self.offset.shape[-1] if self.offset.ndim else 1

    def rows(self, batch: tuple[int, ...]) -> Hypentropy:
        """The potentials of the whole ``batch``, flattened to a single leading axis."""

        def flat(a: Array) -> Array:
            a = np.atleast_1d(a)
            return np.broadcast_to(a, batch + a.shape[-1:]).reshape(-1, a.shape[-1])

        return Hypentropy(flat(self.root_k), flat(self.start))

    def __getitem__(self, index: Array) -> Hypentropy:
        """The potentials at ``index`` of the leading axis, of those that :meth:`rows` gave."""
        part = object.__new__(Hypentropy)  # already checked, and solvers take parts at every step
        for name in ("root_k", "start", "offset"):
            object.__setattr__(part, name, getattr(self, name)[index])
        return part

    def density(self, x: float | Array) -> Array:
        """q(x) of every coordinate, zero at x = 0. Shape as ``x``."""
        x = np.asarray(x, float)
        t = 2 * (x / self.root_k)
        # The printed form √k/4 (1 − √(1+t²) + t arcsinh t) loses all digits for small t; this one loses none.
        return x / 2 * (np.arcsinh(t) - t / (1 + np.hypot(1, t)) - self.offset)

    def value(self, w: Array) -> Array:
        """Q(w), the sum of the densities over the last axis. Shape (...)."""
        return self.density(w).sum(-1)

    def gradient(self, w: Array) -> Array:
        """z = ∇Q(w), of shape (..., d); zero at the start."""
        return (np.arcsinh(2 * (np.asarray(w, float) / self.root_k)) - self.offset) / 2

    def inverse_gradient(self, z: Array) -> Array:
        """The predictor (√k/2) sinh(2z + c) whose gradient is ``z``; overflows only where the result does."""
        e = 2 * np.asarray(z, float) + self.offset
        size = np.abs(e)
        if size.max(initial=0) < 700:
            return self.root_k / 2 * np.sinh(e)
        grown = np.exp(size / 2)
        return np.copysign((self.root_k / 4 * grown) * grown * -np.expm1(-2 * size), e)

    def curvature(self, w: Array) -> Array:
        """q''(w) = 1/√(4w² + k) of every coordinate, the diagonal of the Hessian."""
        return 1 / np.hypot(2 * np.asarray(w, float), self.root_k)

    def inverse_curvature(self, z: Array) -> Array:
        """dw/dz = √k cosh(2z + c) at the dual coordinate ``z``."""
        e = np.abs(2 * np.asarray(z, float) + self.offset)
        grown = np.exp(e / 2)
        return (self.root_k / 2 * grown) * grown * (1 + np.exp(-2 * e))

    def conjugate(self, z: Array) -> Array:
        """Q*(z) = Σ (√k/4)(cosh(2zᵢ + c) − 1), the convex conjugate, summed over the last axis."""
        m = np.abs(np.asarray(z, float) + self.offset / 2)
        grown = np.exp(m)
        return ((self.root_k / 8 * grown) * grown * np.expm1(-2 * m) ** 2).sum(-1)
