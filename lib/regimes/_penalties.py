"""What one weight of the main task costs, given the same weight in the auxiliary task (B).

Each penalty takes NumPy arrays or torch tensors, which broadcast; torch can differentiate all of them. Sizes
of weights and starts come as γ² and α², in the unit of the weights b and a of the predictors.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def mtl_penalty(b: Any, a: Any) -> Any:
    """√(a² + b²) − |a|: what ``b`` adds to the group norm that weight decay minimizes (B, Corollary 1).

    Not defined at a = b = 0, where it is 0 by continuity.
    """
    xp, b, a = _alike(b, a)
    return b * b / (xp.hypot(a, b) + abs(a))  # the difference would cancel for small b


def implicit_mtl_penalty(b: Any, a: Any) -> Any:
    """(b/2) arcsinh(b/|a|): gradient flow from a vanishing start once the auxiliary task is fitted; a ≠ 0."""
    xp, b, a = _alike(b, a)
    return b / 2 * xp.asinh(b / abs(a))


def finetuning_kappa(a: Any, gamma2: Any = 0.0, alpha2: Any = 0.0) -> Any:
    """κ = ½√(a² + 4(α² + γ²)²) of a network pretrained from α to ``a``, with a new readout γ."""
    xp, a, gamma2, alpha2 = _alike(a, gamma2, alpha2)
    return xp.hypot(a / 2, alpha2 + gamma2)


def finetuning_start(a: Any, gamma2: Any = 0.0, alpha2: Any = 0.0) -> Any:
    """β₀ = γ(w₊ − w₋), the predictor of that network: γ a/√(√(a² + 4α⁴) + 2α²), which is 0 at a = 0."""
    xp, a, gamma2, alpha2 = _alike(a, gamma2, alpha2)
    grown = xp.hypot(a, 2 * alpha2) + 2 * alpha2
    return xp.sqrt(gamma2) * a / xp.sqrt(xp.where(grown > 0, grown, 1.0))


def finetuning_penalty(b: Any, a: Any, gamma2: Any = 0.0, alpha2: Any = 0.0, *, shift: bool = True) -> Any:
    """D_Ψ(b, β₀), the divergence that finetuning minimizes (B, Corollary 2, for a network really pretrained).

    Ψ'(b) = arcsinh(b/κ) with :func:`finetuning_kappa`, and β₀ of :func:`finetuning_start`. It is twice the
    potential ``Hypentropy.finetuning``, counted from its minimum. Without ``shift`` it is Ψ(b), as if β₀ = 0.
    """
    start = finetuning_start(a, gamma2, alpha2) if shift else 0.0
    return _divergence(b, finetuning_kappa(a, gamma2, alpha2), start)


def symmetrized_penalty(b: Any, a: Any, gamma2: Any = 0.0) -> Any:
    """Ψ with κ = |a| + γ² and no shift, of a network with √|a| on both branches (the paper's figures)."""
    return _divergence(b, abs(a) + gamma2, 0.0)


def explicit_finetuning_penalty(m: Any, a: Any, cosine: Any = 1.0) -> Any:
    """R(m) = min over ρ > 0 of (m/ρ)² + ρ² + |a| − 2ρ√|a| cos, the least squared way of a unit (B, Prop. 3).

    Its hidden weights, of size √|a|, move to the size ρ and by the angle whose ``cosine`` is given (1 for a
    diagonal network); its readout grows from 0 to m/ρ. ``m`` > 0 is what the unit then contributes.
    """
    xp, m, a, cosine = _alike(m, a, cosine)
    size = xp.sqrt(abs(a))
    rho = _constant_like(m, _stationary_size(*map(_values, (m, size, cosine))))
    return (m / rho) ** 2 + (rho - size) ** 2 + 2 * rho * size * (1 - cosine)


def _divergence(b: Any, kappa: Any, start: Any) -> Any:
    """Ψ(b) − Ψ(start) − Ψ'(start)(b − start) for Ψ'(x) = arcsinh(x/κ), written without cancelling terms."""
    xp, b, kappa, start = _alike(b, kappa, start)
    roots = xp.hypot(b, kappa) + xp.hypot(start, kappa)
    return b * (xp.asinh(b / kappa) - xp.asinh(start / kappa)) - (b - start) * (b + start) / roots


def _stationary_size(m: np.ndarray, size: np.ndarray, cosine: np.ndarray) -> np.ndarray:
    """The one positive root ρ of ρ⁴ − size·cos·ρ³ − m², by Newton's method from above, where it is convex."""
    pull = size * cosine
    rho = np.sqrt(np.abs(m)) + np.maximum(pull, 0)
    for _ in range(80):
        rho = rho - (rho**3 * (rho - pull) - m**2) / (rho**2 * (4 * rho - 3 * pull))
    return rho


def _alike(*numbers: Any) -> tuple[Any, ...]:
    """The module that computes with these numbers, torch if one is a tensor, and the numbers in its type."""
    torch = sys.modules.get("torch")  # whoever passes a tensor has imported it
    if torch and any(isinstance(x, torch.Tensor) for x in numbers):
        return torch, *(torch.as_tensor(x, dtype=torch.float64) for x in numbers)
    return np, *(np.asarray(x, float) for x in numbers)


def _values(x: Any) -> np.ndarray:
    return x.detach().numpy() if hasattr(x, "detach") else x


def _constant_like(x: Any, values: np.ndarray) -> Any:
    """``values`` as the type of x. At a stationary ρ the derivatives of R are those at constant ρ."""
    return _alike(x, values)[2] if hasattr(x, "detach") else values
