"""How to tell: residuals, distances and invariants that the theory makes statements about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


def log_derivatives(penalty: Callable[..., Any], *arguments: float | Array) -> Array:
    """∂ ln P/∂ ln x for each of the positive ``arguments`` x of a penalty, by automatic differentiation.

    The penalty maps torch tensors, the arguments broadcast to a common shape (...), to a tensor of that
    shape, entry by entry. Returns shape (arguments, ...). Raises ValueError where an argument is not
    positive.
    """
    import torch  # heavy, and the other measures do without

    arrays = np.broadcast_arrays(*(np.asarray(x, float) for x in arguments))
    if not all((x > 0).all() for x in arrays):
        raise ValueError("a logarithmic derivative needs arguments that are positive")
    leaves = [torch.tensor(x, requires_grad=True) for x in arrays]
    value = penalty(*leaves)
    slopes = torch.autograd.grad(value.sum(), leaves)
    parts = [(x * slope / value).detach().numpy() for x, slope in zip(leaves, slopes, strict=True)]
    return np.stack(parts)


def l_order(penalty: Callable[..., Any], b: float | Array, *arguments: float | Array) -> Array:
    """∂ ln P(b, ...)/∂ ln b: 2 where the penalty acts like ℓ2, 1 like ℓ1 (B, section on regimes)."""
    return log_derivatives(penalty, b, *arguments)[0]


def feature_dependence(
    penalty: Callable[..., Any], b: float | Array, aux: float | Array, *arguments: float | Array
) -> Array:
    """∂ ln P(b, a, ...)/∂ ln a: −1 where the penalty is inversely proportional to the auxiliary weight a."""
    return log_derivatives(penalty, b, aux, *arguments)[1]
