"""Potentials: high-precision values over 600 decades, convex duality, special cases, refusals."""

import subprocess
import sys
import warnings

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from regimes.models import DiagonalNetwork
from regimes.potentials import Hypentropy

RATIOS = 10.0 ** np.arange(-300, 301, 12)
MODERATE = st.floats(-1e6, 1e6, allow_subnormal=False)
ROOTS = st.floats(-12, 6).map(lambda e: 10.0**e)


@pytest.fixture(autouse=True)
def no_warning_is_allowed():
    with warnings.catch_warnings(), mpmath.workdps(700):
        warnings.simplefilter("error")
        yield


def exact(x, root_k):
    """q, q', q'' of the unbiased potential with 700 digits: the printed formula as it stands."""
    x, root_k = mpmath.mpf(float(x)), mpmath.mpf(float(root_k))
    t = 2 * x / root_k
    root = mpmath.sqrt(1 + t * t)
    return root_k / 4 * (1 - root + t * mpmath.asinh(t)), mpmath.asinh(t) / 2, 1 / (root_k * root)


def relative_errors(found, expected):
    pairs = zip(np.ravel(found), expected, strict=True)
    return [float(abs(mpmath.mpf(float(a)) / b - 1)) for a, b in pairs]


@pytest.mark.parametrize("root_k", [1e-4, 1.0, 3e4])
@pytest.mark.parametrize("sign", [1, -1])
def test_density_gradient_and_curvature_over_600_decades(root_k, sign):
    x = sign * RATIOS[(RATIOS * root_k > 1e-300) & (RATIOS * root_k < 1e300)] * root_k
    potential = Hypentropy(root_k)
    q, gradient, curvature = zip(*(exact(v, root_k) for v in x), strict=True)
    visible = [i for i, v in enumerate(q) if 1e-290 < v < 1e300]  # q itself leaves the range of float64
    assert len(visible) > 30
    assert max(relative_errors(potential.density(x[visible]), [q[i] for i in visible])) < 2e-15
    assert max(relative_errors(potential.gradient(x), gradient)) < 1e-15
    assert max(relative_errors(potential.curvature(x), curvature)) < 1e-15


@pytest.mark.parametrize("root_k", [1e-300, 1e-30, 1.0, 1e10])
def test_dual_side_over_600_decades(root_k):
    z = np.concatenate([10.0 ** np.arange(-290, 0, 10), np.linspace(1, 690, 80)])
    z = z[np.log(root_k) + 2 * z < 690]
    potential = Hypentropy(root_k)
    k, e = mpmath.mpf(root_k), [mpmath.mpf(2 * float(v)) for v in z]
    w = [k / 2 * mpmath.sinh(v) for v in e]
    visible = [i for i, v in enumerate(w) if v > 1e-300]
    found = potential.inverse_gradient(z[visible])
    assert max(relative_errors(found, [w[i] for i in visible])) < 2e-15
    assert max(relative_errors(potential.inverse_curvature(z), [k * mpmath.cosh(v) for v in e])) < 2e-15
    conjugates = [k / 4 * (mpmath.cosh(v) - 1) for v in e]
    seen = [i for i, v in enumerate(conjugates) if v > 1e-290]
    found = [potential.conjugate(z[i : i + 1]) for i in seen]
    assert max(relative_errors(found, [conjugates[i] for i in seen])) < 3e-15
    np.testing.assert_array_equal(potential.inverse_gradient(-z), -potential.inverse_gradient(z))


def test_both_branches_of_the_inverse_gradient_agree():
    z = np.linspace(-340, 340, 101)
    potential = Hypentropy(1e-3)
    alone = [potential.inverse_gradient(np.array([v, 350.0]))[0] for v in z]
    np.testing.assert_allclose(alone, potential.inverse_gradient(z), rtol=1e-15)


@pytest.mark.parametrize("root_k", [1e-4, 1e-2, 1.0, 1e2])
@pytest.mark.parametrize("x", [1e-3, 0.4, 3.0])
def test_density_is_the_integral_of_half_an_arcsinh(root_k, x):
    integral = quad(lambda z: np.arcsinh(2 * z / root_k) / 2, 0, x, epsabs=0, epsrel=1e-13)[0]
    assert Hypentropy(root_k).density(x) == pytest.approx(integral, rel=1e-12)


