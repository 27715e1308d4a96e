"""One step of a stabilized explicit Runge-Kutta method for many stiff systems at once.

The second-order Runge-Kutta-Chebyshev method of Sommeijer, Shampine and Verwer (1998): s stages are stable
up to a spectral radius of about 0.65 s²/h, so that a stiff gradient flow costs the square root of what a
plain explicit method needs, and every stage is one matrix product for the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray
DAMPING = 2 / 13


def stages(h: Array, radius: Array) -> Array:
    """How many stages keep a step of size h stable, for Jacobians with spectrum in [−radius, 0]."""
    return np.maximum(2, 1 + np.sqrt(1 + 1.54 * h * radius).astype(int))


def advance(slope: Callable[[Array, int], Array], u: Array, f: Array, h: Array, s: Array) -> Array:
    """The states after one step of size ``h`` each, from ``u`` with slopes ``f``, both of shape (B, n).

    The systems are sorted by falling number of stages ``s``; ``slope(u, m)`` gives the slopes of the first m.
    """
    b, a, w0, w1 = _polynomials(s)
    h = h[:, None]
    before, now = u, u + b[1] * w1 * h * f
    done = np.empty_like(u)
    for j in range(2, s[0] + 1):
        m, left = np.count_nonzero(s >= j), np.count_nonzero(s > j)
        mu, nu = 2 * b[j] * w0 / b[j - 1], -b[j] / b[j - 2]
        scale = 2 * b[j] * w1 / b[j - 1] * h
        first = (1 - mu - nu) * u - scale * a[j - 1] * f
        slopes = slope(now[:m], m)
        before, now = now[:m], first[:m] + mu[:m] * now[:m] + nu[:m] * before[:m] + scale[:m] * slopes
        done[left:m] = now[left:]
    return done


def error(u: Array, f: Array, new: Array, new_f: Array, h: Array) -> Array:
    """The estimate of the local error that belongs to :func:`advance`."""
    return 0.8 * (u - new) + 0.4 * h[:, None] * (f + new_f)


def _polynomials(s: Array) -> tuple[Array, Array, Array, Array]:
    """b_j and a_j for all j up to the largest s, of shape (s + 1, B, 1), and the two shifts w0, w1 (B, 1)."""
    w0 = 1 + DAMPING / s**2
    one, zero = np.ones_like(w0), np.zeros_like(w0)
    T, D, E = [one, w0], [zero, one], [zero, zero]  # Chebyshev polynomials, first and second derivatives
    for _ in range(2, s[0] + 1):
        E.append(2 * w0 * E[-1] - E[-2] + 4 * D[-1])
        D.append(2 * w0 * D[-1] - D[-2] + 2 * T[-1])
        T.append(2 * w0 * T[-1] - T[-2])
    T, D, E = (np.stack(p) for p in (T, D, E))
    own = (s, np.arange(len(s)))
    b = np.empty_like(T)
    b[2:] = E[2:] / D[2:] ** 2
    b[:2] = b[2]
    return b[..., None], (1 - b * T)[..., None], w0[:, None], (D[own] / E[own])[:, None]
