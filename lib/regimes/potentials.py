"""Which solution is preferred: the potentials that gradient flow minimizes among interpolating predictors.

A separable potential Q(w) = Σᵢ qᵢ(wᵢ) is strictly convex; its minimizer on {Xᵀw = y} is the w with
∇Q(w) = Xν, which is what gradient flow conserves (A, section 3).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from regimes._penalties import (
    explicit_finetuning_penalty,
    finetuning_kappa,
    finetuning_penalty,
    finetuning_start,
    implicit_mtl_penalty,
    mtl_penalty,
    symmetrized_penalty,
)

if TYPE_CHECKING:
    from regimes.models import DiagonalNetwork

__all__ = [
    "IDLE",
    "Hypentropy",
    "ImplicitMultiTask",
    "Separable",
    "explicit_finetuning_penalty",
    "finetuning_kappa",
    "finetuning_penalty",
    "finetuning_start",
    "implicit_mtl_penalty",
    "mtl_penalty",
    "symmetrized_penalty",
]

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

    @classmethod
    def finetuning(
        cls, aux: Array, gamma: float | Array, alpha: float | Array = 0.0, rescale: float | Array = 1.0
    ) -> Hypentropy:
        """The potential of finetuning after pretraining from ``alpha`` to the predictor ``aux`` (..., d).

        After pretraining, hidden weights are multiplied by ``rescale`` and all readouts set to ``gamma``
        (B, Corollary 2, with the κ = √k/2 and the start of a network that was really pretrained). All four
        broadcast. Raises ValueError where ``aux``, ``gamma`` and ``alpha`` are all 0.
        """
        settings = np.square(rescale) * aux, np.square(gamma), np.square(rescale * np.asarray(alpha))
        return cls(2 * finetuning_kappa(*settings), finetuning_start(*settings) * np.sign(gamma))

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


IDLE = 0.8248486849946
"""How much later an idle feature grows when the auxiliary readout on it has to be held at zero.

Its weights are α times a path that depends on G = ∫(force) alone, and the main weight grows to
IDLE · α² exp(2G), where that of a single task would be α² exp(2G). Found by integrating the path, from
weights 1, in high precision.
"""


@dataclass(frozen=True, eq=False)
class ImplicitMultiTask:
    """The potential of the main task where a shared hidden layer has fitted the auxiliary task first.

    Gradient flow of the network with two outputs, all weights starting at α → 0. A coordinate with the
    auxiliary weight a = ``aux`` ≠ 0 has ψ(b) = (b/2) arcsinh(b/|a|); an idle one, a = 0, has the potential
    :class:`Hypentropy` with √k = ``root_k``, of the order of α². The two broadcast against each other; the
    last axis runs over the coordinates. Raises ValueError where a value is not finite or ``root_k`` not
    positive.
    """

    aux: Array
    root_k: Array

    steepness = 2.05

    def __post_init__(self) -> None:
        if not np.isfinite(np.asarray(self.aux, float)).all():
            raise ValueError("aux holds a value that is not finite")
        fresh = Hypentropy(self.root_k).root_k
        size, root_k = np.broadcast_arrays(np.abs(np.atleast_1d(np.asarray(self.aux, float))), fresh)
        object.__setattr__(self, "aux", size)
        object.__setattr__(self, "root_k", root_k)

    @classmethod
    def from_start(cls, aux: Array, alpha: float | Array) -> ImplicitMultiTask:
        """The potential of a network whose weights all start at ``alpha``, √k = 4 · ``IDLE`` · α²."""
        return cls(aux, 4 * IDLE * np.square(alpha))

    @property
    def batch(self) -> tuple[int, ...]:
        """The leading axes: all but the one of the coordinates."""
        return self.aux.shape[:-1]

    @property
    def width(self) -> int:
        """The length of the last axis: d, or 1 where all coordinates share their setting."""
        return self.aux.shape[-1]

    def rows(self, batch: tuple[int, ...]) -> ImplicitMultiTask:
        """The potentials of the whole ``batch``, flattened to a single leading axis."""
        shape = batch + self.aux.shape[-1:]
        flat = (np.broadcast_to(a, shape).reshape(-1, shape[-1]) for a in (self.aux, self.root_k))
        return ImplicitMultiTask(*flat)

    def __getitem__(self, index: Array) -> ImplicitMultiTask:
        """The potentials at ``index`` of the leading axis, of those that :meth:`rows` gave."""
        part = object.__new__(ImplicitMultiTask)
        for name in ("aux", "root_k"):
            object.__setattr__(part, name, getattr(self, name)[index])
        return part

    def _either(self, shared: Array, single: Array) -> Array:
        return np.where(self.aux > 0, shared, single)

    @property
    def _size(self) -> Array:
        """|a|, and any number where it is 0 and the value will not be used."""
        return np.where(self.aux > 0, self.aux, 1.0)

    def density(self, x: float | Array) -> Array:
        """ψ(x) of every coordinate, zero at x = 0."""
        return self._either(implicit_mtl_penalty(x, self._size), Hypentropy(self.root_k).density(x))

    def value(self, w: Array) -> Array:
        """Σ ψ(wᵢ) over the last axis. Shape (...)."""
        return self.density(w).sum(-1)

    def gradient(self, w: Array) -> Array:
        """z = ½[arcsinh(b/|a|) + b/√(a² + b²)] of every coordinate, zero at the start."""
        w = np.asarray(w, float)
        shared = (np.arcsinh(w / self._size) + w / np.hypot(w, self._size)) / 2
        return self._either(shared, Hypentropy(self.root_k).gradient(w))

    def inverse_gradient(self, z: Array) -> Array:
        """The predictor |a| sinh t with t + tanh t = 2z, by Newton's method on t."""
        shared = self._size * np.sinh(_angle(z))
        return self._either(shared, Hypentropy(self.root_k).inverse_gradient(z))

    def curvature(self, w: Array) -> Array:
        """ψ''(b) = (2a² + b²)/(2(a² + b²)^(3/2)) of every coordinate."""
        part = np.square(self._size / (s := np.hypot(w, self._size)))
        return self._either((1 + part) / (2 * s), Hypentropy(self.root_k).curvature(w))

    def conjugate(self, z: Array) -> Array:
        """ψ*(z) = (|a|/2) sinh t tanh t with t + tanh t = 2z, summed over the last axis."""
        t = _angle(z)
        single = Hypentropy(self.root_k)
        free = single.inverse_gradient(z)
        return self._either(self._size / 2 * np.sinh(t) * np.tanh(t), z * free - single.density(free)).sum(-1)


def _angle(z: Array) -> Array:
    """t with t + tanh t = 2z."""
    twice = 2 * np.abs(np.asarray(z, float))
    t = np.maximum(twice / 2, twice - 1)  # a lower bound that is exact at both ends
    for _ in range(6):
        h = np.tanh(t)
        t = t - (t + h - twice) / (2 - h * h)
    return np.copysign(t, z)
