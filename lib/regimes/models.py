"""What learns: diagonal linear networks and how their initialization is described (A, sections 4 and 7.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class DiagonalNetwork:
    """The two-layer diagonal network f(x) = (u₊∘v₊ − u₋∘v₋)ᵀx at one moment.

    All four arrays have shape (..., d), and broadcast against each other; leading axes run over settings
    or seeds. u is the input side and v the output side, but swapping them changes nothing in f.
    Raises ValueError when the shapes disagree or a value is not finite.
    """

    u_plus: Array
    v_plus: Array
    u_minus: Array
    v_minus: Array

    def __post_init__(self) -> None:
        names = ("u_plus", "v_plus", "u_minus", "v_minus")
        arrays = [np.atleast_1d(np.asarray(getattr(self, name), float)) for name in names]
        for name, array in zip(names, arrays, strict=True):
            if not np.isfinite(array).all():
                raise ValueError(f"{name} holds a value that is not finite")
        try:
            arrays = np.broadcast_arrays(*arrays)
        except ValueError:
            shapes = ", ".join(f"{n} {a.shape}" for n, a in zip(names, arrays, strict=True))
            raise ValueError(f"the four weights need shapes that broadcast, but got {shapes}") from None
        for name, array in zip(names, arrays, strict=True):
            object.__setattr__(self, name, array)

    @classmethod
    def from_scale_shape(cls, alpha: float | Array, s: float | Array, d: int) -> DiagonalNetwork:
        """The unbiased start (predictor 0) of scale α = |u||v| and shape s = (|v| − |u|)/(|v| + |u|).

        ``alpha`` > 0 and |``s``| < 1 broadcast to the leading axes; all ``d`` coordinates are alike.
        Raises ValueError outside of these ranges.
        """
        alpha, s = (a[..., None] for a in np.broadcast_arrays(*_checked(alpha, s)))
        every = np.ones(d)
        u, v = np.sqrt(alpha * (1 - s) / (1 + s)) * every, np.sqrt(alpha * (1 + s) / (1 - s)) * every
        return cls(u, v, u, v)

    @classmethod
    def tied(cls, alpha: float | Array, d: int) -> DiagonalNetwork:
        """The start u = v = ``alpha`` on both branches: f = Σ(u₊² − u₋²)x with weights of size ``alpha``.

        This is the model of Woodworth et al. (2020); in terms of scale and shape α = ``alpha``², s = 0.
        """
        return cls.from_scale_shape(np.square(alpha), 0.0, d)

    @property
    def predictor(self) -> Array:
        """The linear predictor w̃ = u₊∘v₊ − u₋∘v₋, shape (..., d)."""
        return self.u_plus * self.v_plus - self.u_minus * self.v_minus

    @property
    def imbalance(self) -> Array:
        """What gradient flow conserves: u² − v² of each branch, shape (2, ..., d), plus branch first."""
        plus = (self.u_plus - self.v_plus) * (self.u_plus + self.v_plus)
        minus = (self.u_minus - self.v_minus) * (self.u_minus + self.v_minus)
        return np.stack([plus, minus])

    @property
    def A(self) -> Array:
        """The part that grows like exp(2∫Xr): (u₊ + v₊)² + (u₋ − v₋)²."""
        return (self.u_plus + self.v_plus) ** 2 + (self.u_minus - self.v_minus) ** 2

    @property
    def B(self) -> Array:
        """The part that decays like exp(−2∫Xr): (u₊ − v₊)² + (u₋ + v₋)²."""
        return (self.u_plus - self.v_plus) ** 2 + (self.u_minus + self.v_minus) ** 2

    @property
    def root_k(self) -> Array:
        """√k = √(AB), conserved by gradient flow; 2(u² + v²) for an unbiased start. Shape (..., d)."""
        return np.sqrt(self.A) * np.sqrt(self.B)


def root_k(alpha: float | Array, s: float | Array) -> Array:
    """√k = 4α(1 + s²)/(1 − s²), through which alone scale and shape act on the limit (A, section 7.1).

    ``alpha`` > 0 and |``s``| < 1 broadcast. Raises ValueError outside of these ranges.
    """
    alpha, s = _checked(alpha, s)
    return (4 * alpha * (1 + s**2) / ((1 - s) * (1 + s)))[()]


def scale_for(root_k: float | Array, s: float | Array) -> Array:
    """The scale α that gives √k = ``root_k`` > 0 at the shape ``s``: the inverse of :func:`root_k` in α."""
    root_k, s = _checked(root_k, s, "root_k")
    return (root_k * (1 - s) * (1 + s) / (4 * (1 + s**2)))[()]


def shape_for(root_k: float | Array, alpha: float | Array) -> Array:
    """The shape s ≥ 0 that gives √k = ``root_k`` at the scale ``alpha``; needs ``root_k`` ≥ 4 ``alpha``."""
    alpha, _ = _checked(alpha, 0.0)
    root_k = np.asarray(root_k, float)
    if not (root_k >= 4 * alpha).all():
        raise ValueError(f"no shape reaches root_k = {root_k} at alpha = {alpha}: root_k is at least 4 alpha")
    return np.sqrt((root_k - 4 * alpha) / (root_k + 4 * alpha))[()]


def _checked(scale: float | Array, s: float | Array, name: str = "alpha") -> tuple[Array, Array]:
    scale, s = np.asarray(scale, float), np.asarray(s, float)
    if not ((scale > 0) & np.isfinite(scale)).all():
        raise ValueError(f"{name} = {scale}, but a scale is positive and finite")
    if not (np.abs(s) < 1).all():
        raise ValueError(f"s = {s}, but a shape lies strictly between -1 and 1")
    return scale, s
