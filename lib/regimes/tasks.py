"""What is to be learned: regression problems drawn from a seed.

Samples are the columns of X, of shape (d, N); leading axes run over seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal, Self

import numpy as np


@dataclass(frozen=True, eq=False)
class SparseRegression:
    """Gaussian inputs, a sparse linear teacher, noisy labels.

    ``X`` has shape (..., d, N), ``y`` (..., N) and ``w_star`` (..., d); the leading axes run over seeds.
    """

    X: np.ndarray
    y: np.ndarray
    w_star: np.ndarray

    def expand(self, axes: int = 1) -> Self:
        """The same tasks with ``axes`` axes of length 1 after the seeds, for as many axes of settings."""
        lead = self.w_star.ndim - 1
        arrays = {f.name: getattr(self, f.name) for f in fields(self)}
        ones = (1,) * axes
        return replace(
            self, **{n: a.reshape(a.shape[:lead] + ones + a.shape[lead:]) for n, a in arrays.items()}
        )

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


@dataclass(frozen=True, eq=False)
class TransferTask(SparseRegression):
    """A main task, ``w_star``, and the auxiliary task ``w_aux`` (..., d) that shares features with it.

    Only the main task has samples, ``X`` and ``y``: the auxiliary one is taken to be known exactly.
    """

    w_aux: np.ndarray


Normalization = Literal["mean", "unit"]


def overlapping_teachers(
    n: int,
    active: int | Sequence[int],
    overlap: int | Sequence[int],
    *,
    d: int = 1000,
    auxiliary: int = 40,
    normalization: Normalization = "unit",
    seed: int | Sequence[int] = 0,
) -> TransferTask:
    """Two sparse linear teachers with common features, and ``n`` noiseless samples of the main one (B, 2a).

    The auxiliary teacher has ``auxiliary`` = K non-zero entries ±1/√K. The main teacher has ``active`` = k of
    them, ``overlap`` among the auxiliary ones with the same signs, of size 1/√k (``normalization`` "unit", so
    that ‖w*‖ = 1) or 1/k ("mean"). Inputs are uniform on the sphere of radius √d, so that E[xxᵀ] = 1.

    A sequence of seeds gives a leading axis, sequences of ``active`` and ``overlap`` (of one length) a next
    one: their teachers are drawn independently, and see the same inputs. A task depends on its own seed and
    setting only. Raises ValueError for impossible sizes.
    """
    pairs = np.broadcast_arrays(active, overlap)
    for k, o in zip(*(a.flat for a in pairs), strict=True):
        _check_teachers(n, int(k), o.item(), d, auxiliary)
    if normalization not in ("mean", "unit"):
        raise ValueError(f"normalization = {normalization!r}, but must be 'mean' or 'unit'")
    seeds = np.asarray(seed)
    if not seeds.size:
        raise ValueError("seed is an empty sequence: name at least one seed")
    X = np.stack([_on_sphere(n, d, s) for s in seeds.flat]).reshape(*seeds.shape, d, n)
    teachers = [
        _teachers(int(k), int(o), d, auxiliary, s)
        for s in seeds.flat
        for k, o in zip(*(a.flat for a in pairs), strict=True)
    ]
    shape = (*seeds.shape, *pairs[0].shape, d)
    signs, w_aux = (np.stack(a).reshape(shape) for a in zip(*teachers, strict=True))
    w_star = signs / (pairs[0] if normalization == "mean" else np.sqrt(pairs[0]))[..., None]
    X = X.reshape(*seeds.shape, *(1,) * pairs[0].ndim, d, n)
    return TransferTask(X, (w_star[..., None, :] @ X)[..., 0, :], w_star, w_aux)


def _check_teachers(n: int, active: int, overlap: int, d: int, auxiliary: int) -> None:
    sizes = {"n": n, "active": active, "d": d, "auxiliary": auxiliary}
    for name, value in sizes.items():
        if int(value) != value or value < 1:
            raise ValueError(f"{name} = {value!r}, but a whole number of at least 1 is needed")
    if int(overlap) != overlap or not 0 <= overlap <= min(active, auxiliary):
        most = min(active, auxiliary)
        raise ValueError(f"overlap = {overlap!r}, but a whole number between 0 and {most} is needed")
    if auxiliary + active - overlap > d:
        raise ValueError(f"{auxiliary + active - overlap} features do not fit into d = {d} dimensions")


def _teachers(active: int, overlap: int, d: int, auxiliary: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The signs of the main teacher's entries, and the auxiliary teacher."""
    rng = np.random.default_rng([seed, active, overlap])
    features, signs = rng.permutation(d), rng.choice([-1.0, 1.0], d)
    w_aux, main = np.zeros((2, d))
    w_aux[features[:auxiliary]] = 1 / np.sqrt(auxiliary)
    main[features[:overlap]] = 1
    main[features[auxiliary : auxiliary + active - overlap]] = 1
    return signs * main, signs * w_aux


def _on_sphere(n: int, d: int, seed: int) -> np.ndarray:
    X = np.random.default_rng([seed, n]).normal(size=(d, n))
    return X * (np.sqrt(d) / np.linalg.norm(X, axis=0))
