"""Linear problems with leading axes, taken apart into groups that share one X and so its matrix products."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

Array = np.ndarray


def checked_matrix(X: Array) -> Array:
    """X (..., d, N) as a float64 array, or a ValueError that says what is wrong."""
    X = np.asarray(X, float)
    if X.ndim < 2:
        raise ValueError(f"X has shape {X.shape}, but (..., d, N) is needed: samples are the columns of X")
    d, N = X.shape[-2:]
    if not 1 <= N <= d:
        raise ValueError(
            f"N = {N} samples in d = {d} dimensions, but 1 <= N <= d is needed to interpolate any y "
            "(samples are the columns of X)"
        )
    if not np.isfinite(X).all():
        raise ValueError("X holds a value that is not finite")
    return X


def basis_of(X: Array) -> tuple[Array, Array]:
    """The QR decomposition of X (..., d, N), or a ValueError where its columns are linearly dependent."""
    Q, R = np.linalg.qr(X)
    size = np.abs(np.diagonal(R, axis1=-2, axis2=-1))
    if (size.min(-1) <= 1e-13 * size.max(-1)).any():
        raise ValueError("the columns of X are linearly dependent, so that not every y can be interpolated")
    return Q, R


def checked_data(X: Array, y: Array) -> tuple[Array, Array]:
    """X (..., d, N) and y (..., N) as float64 arrays, or a ValueError that says what is wrong."""
    X, y = checked_matrix(X), np.asarray(y, float)
    if y.ndim < 1 or X.shape[-1] != y.shape[-1]:
        raise ValueError(f"y has shape {y.shape}, but X of shape {X.shape} needs (..., {X.shape[-1]})")
    if not np.isfinite(y).all():
        raise ValueError("y holds a value that is not finite")
    return X, y


def loss_levels(levels: Sequence[float], stop_loss: float, floor: float = 0.0) -> Array:
    """The loss levels, falling, with ``stop_loss`` as the last, or a ValueError below the ``floor``."""
    if not (np.isfinite(stop_loss) and stop_loss > floor):
        raise ValueError(
            f"stop_loss = {stop_loss!r}, but must be finite and above {floor:.1e}"
            + (", the noise floor: a smaller residual is not resolved at this accuracy" if floor else "")
        )
    levels = np.unique(np.append(np.asarray(levels, float), stop_loss))[::-1]
    if not np.isfinite(levels).all() or levels[-1] < stop_loss:
        raise ValueError(f"the loss levels must be finite and at least stop_loss = {stop_loss}")
    return levels


def batch_of(X: Array, y: Array, *others: tuple[int, ...]) -> tuple[int, ...]:
    """The common leading axes of X, y and ``others``, or a ValueError that shows them."""
    leads = (X.shape[:-2], y.shape[:-1], *others)
    try:
        return np.broadcast_shapes(*leads)
    except ValueError:
        raise ValueError(
            f"the leading axes {' and '.join(map(str, leads))} of X, y and the settings do not broadcast; "
            "give every X its own axis before those of the settings, e.g. X[:, None]"
        ) from None


def check_width(last_axis: int, d: int, name: str) -> None:
    """Refuse settings whose last axis is neither 1 nor d."""
    if last_axis not in (1, d):
        raise ValueError(
            f"the last axis of {name} has length {last_axis}, but must have 1 or d = {d}; "
            f"a batch of settings has shape (settings, 1)"
        )


def groups(X: Array, y: Array, batch: tuple[int, ...]) -> Iterator[tuple[Array, Array, Array]]:
    """For every distinct X: that matrix (d, N), its labels (B, N), and where they stand in the flat batch."""
    each = X.reshape(-1, *X.shape[-2:])
    which = np.broadcast_to(np.arange(len(each)).reshape(X.shape[:-2]), batch).ravel()
    labels = np.broadcast_to(y, batch + y.shape[-1:]).reshape(-1, y.shape[-1])
    for g, matrix in enumerate(each):
        places = np.flatnonzero(which == g)
        yield matrix, labels[places], places
