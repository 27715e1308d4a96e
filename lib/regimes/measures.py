"""How to tell: residuals, distances and invariants that the theory makes statements about."""

from __future__ import annotations

import numpy as np

from regimes._batches import basis_of, checked_matrix
from regimes.models import DiagonalNetwork

Array = np.ndarray


def kkt_residual(gradient: Array, X: Array) -> Array:
    """How far ∇Q is from the span of the samples: the largest entry of v − X(XᵀX)⁻¹Xᵀv.

    ``gradient`` v has shape (..., d) and ``X`` (..., d, N), with leading axes that broadcast. Zero for the
    minimizer of Q among interpolating predictors, and along the whole gradient flow. Raises ValueError for
    linearly dependent columns of X.
    """
    Q, _ = basis_of(checked_matrix(X))
    v = np.asarray(gradient, float)[..., None, :]
    return np.abs(v - (v @ Q) @ np.swapaxes(Q, -1, -2)).max((-1, -2))


def distance(a: Array, b: Array) -> Array:
    """The Euclidean distance of predictors of shape (..., d)."""
    return np.linalg.norm(np.asarray(a, float) - np.asarray(b, float), axis=-1)


def excess_l1(w: Array, least: Array) -> Array:
    """‖w‖₁/‖least‖₁ − 1 for predictors of shape (..., d), where ``least`` has the least ℓ1 norm."""
    return np.abs(w).sum(-1) / np.abs(least).sum(-1) - 1


def drift(start: DiagonalNetwork, later: DiagonalNetwork) -> Array:
    """The largest change of u² − v² over branches and coordinates, which gradient flow keeps at zero.

    ``later`` has the leading axes of ``start``, and may have one more for moments (such as the path of a
    :class:`regimes.flow.ParameterFlow`); the result has the leading axes of ``later``.
    """
    before, after = start.imbalance, later.imbalance
    if after.ndim > before.ndim:
        before = before[..., None, :]
    return np.abs(after - before).max((0, -1))
