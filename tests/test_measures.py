"""Measures: what each says on cases with a known answer."""

import numpy as np
import pytest

from regimes.measures import (
    distance,
    drift,
    excess_l1,
    feature_dependence,
    kkt_residual,
    l_order,
    log_derivatives,
)
from regimes.models import DiagonalNetwork
from regimes.potentials import explicit_finetuning_penalty


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


def test_log_derivatives_of_a_product_of_powers_are_its_exponents():
    found = log_derivatives(lambda x, y: 3 * x**2 / y**0.5, [0.1, 7.0], 4.0)
    np.testing.assert_allclose(found, [[2, 2], [-0.5, -0.5]], rtol=1e-14)
    assert l_order(lambda x, y: x / y, 2.0, 3.0) == pytest.approx(1)
    assert feature_dependence(lambda x, y: x / y, 2.0, 3.0) == pytest.approx(-1)
    with pytest.raises(ValueError, match="positive"):
        log_derivatives(lambda x: x, 0.0)


@pytest.mark.parametrize("cosine", [1.0, 0.9, -0.5])
def test_order_of_the_explicit_penalty_by_differences(cosine):
    def penalty(m, a):
        return explicit_finetuning_penalty(m, a, cosine)

    m, a, h = 0.7, 1.3, 1e-5
    order = (np.log(penalty(m * (1 + h), a)) - np.log(penalty(m / (1 + h), a))) / (2 * np.log1p(h))
    assert l_order(penalty, m, a) == pytest.approx(float(order), rel=1e-8)
    assert l_order(penalty, m, a) + feature_dependence(penalty, m, a) == pytest.approx(1, abs=1e-12)
