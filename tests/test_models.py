"""Diagonal networks: descriptions of an initialization agree with its weights."""

import numpy as np
import pytest

from regimes.models import DiagonalNetwork, root_k, scale_for, shape_for


def random_network(seed, d=30, batch=()):
    rng = np.random.default_rng(seed)
    return DiagonalNetwork(*(rng.normal(size=(4, *batch, d)) * 10 ** rng.uniform(-1.5, 0.2, (4, *batch, d))))


@pytest.mark.parametrize("s", [-0.9, 0.0, 0.5, 0.99])
def test_scale_and_shape_are_those_of_the_weights(s):
    network = DiagonalNetwork.from_scale_shape(0.01, s, 7)
    u, v = network.u_plus, network.v_plus
    np.testing.assert_allclose(u * v, 0.01, rtol=1e-14)
    np.testing.assert_allclose((v - u) / (v + u), s, atol=1e-14)
    np.testing.assert_array_equal(network.predictor, np.zeros(7))
    np.testing.assert_allclose(network.root_k, root_k(0.01, s), rtol=1e-13)
    np.testing.assert_allclose(network.root_k, 2 * (u**2 + v**2), rtol=1e-13)


def test_k_of_any_start_is_AB_and_the_square_of_all_weights_less_the_output():
    network = random_network(0)
    squares = network.u_plus**2 + network.v_plus**2 + network.u_minus**2 + network.v_minus**2
    expected = squares**2 - 4 * network.predictor**2
    np.testing.assert_allclose(network.A * network.B, expected, rtol=1e-12)
    np.testing.assert_allclose(network.root_k**2, expected, rtol=1e-12)


def test_half_the_log_ratio_of_A_and_B_is_the_offset():
    network = random_network(1)
    offset = np.arcsinh(2 * network.predictor / network.root_k)
    np.testing.assert_allclose(np.log(network.A / network.B) / 2, offset, rtol=1e-10, atol=1e-12)


def test_tied_weights_are_balanced_with_root_k_four_alpha_squared():
    network = DiagonalNetwork.tied([0.3, 2.0], 5)
    np.testing.assert_allclose(network.u_plus, np.tile([[0.3], [2.0]], 5))
    np.testing.assert_allclose(network.imbalance, 0, atol=1e-15)
    np.testing.assert_allclose(network.root_k[:, 0], [4 * 0.09, 4 * 4.0])


def test_pretrained_start_has_root_k_of_paper_B():
    beta, gamma = np.random.default_rng(0).normal(size=(2, 20))
    hidden = np.sqrt(np.abs(beta))
    network = DiagonalNetwork(hidden, gamma, hidden, gamma)
    np.testing.assert_allclose(network.root_k, 2 * (np.abs(beta) + gamma**2), rtol=1e-14)


def test_a_single_branch_is_degenerate_when_balanced():
    u = np.array([0.3, 0.7])
    assert (DiagonalNetwork(u, u, 0 * u, 0 * u).root_k == 0).all()
    v = np.array([0.5, 0.1])
    np.testing.assert_allclose(DiagonalNetwork(u, v, 0 * u, 0 * u).root_k, np.abs(u**2 - v**2), rtol=1e-13)


def test_settings_broadcast_to_leading_axes():
    network = DiagonalNetwork.from_scale_shape(np.logspace(-3, 0, 4)[:, None], np.array([0, 0.5]), 6)
    assert network.predictor.shape == (4, 2, 6)
    assert network.imbalance.shape == (2, 4, 2, 6)
    np.testing.assert_allclose(network.u_plus[2, 1], DiagonalNetwork.from_scale_shape(0.1, 0.5, 6).u_plus)


def test_inverse_helpers_invert_root_k():
    alpha, s = np.logspace(-6, 2, 9)[:, None], np.array([0.0, 0.5, 0.9, 0.999])
    np.testing.assert_allclose(scale_for(root_k(alpha, s), s), np.broadcast_to(alpha, (9, 4)), rtol=1e-12)
    np.testing.assert_allclose(shape_for(root_k(alpha, s), alpha), np.broadcast_to(s, (9, 4)), atol=1e-7)
    assert root_k(1e-3, 0.5) == root_k(1e-3, -0.5)
    with pytest.raises(ValueError, match="at least 4 alpha"):
        shape_for(0.1, 1.0)


@pytest.mark.parametrize("alpha", [0, -1, np.nan, np.inf])
def test_scales_out_of_range_are_refused(alpha):
    with pytest.raises(ValueError, match=f"alpha = {float(alpha)}"):
        DiagonalNetwork.from_scale_shape(alpha, 0, 3)
    with pytest.raises(ValueError, match=f"alpha = {float(alpha)}"):
        root_k(alpha, 0)


@pytest.mark.parametrize("s", [1, -1, np.nan])
def test_shapes_out_of_range_are_refused(s):
    with pytest.raises(ValueError, match=f"s = {float(s)}"):
        DiagonalNetwork.from_scale_shape(1, s, 3)
    with pytest.raises(ValueError, match=f"s = {float(s)}"):
        root_k(1, s)


def test_weights_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"v_plus \(2,\)"):
        DiagonalNetwork(np.ones(3), np.ones(2), np.ones(3), np.ones(3))
    with pytest.raises(ValueError, match="u_minus"):
        DiagonalNetwork(1.0, 1.0, np.nan, 1.0)
