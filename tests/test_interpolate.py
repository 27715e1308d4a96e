"""Minimizers among interpolating predictors: reference values, certificates, limits, a conic solver."""

import cvxpy as cp
import numpy as np
import pytest

from regimes.interpolate import SolveOutcome, interpolate, minimum_l1, minimum_l2
from regimes.measures import kkt_residual
from regimes.models import DiagonalNetwork, root_k, scale_for
from regimes.potentials import Hypentropy
from regimes.tasks import sparse_regression

SHAPES = np.array([0, 0.5, 0.7, 0.9, 0.99])


@pytest.fixture(scope="module")
def paper():
    """The paper's size: N = 100, d = 1000, seed 0."""
    return sparse_regression()


@pytest.fixture(scope="module")
def small():
    return sparse_regression(N=20, d=100, seed=11)


def random_start(seed, d):
    rng = np.random.default_rng(seed)
    return DiagonalNetwork(*(rng.normal(size=(4, d)) * 10 ** rng.uniform(-1.5, 0.2, (4, d))))


def test_population_errors_of_seed_0(paper):
    """Values computed for this draw by an independent implementation, which rounded to five digits."""
    expected = {
        1e-5: (0.01341, 0.01466, 0.02603, 0.17276),
        1e-4: (0.02670, 0.03633, 0.16579, 0.77144),
        1e-3: (0.17357, 0.27650, 0.76314, 0.89269),
        1e-2: (0.77237, 0.84210, 0.89254, 0.89432),
        1e-1: (0.89271, 0.89375, 0.89432, 0.89434),
    }
    roots = root_k(np.array(list(expected))[:, None], np.array([0, 0.5, 0.9, 0.99]))
    found = interpolate(paper.X, paper.y, Hypentropy(roots[..., None]))
    assert found.converged.all()
    np.testing.assert_allclose(paper.population_error(found.solution), list(expected.values()), atol=6e-6)


def test_mean_population_errors_of_five_seeds():
    tasks = sparse_regression(seed=range(5)).expand(2)
    roots = root_k(np.array([1e-5, 1e-4, 1e-3, 1e-2])[:, None], SHAPES)
    found = interpolate(tasks.X, tasks.y, Hypentropy(roots[..., None]))
    assert found.converged.all()
    mean = tasks.population_error(found.solution).mean(0)
    expected = [
        (0.02275, 0.02552, 0.02982, 0.04791, 0.23881),
        (0.04911, 0.06554, 0.09518, 0.23115, 0.78836),
        (0.23970, 0.34572, 0.49093, 0.78103, 0.89793),
        (0.78917, 0.85147, 0.88239, 0.89779, 0.89945),
    ]
    np.testing.assert_allclose(mean, expected, atol=6e-6)


def test_population_errors_of_the_least_norms():
    tasks = sparse_regression(seed=range(5))
    least = minimum_l1(tasks.X, tasks.y)
    expected = [0.00686, 0.01281, 0.01663, 0.00595, 0.00672]
    np.testing.assert_allclose(tasks.population_error(least.solution), expected, atol=6e-6)
    assert (np.abs(least.gap) < 1e-7).all() and (least.residual < 1e-9).all()
    least = minimum_l2(tasks.X, tasks.y)
    expected = [0.89434, 0.91890, 0.91532, 0.88696, 0.88180]
    np.testing.assert_allclose(tasks.population_error(least.solution), expected, atol=6e-6)
    assert (np.abs(least.gap) < 1e-14).all() and (least.residual < 1e-13).all()


def test_converges_from_kernel_to_extremely_rich(paper):
    roots = 10.0 ** np.arange(4, -31, -2)
    found = interpolate(paper.X, paper.y, Hypentropy(roots[:, None]))
    assert found.converged.all()
    assert found.iterations.max() <= 40
    np.testing.assert_array_less(np.abs(found.gap), 1e-12 * (1 + found.primal_value))
    rich = paper.population_error(found.solution)[[5, 8, 15, 17]]  # root_k = 1e-6, 1e-12, 1e-26, 1e-30
    np.testing.assert_allclose(rich[[0, 1, 3]], [0.00987, 0.00796, 0.00707], atol=6e-6)


