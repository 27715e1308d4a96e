"""Measures: what each says on cases with a known answer."""

import numpy as np
import pytest

from regimes.measures import distance, drift, excess_l1, kkt_residual
from regimes.models import DiagonalNetwork


def test_kkt_residual_is_zero_in_the_span_and_the_rest_outside():
    rng = np.random.default_rng(0)
    X, nu = rng.normal(size=(12, 4)), rng.normal(size=(5, 4))
    assert kkt_residual(nu @ X.T, X).max() < 1e-14
    outside = rng.normal(size=12)
    outside -= X @ np.linalg.lstsq(X, outside, rcond=None)[0]
    expected = np.abs(outside).max()
    np.testing.assert_allclose(kkt_residual(nu @ X.T + outside, X), expected, rtol=1e-12)


def test_kkt_residual_broadcasts_over_matrices():
    rng = np.random.default_rng(1)
    X, v = rng.normal(size=(3, 1, 12, 4)), rng.normal(size=(3, 5, 12))
    found = kkt_residual(v, X)
    assert found.shape == (3, 5)
    assert found[2, 3] == pytest.approx(kkt_residual(v[2, 3], X[2, 0]))
    with pytest.raises(ValueError, match="columns of X"):
        kkt_residual(v, np.ones((2, 12)))
    with pytest.raises(ValueError, match="linearly dependent"):
        kkt_residual(np.array([0.0, 1, 0]), np.array([[1.0, 1], [0, 0], [0, 0]]))


def test_norms():
    w = np.array([[3.0, -4.0, 0.0], [1.0, 1.0, 1.0]])
    np.testing.assert_allclose(distance(w, 0), [5, np.sqrt(3)])
    np.testing.assert_allclose(excess_l1(w, np.array([0, 2.0, 0])), [2.5, 0.5])


def test_drift_is_the_largest_change_of_either_branch():
    start = DiagonalNetwork(np.ones(3), np.ones(3), np.ones(3), np.ones(3))
    later = DiagonalNetwork(np.ones((2, 3)), np.ones(3), np.array([[1, 1, 2.0], [1, 1, 1]]), np.ones(3))
    np.testing.assert_allclose(drift(start, later), [3, 0])
    assert drift(later, later).tolist() == [0, 0]
