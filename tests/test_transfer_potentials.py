"""Transfer penalties: high precision, independent minimizations, convex duality, homogeneity, refusals."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad, solve_ivp
from scipy.optimize import minimize_scalar

from regimes import potentials as P
from regimes.interpolate import interpolate
from regimes.models import DiagonalNetwork
from regimes.potentials import Hypentropy, ImplicitMultiTask

SIZES = 10.0 ** np.arange(-12, 13, 3)
MAGNITUDE = st.floats(-6, 6).map(lambda e: 10.0**e)


def relative_error(found, exact):
    return max(float(abs(mpmath.mpf(float(f)) / e - 1)) for f, e in zip(np.ravel(found), exact, strict=True))


@pytest.mark.parametrize("a", [1e-9, 0.3, 1e6])
def test_penalties_keep_their_digits_over_24_decades(a):
    with mpmath.workdps(60):
        A, B = mpmath.mpf(a), [mpmath.mpf(float(b)) for b in SIZES]
        group = [mpmath.sqrt(A * A + b * b) - A for b in B]
        implicit = [b / 2 * mpmath.asinh(b / A) for b in B]
        k = A / 2
        psi = [b * mpmath.asinh(b / k) - mpmath.sqrt(b * b + k * k) + k for b in B]
        assert relative_error(P.mtl_penalty(SIZES, a), group) < 1e-15
        assert relative_error(P.implicit_mtl_penalty(SIZES, a), implicit) < 1e-15
        assert relative_error(P.finetuning_penalty(SIZES, a), psi) < 1e-15


def test_constants_of_finetuning_are_those_of_a_pretrained_network():
    rng = np.random.default_rng(0)
    a, alpha, gamma = rng.normal(size=50), 0.03, 0.2
    start = DiagonalNetwork.tied(alpha, 50)
    R = Hypentropy.from_network(start).gradient(a)
    up, um = alpha * np.exp(R), alpha * np.exp(-R)
    network = DiagonalNetwork(up, gamma, um, gamma)
    np.testing.assert_allclose(up**2 - um**2, a, rtol=1e-12)
    np.testing.assert_allclose(P.finetuning_kappa(a, gamma**2, alpha**2), network.root_k / 2, rtol=1e-12)
    np.testing.assert_allclose(P.finetuning_start(a, gamma**2, alpha**2), network.predictor, rtol=1e-11)
    potential = Hypentropy.finetuning(a, gamma, alpha)
    np.testing.assert_allclose(potential.root_k, network.root_k, rtol=1e-12)
    np.testing.assert_allclose(potential.start, network.predictor, rtol=1e-11)
    rescaled = DiagonalNetwork(0.3 * up, gamma, 0.3 * um, gamma)
    found = Hypentropy.finetuning(a, gamma, alpha, 0.3)
    np.testing.assert_allclose(found.root_k, rescaled.root_k, rtol=1e-12)
    np.testing.assert_allclose(found.start, rescaled.predictor, rtol=1e-11)


def test_an_untouched_feature_starts_at_zero():
    assert P.finetuning_start(0.0, 0.01, 0.0) == 0
    assert P.finetuning_kappa(0.0, 0.01, 0.04) == pytest.approx(0.05)


def test_the_finetuning_penalty_is_twice_the_potential_above_its_minimum():
    a, b = np.array([0.7, -0.4, 0.0]), np.linspace(-2, 2, 9)[:, None]
    potential = Hypentropy.finetuning(a, 0.3, 0.1)
    least = potential.density(potential.start)
    found = P.finetuning_penalty(b, a, 0.09, 0.01)
    np.testing.assert_allclose(found, 2 * (potential.density(b) - least), rtol=1e-12, atol=1e-14)
    assert P.finetuning_penalty(potential.start, a, 0.09, 0.01) == pytest.approx(0, abs=1e-16)


def test_the_symmetrized_penalty_is_that_of_equal_branches():
    a, gamma = np.array([0.7, -0.4]), 0.3
    root = np.sqrt(np.abs(a))
    potential = Hypentropy.from_network(DiagonalNetwork(root, gamma, root, gamma))
    np.testing.assert_allclose(
        P.symmetrized_penalty(0.8, a, gamma**2), 2 * potential.density(0.8), rtol=1e-13
    )


# Beyond these ratios the least is a difference that a search in float64 does not resolve.
@given(MAGNITUDE, st.floats(-2, 3).map(lambda e: 10.0**e), st.floats(-1, 1))
@settings(max_examples=100, deadline=None)
def test_the_explicit_penalty_is_the_least_over_sizes(a, ratio, cosine):
    m = ratio * a
    found = float(P.explicit_finetuning_penalty(m, a, cosine))
    scale = np.sqrt(m) + np.sqrt(a)

    def cost(log_rho):
        rho, size = np.exp(log_rho), np.sqrt(a)
        return (m / rho) ** 2 + (rho - size) ** 2 + 2 * rho * size * (1 - cosine)

    grid = np.log(scale) + np.linspace(-12, 3, 600)
    best = grid[np.argmin(cost(grid))]
    least = minimize_scalar(
        cost, bounds=(best - 0.05, best + 0.05), method="bounded", options={"xatol": 1e-10}
    )
    assert found == pytest.approx(least.fun, rel=1e-9)


@given(MAGNITUDE, MAGNITUDE, MAGNITUDE, MAGNITUDE, MAGNITUDE)
@settings(max_examples=100, deadline=None)
def test_all_penalties_are_homogeneous_of_degree_one(t, b, a, gamma2, alpha2):
    for penalty, arguments in (
        (P.mtl_penalty, (b, a)),
        (P.implicit_mtl_penalty, (b, a)),
        (P.symmetrized_penalty, (b, a, gamma2)),
        (lambda *x: P.finetuning_penalty(*x, shift=False), (b, a, gamma2, alpha2)),
        (P.explicit_finetuning_penalty, (b, a)),
    ):
        scaled = penalty(*(t * x for x in arguments))
        assert scaled == pytest.approx(t * float(penalty(*arguments)), rel=1e-9)


def test_torch_tensors_give_the_same_values():
    torch = pytest.importorskip("torch")
    b, a = np.array([0.1, 2.0]), np.array([0.5, 0.3])
    tensors = torch.tensor(b), torch.tensor(a)
    for penalty in (
        P.mtl_penalty,
        P.implicit_mtl_penalty,
        P.finetuning_penalty,
        P.explicit_finetuning_penalty,
    ):
        np.testing.assert_allclose(penalty(*tensors).numpy(), penalty(b, a), rtol=1e-14)


def test_implicit_potential_density_is_the_twofold_integral_of_its_metric():
    potential = ImplicitMultiTask(0.4, 1.0)
    for b in (0.05, 0.7, 6.0):
        slope = quad(lambda x: potential.curvature(x)[0], 0, b, epsabs=0, epsrel=1e-12)[0]
        assert potential.gradient(b)[0] == pytest.approx(slope, rel=1e-11)
        area = quad(lambda x: potential.gradient(x)[0], 0, b, epsabs=0, epsrel=1e-12)[0]
        assert potential.density(b)[0] == pytest.approx(area, rel=1e-11)


@given(st.floats(-4, 4).map(lambda e: 10.0**e), st.floats(-20, 20))
@settings(max_examples=200, deadline=None)
def test_implicit_potential_inverts_and_is_conjugate(a, z):
    potential, z = ImplicitMultiTask(a, 1.0), np.array([z])
    w = potential.inverse_gradient(z)
    np.testing.assert_allclose(potential.gradient(w), z, rtol=1e-12, atol=1e-14)
    young = potential.value(w) + potential.conjugate(z) - (z * w).sum()
    assert young == pytest.approx(0, abs=1e-12 * (abs(z * w).sum() + a))
    h = 1e-5
    rate = np.log(potential.curvature(potential.inverse_gradient(z + h)) / potential.curvature(w)) / h
    assert np.abs(rate).max() < potential.steepness


def test_idle_features_are_those_of_a_hypentropy():
    mixed, alone = ImplicitMultiTask([0.0, 0.3], 1e-3), Hypentropy(1e-3)
    w, z = np.array([0.2, 0.2]), np.array([3.0, 3.0])
    for name, x in (("density", w), ("gradient", w), ("curvature", w), ("inverse_gradient", z)):
        found = getattr(mixed, name)(x)
        assert found[0] == pytest.approx(getattr(alone, name)(x)[0], rel=1e-12)
        assert found[1] != pytest.approx(found[0], rel=0.01)
    idle = ImplicitMultiTask([0.0], 1e-3).conjugate(z[:1])
    assert idle == pytest.approx(alone.conjugate(z[:1]), rel=1e-12)


def test_the_constant_of_idle_features_by_integration():
    def held(G, s):
        w, p, q, W, P_, Q = s
        g = -(p * q + P_ * Q) / (w * w + p * p + W * W + P_ * P_)
        return [g * p + q, g * w, w, -(g * P_ + Q), -g * W, -W]

    w, _, q, W, _, Q = solve_ivp(held, (0, 12), np.ones(6), method="DOP853", rtol=1e-12, atol=1e-14).y[:, -1]
    assert (w * q - W * Q) * np.exp(-24) == pytest.approx(P.IDLE, rel=1e-9)


def test_solvers_take_the_implicit_potential_with_batches():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(3, 1, 9, 4)), rng.normal(size=(3, 1, 4))
    aux = np.where(np.arange(9) < 4, 0.5, 0.0)
    potential = ImplicitMultiTask.from_start(aux, np.array([[1e-1], [1e-2]]))
    found = interpolate(X, y, potential)
    assert found.converged.shape == (3, 2) and found.converged.all()
    assert (np.abs(found.gap) < 1e-10 * np.abs(found.primal_value)).all()
    one = interpolate(X[2, 0], y[2, 0], ImplicitMultiTask.from_start(aux, 1e-2))
    np.testing.assert_allclose(found.solution[2, 1], one.solution, rtol=1e-9, atol=1e-12)


def test_values_without_a_potential_are_refused():
    with pytest.raises(ValueError, match="aux"):
        ImplicitMultiTask(np.nan, 1.0)
    with pytest.raises(ValueError, match="root_k"):
        ImplicitMultiTask(1.0, 0.0)
    with pytest.raises(ValueError, match="root_k"):
        Hypentropy.finetuning(0.0, 0.0)