def test_strong_duality_certifies_and_a_wrong_multiplier_does_not(small):
    potential = Hypentropy(1e-2)
    found = interpolate(small.X, small.y, potential)
    assert found.gap == pytest.approx(0, abs=1e-13)
    nu = 1.01 * found.multipliers
    worse = found.primal_value - (nu @ small.y - potential.conjugate(small.X @ nu))
    assert worse > 1e-5
    early = interpolate(small.X, small.y, potential, max_iterations=2)
    assert early.outcome is SolveOutcome.ITERATION_LIMIT and early.iterations == 2
    assert early.primal_value - early.gap <= found.primal_value <= early.primal_value


def test_every_iteration_improves_the_dual(small):
    """The promise of the damped step, which plain Newton steps break."""
    potential = Hypentropy(10.0 ** np.arange(0, -25, -4)[:, None])
    path = [interpolate(small.X, small.y, potential, max_iterations=n).dual_value for n in range(25)]
    scale = np.abs(path).max(0)
    assert (np.diff(path, axis=0) >= -1e-13 * scale).all()
    assert (path[8] > path[0] + 0.01 * scale).all()


def test_any_feasible_predictor_has_a_larger_potential(small):
    potential = Hypentropy(1e-3)
    found = interpolate(small.X, small.y, potential)
    steps = np.random.default_rng(0).normal(size=(50, 100))
    along = steps - (small.X @ np.linalg.lstsq(small.X, steps.T, rcond=None)[0]).T
    assert (potential.value(found.solution + 1e-3 * along) > found.primal_value).all()


