"""Gradient flow on the logistic loss, whose predictors never arrive: what matters is where training stops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import expit

from regimes.potentials import Separable

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class LogisticFlow:
    """The ``predictors`` (L, d) when the loss first fell to each of the ``levels`` (L,), NaN where it never
    did, and the number of ``evaluations`` of the right-hand side."""

    predictors: Array
    levels: Array
    evaluations: int

    @property
    def reached(self) -> Array:
        """Whether the loss came down to each level."""
        return np.isfinite(self.predictors[:, 0])


def logistic_flow(
    X: Array, labels: Array, potential: Separable, levels: Sequence[float], *, rtol: float = 1e-6
) -> LogisticFlow:
    """Gradient flow of the model behind ``potential`` on the mean of ln(1 + exp(−label·wᵀx)).

    ``X`` has shape (d, N), with N of any size, ``labels`` (N,) hold ±1, ``potential`` is that of one network.
    The path is the one of every loss, ∇Q(w) = z with z' = −∇L(w) (B, section on losses), in a time in which
    the loss falls by about a constant factor a unit. ``levels`` (L,) must fall. Raises ValueError for labels
    other than ±1 and levels that do not fall, or are not below the start's loss.
    """
    levels = np.asarray(levels, float)
    if not np.isin(labels, (-1, 1)).all():
        raise ValueError("labels hold a value other than -1 and 1")
    signed = X * labels

    def margins(z: Array) -> Array:
        return potential.inverse_gradient(z) @ signed

    def loss(z: Array) -> float:
        return np.logaddexp(0, -margins(z)).mean()

    def slope(time: float, z: Array) -> Array:
        m = margins(z)
        return signed @ expit(-m) / np.logaddexp(0, -m).sum()

    start = np.zeros(len(X))
    if not (len(levels) and loss(start) > levels[0] and (np.diff(levels) < 0).all() and levels[-1] > 0):
        raise ValueError(f"levels = {levels}, but must fall from below {loss(start):.3g} to above 0")
    events = [lambda t, z, level=level: np.log(loss(z) / level) for level in levels]
    events[-1].terminal = True
    run = solve_ivp(slope, (0, 1e6), start, rtol=rtol, atol=1e-8, events=events)
    seen = [potential.inverse_gradient(at[0]) if len(at) else np.nan * start for at in run.y_events]
    return LogisticFlow(np.array(seen), levels, run.nfev)
