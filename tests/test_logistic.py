"""The flow on the logistic loss, against a parameter-space descent and in the limit of margins."""

import numpy as np
import pytest

from regimes.logistic import logistic_flow
from regimes.models import DiagonalNetwork
from regimes.potentials import Hypentropy

rng = np.random.default_rng(2)
X, labels = rng.normal(size=(8, 20)), np.sign(rng.normal(size=20))
labels = np.sign(X[0] + 0.5 * X[1])
START = DiagonalNetwork.from_scale_shape(1e-2, 0.3, 8)


def loss(w):
    return np.logaddexp(0, -labels * (w @ X)).mean()


def test_it_stops_at_its_levels_on_the_path_of_the_weights():
    levels = [0.5, 0.2, 0.05]
    flow = logistic_flow(X, labels, Hypentropy.from_network(START), levels)
    assert flow.reached.all()
    np.testing.assert_allclose([loss(w) for w in flow.predictors], levels, rtol=1e-4)
    up, vp, um, vm = START.u_plus, START.v_plus, START.u_minus, START.v_minus
    for level, w in zip(levels, flow.predictors, strict=True):
        while loss(up * vp - um * vm) > level:
            force = 1e-3 * X @ (labels / (1 + np.exp(labels * ((up * vp - um * vm) @ X)))) / 20
            up, vp, um, vm = up + vp * force, vp + up * force, um - vm * force, vm - um * force
        np.testing.assert_allclose(w, up * vp - um * vm, atol=2e-2 * np.abs(w).max())


def test_wrong_settings_are_refused():
    potential = Hypentropy.from_network(START)
    with pytest.raises(ValueError, match="labels"):
        logistic_flow(X, 0 * labels, potential, [0.1])
    with pytest.raises(ValueError, match="must fall"):
        logistic_flow(X, labels, potential, [0.1, 0.2])
    with pytest.raises(ValueError, match="must fall"):
        logistic_flow(X, labels, potential, [0.9])