def test_conic_solver_finds_the_same_minimizer():
    """The hypentropy is the least sum of two relative entropies over w = p − m: exponential cones."""
    task = sparse_regression(N=6, d=20, seed=3)
    network = random_start(4, 20)
    for potential in (Hypentropy(0.3), Hypentropy.from_network(network)):
        p, m = cp.Variable(20), cp.Variable(20)
        up, down = (
            potential.root_k / 4 * np.exp(potential.offset),
            potential.root_k / 4 * np.exp(-potential.offset),
        )
        entropy = cp.sum(cp.kl_div(p, np.broadcast_to(up, 20)) + cp.kl_div(m, np.broadcast_to(down, 20))) / 2
        problem = cp.Problem(cp.Minimize(entropy), [task.X.T @ (p - m) == task.y])
        problem.solve(cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
        found = interpolate(task.X, task.y, potential)
        np.testing.assert_allclose(found.solution, p.value - m.value, atol=1e-5)
        constant = potential.value(found.solution) - entropy.value
        assert constant == pytest.approx(potential.value(potential.start * np.ones(20)), abs=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_biased_start_interpolates_with_gradient_in_the_span(seed):
    task = sparse_regression(N=8, d=30, seed=seed)
    potential = Hypentropy.from_network(random_start(seed, 30))
    found = interpolate(task.X, task.y, potential)
    assert found.residual < 1e-12
    assert kkt_residual(potential.gradient(found.solution), task.X) < 1e-13
    np.testing.assert_allclose(potential.gradient(found.solution), task.X @ found.multipliers, atol=1e-13)
    unbiased = interpolate(task.X, task.y, Hypentropy(potential.root_k))
    assert kkt_residual(potential.gradient(unbiased.solution), task.X) > 1e-2


def test_equal_root_k_means_equal_limit(paper):
    """Scale and shape act through √k alone."""
    target = root_k(1e-3, 0.0)
    alphas = scale_for(target, SHAPES)
    found = interpolate(paper.X, paper.y, Hypentropy(root_k(alphas, SHAPES)[:, None])).solution
    np.testing.assert_allclose(found, np.broadcast_to(found[0], found.shape), rtol=0, atol=1e-12)
    other = interpolate(paper.X, paper.y, Hypentropy(root_k(alphas, SHAPES[::-1])[:, None])).solution
    assert np.abs(other[-1] - other[0]).max() > 1e-3


def test_distance_to_least_l2_falls_like_the_inverse_of_k(small):
    roots = 10.0 ** np.arange(0, 5)
    found = interpolate(small.X, small.y, Hypentropy(roots[:, None])).solution
    distances = np.linalg.norm(found - minimum_l2(small.X, small.y).solution, axis=-1)
    np.testing.assert_allclose(distances[[0, 2, 4]], [2.69e-3, 2.7e-7, 2.7e-11], rtol=2e-2)
    slope = np.polyfit(np.log(roots[1:]), np.log(distances[1:]), 1)[0]
    assert slope == pytest.approx(-2, abs=2e-3)


def test_excess_l1_vanishes_only_logarithmically(small):
    roots = np.array([1e-2, 1e-4, 1e-8, 1e-16, 1e-30])
    found = interpolate(small.X, small.y, Hypentropy(roots[:, None])).solution
    least = minimum_l1(small.X, small.y)
    assert least.primal_value == pytest.approx(2.420700, abs=1e-6)
    excess = np.abs(found).sum(-1) / least.primal_value - 1
    np.testing.assert_allclose(excess, [0.224, 5.25e-2, 3.99e-3, 3.80e-4, 2.65e-4], rtol=5e-3)
    np.testing.assert_allclose(np.linalg.norm(found - least.solution, axis=-1)[-1], 0.0505, atol=1e-4)


def test_shape_towards_one_leads_to_least_l2_at_any_scale(small):
    s = np.array([0, 0.5, 0.9, 0.99, 0.999, 0.9999])
    l2 = minimum_l2(small.X, small.y).solution
    found = interpolate(small.X, small.y, Hypentropy(root_k(1e-3, s)[:, None])).solution
    relative = np.linalg.norm(found - l2, axis=-1) / np.linalg.norm(l2)
    np.testing.assert_allclose(relative, [0.758, 0.694, 0.416, 2.95e-2, 3.27e-4, 3.28e-6], rtol=5e-3)


def test_batches_over_seeds_and_settings_equal_the_single_problems():
    tasks = sparse_regression(N=5, d=12, seed=[0, 1]).expand()
    roots, start = np.array([1e-3, 0.1, 5.0])[:, None], np.linspace(-1, 1, 12)
    found = interpolate(tasks.X, tasks.y, Hypentropy(roots, start))
    assert found.solution.shape == (2, 3, 12) and found.multipliers.shape == (2, 3, 5)
    for i, j in np.ndindex(2, 3):
        one = interpolate(tasks.X[i, 0], tasks.y[i, 0], Hypentropy(roots[j], start))
        np.testing.assert_allclose(found.solution[i, j], one.solution, atol=1e-13)
        assert found.outcome[i, j] is one.outcome is SolveOutcome.CONVERGED
        assert found.iterations[i, j] == one.iterations


def test_unreachable_tolerance_ends_as_stalled_or_at_the_limit(small):
    found = interpolate(small.X, small.y, Hypentropy(1e-3), tolerance=1e-20, max_iterations=60)
    assert not found.converged
    assert found.outcome in (SolveOutcome.STALLED, SolveOutcome.ITERATION_LIMIT)
    assert found.residual < 1e-13


@pytest.mark.parametrize("solve", [minimum_l1, minimum_l2, lambda X, y: interpolate(X, y, Hypentropy(1.0))])
def test_data_that_no_solver_can_use_are_refused(solve):
    X, y = np.random.default_rng(0).normal(size=(6, 3)), np.ones(3)
    for bad_X, bad_y, message in (
        (X.T, np.ones(6), "N = 6 samples in d = 3"),
        (X, np.ones(4), "y has shape"),
        (X[0], y, "samples are the columns"),
        (X * np.nan, y, "not finite"),
        (X, y * np.inf, "not finite"),
        (X[:, [0, 1, 1]], y, "linearly dependent"),
    ):
        with pytest.raises(ValueError, match=message):
            solve(bad_X, bad_y)


def test_settings_that_do_not_fit_are_refused():
    X, y = np.random.default_rng(0).normal(size=(6, 3)), np.ones(3)
    with pytest.raises(ValueError, match=r"last axis .* length 4, but must have 1 or d = 6"):
        interpolate(X, y, Hypentropy(np.ones(4)))
    with pytest.raises(ValueError, match=r"\(2,\) and \(2,\) and \(5,\)"):
        interpolate(np.stack([X, X]), np.stack([y, y]), Hypentropy(np.ones((5, 1))))


@pytest.mark.parametrize(("unit", "size"), [(1.0, 1e-7), (1.0, 1e-20), (1e-8, 1.0), (1e3, 1e20)])
def test_least_l1_does_not_depend_on_the_units(small, unit, size):
    plain, scaled = minimum_l1(small.X, small.y), minimum_l1(unit * small.X, size * small.y)
    assert scaled.outcome == plain.outcome
    np.testing.assert_allclose(scaled.solution * (unit / size), plain.solution, atol=1e-9)
    assert scaled.gap <= 1e-9 * scaled.primal_value
