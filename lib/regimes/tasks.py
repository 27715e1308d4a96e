"""What is to be learned: regression problems drawn from a seed.

Samples are the columns of X, of shape (d, N); leading axes run over seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class SparseRegression:
    """Gaussian inputs, a sparse linear teacher, noisy labels.

    ``X`` has shape (..., d, N), ``y`` (..., N) and ``w_star`` (..., d); the leading axes run over seeds.
    """

    X: np.ndarray
    y: np.ndarray
    w_star: np.ndarray

    def expand(self, axes: int = 1) -> SparseRegression:
        """The same tasks with ``axes`` axes of length 1 after the seeds, for as many axes of settings."""
        lead = self.w_star.shape[:-1] + (1,) * axes
        arrays = (self.X, self.y, self.w_star)
        return SparseRegression(*(a.reshape(lead + a.shape[self.w_star.ndim - 1 :]) for a in arrays))

    def population_error(self, w: np.ndarray) -> np.ndarray:
        """The expected squared error on a fresh noiseless sample, exactly ||w - w_star||² for white inputs.

        ``w`` has shape (..., d) with the seeds first; further axes (settings) may follow them.
        """
        w = np.asarray(w, float)
        aligned = self.expand(max(0, w.ndim - self.w_star.ndim))
        return np.square(w - aligned.w_star).sum(-1)


def sparse_regression(
    N: int = 100, d: int = 1000, r: int = 5, noise: float = 0.01, seed: int | Sequence[int] = 0
) -> SparseRegression:
    """Draw y = Xᵀw* + noise, with standard normal X and w* holding ``r`` entries 1/√r (A, section 7).

    ``N`` samples in ``d`` dimensions; ``noise`` is the variance of the labels' noise. A sequence of seeds
    gives that many tasks along a leading axis, each the same as the one drawn from its seed alone.
    The defaults are the paper's. Raises ValueError for impossible sizes.
    """
    for name, value in {"N": N, "d": d, "r": r}.items():
        if int(value) != value or value < 1:
            raise ValueError(f"{name} = {value!r}, but a whole number of at least 1 is needed")
    if r > d:
        raise ValueError(f"r = {r} non-zero entries do not fit into d = {d} dimensions")
    if not 0 <= noise < np.inf:
        raise ValueError(f"noise = {noise!r}, but a variance is finite and at least 0")
    if np.ndim(seed) == 0:
        return SparseRegression(*_draw(N, d, r, noise, seed))
    if len(seed) == 0:
        raise ValueError("seed is an empty sequence: name at least one seed")
    return SparseRegression(*map(np.stack, zip(*(_draw(N, d, r, noise, s) for s in seed), strict=True)))


def _draw(N: int, d: int, r: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(d, N))
    w_star = np.zeros(d)
    w_star[rng.choice(d, r, replace=False)] = 1 / np.sqrt(r)
    return X, X.T @ w_star + np.sqrt(noise) * rng.normal(size=N), w_star