def test_tied_weights_give_half_the_potential_of_woodworth():
    alpha, x = 0.3, np.linspace(-2, 2, 9)
    z = x / alpha**2
    woodworth = alpha**2 * (2 - np.sqrt(4 + z**2) + z * np.arcsinh(z / 2))
    potential = Hypentropy.from_network(DiagonalNetwork.tied(alpha, 9))
    np.testing.assert_allclose(potential.density(x), woodworth / 2, rtol=1e-12, atol=1e-15)


def test_limits_of_the_density():
    x = np.array([-3.0, 0.2, 1.0])
    np.testing.assert_allclose(Hypentropy(1e9).density(x), x**2 / 2e9, rtol=1e-12)
    small = 1e-40
    rich = np.abs(x) / 2 * np.log(4 * np.abs(x) / (np.e * small))
    np.testing.assert_allclose(Hypentropy(small).density(x), rich, rtol=1e-14)


@given(ROOTS, MODERATE, MODERATE, st.floats(-10, 10))
@settings(max_examples=200, deadline=None)
def test_convex_and_even_and_minimal_at_the_start(root_k, a, b, start):
    biased, even = Hypentropy(root_k, start), Hypentropy(root_k)
    assert even.density(a) == even.density(-a)
    middle = biased.density((a + b) / 2)
    ends = (biased.density(a) + biased.density(b)) / 2
    size = abs(biased.density(a)) + abs(biased.density(b)) + abs(biased.offset) * (abs(a) + abs(b))
    assert middle <= ends + 1e-14 * size + 1e-300
    assert biased.density(start) <= biased.density(a) + 1e-14 * size + 1e-14 * abs(start * biased.offset)
    assert biased.gradient(start) == pytest.approx(0, abs=1e-14)


@given(ROOTS, MODERATE, st.floats(-10, 10))
@settings(max_examples=200, deadline=None)
def test_gradient_curvature_and_conjugate_fit_each_other(root_k, x, start):
    potential = Hypentropy(root_k, start)
    w = np.array([x])
    z = potential.gradient(w)
    scale = abs(x) + abs(start) + 1e-300
    amplification = 1 + abs(float(potential.offset)) + abs(float(z[0]))
    atol = 1e-15 * amplification * np.hypot(2 * scale, root_k)
    np.testing.assert_allclose(potential.inverse_gradient(z), w, rtol=0, atol=4 * atol)
    slope = 1 / potential.curvature(w)
    np.testing.assert_allclose(potential.inverse_curvature(z), slope, rtol=1e-14 * amplification)
    young = potential.value(w) + potential.conjugate(z) - (z * w).sum()
    assert young == pytest.approx(0, abs=1e-13 * amplification * (scale + root_k))


def test_biased_start_subtracts_its_own_slope():
    w, start, root_k = np.random.default_rng(0).normal(size=(3, 6))
    root_k = np.abs(root_k)
    expected = Hypentropy(root_k).value(w) - np.sum(np.arcsinh(2 * start / root_k) * w) / 2
    assert Hypentropy(root_k, start).value(w) == pytest.approx(expected, rel=1e-13)
    np.testing.assert_allclose(Hypentropy(root_k, start).inverse_gradient(np.zeros(6)), start, rtol=1e-14)


def test_settings_broadcast_and_flatten():
    potential = Hypentropy(np.logspace(-2, 1, 4)[:, None, None], np.zeros((3, 1)))
    assert potential.batch == (4, 3)
    w = np.random.default_rng(0).normal(size=5)
    assert potential.value(w).shape == (4, 3)
    assert potential.rows((4, 3))[np.array([7])].value(w) == potential.value(w)[2, 1]
    assert Hypentropy.from_k(0.04).root_k == pytest.approx(0.2)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_values_without_a_potential_are_refused(bad):
    with pytest.raises(ValueError, match=r"root_k holds .*must be positive and finite") as caught:
        Hypentropy(np.array([1.0, bad]))
    assert ("degenerate" in str(caught.value)) == (bad == 0)
    with pytest.raises(ValueError, match="start"):
        Hypentropy(1.0, np.nan)


def test_importing_potentials_needs_neither_torch_nor_the_press():
    code = "import sys, regimes.potentials; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "matplotlib", "regimes.press"} & set(run.stdout.split())
