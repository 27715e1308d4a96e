"""Gradient flow: parameters against theory, the dual integrator against SciPy, laws, limits, refusals."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from regimes import _chebyshev
from regimes.flow import FlowOutcome, dual_flow, parameter_flow
from regimes.interpolate import interpolate
from regimes.measures import drift, kkt_residual
from regimes.models import DiagonalNetwork
from regimes.potentials import Hypentropy
from regimes.tasks import sparse_regression

SEEDS = [0, 1, 2, 3]


def random_start(seed, biased):
    rng = np.random.default_rng(1000 + seed)
    u, v, a, b = rng.normal(size=(4, 30)) * 10 ** rng.uniform(-1.5, 0.2, (4, 30))
    return DiagonalNetwork(u, v, a, b) if biased else DiagonalNetwork(u, v, u, v)


def starts(biased):
    networks = [random_start(seed, biased) for seed in SEEDS]
    names = ("u_plus", "v_plus", "u_minus", "v_minus")
    return DiagonalNetwork(*(np.stack([getattr(n, name) for n in networks]) for name in names))


@pytest.fixture(scope="module")
def tasks():
    return sparse_regression(N=8, d=30, seed=SEEDS)


@pytest.fixture(scope="module", params=[False, True], ids=["unbiased", "biased"])
def witness(request, tasks):
    """Flows of all 120 weights, integrated without any theory to a residual of about 1e-11."""
    network = starts(request.param)
    levels = [1e-2, 1e-4, 1e-8]
    flow = parameter_flow(network, tasks.X, tasks.y, stop_loss=1e-22, levels=levels, rtol=1e-12, atol=1e-15)
    return network, flow


def test_flow_of_the_parameters_ends_where_the_theory_says(tasks, witness):
    network, flow = witness
    potential = Hypentropy.from_network(network)
    assert flow.reached.all()
    expected = interpolate(tasks.X, tasks.y, potential)
    np.testing.assert_allclose(flow.solution, expected.solution, rtol=0, atol=1e-8)
    assert (kkt_residual(potential.gradient(flow.solution), tasks.X) < 1e-10).all()
    wrong = Hypentropy(2 * network.root_k, network.predictor)
    assert (kkt_residual(wrong.gradient(flow.solution), tasks.X) > 1e-3).all()


def test_kkt_holds_and_imbalance_is_conserved_all_along_the_path(tasks, witness):
    network, flow = witness
    potential = Hypentropy(network.root_k[:, None], network.predictor[:, None])
    residuals = kkt_residual(potential.gradient(flow.path.predictor), tasks.X[:, None])
    assert residuals.shape == (4, 4)
    assert residuals.max() < 1e-10
    assert drift(network, flow.path).max() < 1e-10
    np.testing.assert_allclose(
        flow.path.root_k, np.broadcast_to(network.root_k[:, None], (4, 4, 30)), rtol=1e-8
    )


def test_dual_flow_has_the_clock_and_path_of_the_parameters(tasks, witness):
    network, flow = witness
    levels = [1e-2, 1e-4, 1e-8]
    dual = dual_flow(
        tasks.X, tasks.y, Hypentropy.from_network(network), stop_loss=1e-10, levels=levels, rtol=1e-6
    )
    np.testing.assert_array_equal(dual.levels, [*levels, 1e-10])
    np.testing.assert_allclose(dual.times[:, :3], flow.times[:, :3], rtol=1e-4)
    for i, level in enumerate(levels):
        np.testing.assert_allclose(
            dual.predictors[:, i], flow.path.predictor[:, i], atol=2e-4 * np.sqrt(level)
        )


def test_dual_flow_agrees_with_scipy_at_a_tight_tolerance():
    task = sparse_regression(N=10, d=40, seed=1)
    potential, end = Hypentropy(1e-3), 20.0

    def slope(t, nu):
        return (task.y - potential.inverse_gradient(task.X @ nu) @ task.X) / 10

    reference = solve_ivp(slope, (0, end), np.zeros(10), method="DOP853", rtol=1e-12, atol=1e-14).y[:, -1]
    errors = []
    for rtol in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6):
        flow = dual_flow(task.X, task.y, potential, stop_loss=1e-20, time_limit=end, rtol=rtol)
        assert flow.outcome is FlowOutcome.TIME_LIMIT and flow.time == end
        errors.append(np.abs(flow.multipliers - reference).max())
    assert errors[-1] < 2e-6 * np.abs(reference).max()
    # a method of order 2 with local errors of order 3: global errors fall like rtol^(2/3)
    slope = np.polyfit(np.log([1e-3, 1e-4, 1e-5, 1e-6]), np.log(errors[1:]), 1)[0]
    assert 0.55 < slope < 0.85


@pytest.mark.parametrize("stages", [2, 5, 12])
def test_chebyshev_steps_have_order_two(stages):
    """On u' = −u³ from 1, whose solution is 1/√(1 + 2t)."""

    def error(steps):
        u, h = np.ones((1, 1)), np.array([1 / steps])
        for _ in range(steps):
            u = _chebyshev.advance(lambda v, m: -(v**3), u, -(u**3), h, np.array([stages]))
        return abs(u[0, 0] - 1 / np.sqrt(3))

    steps = np.array([20, 40, 80, 160])
    order = -np.polyfit(np.log(steps), np.log([error(n) for n in steps]), 1)[0]
    assert order == pytest.approx(2, abs=0.1)


def test_chebyshev_steps_are_stable_where_promised_and_mix_stage_counts():
    h, radius = np.array([50.0, 3.0, 0.1]), np.array([40.0, 10.0, 1.0])
    s = _chebyshev.stages(h, radius)
    assert list(s) == sorted(s, reverse=True) and s[0] < 60
    for fraction in np.linspace(0.02, 1, 25):
        rate = (fraction * radius)[:, None]
        slope = lambda v, m, rate=rate: -rate[:m] * v  # noqa: E731
        u = np.ones((3, 1))
        together = _chebyshev.advance(slope, u, -rate * u, h, s)
        assert (np.abs(together) <= 1).all()
        for i in range(3):
            row = slice(i, i + 1)
            alone = _chebyshev.advance(lambda v, m, i=i: -rate[i] * v, u[row], -rate[row], h[row], s[row])  # noqa: B023
            np.testing.assert_allclose(together[row], alone, rtol=1e-12)


def test_distance_to_the_minimizer_follows_the_root_of_the_loss():
    task = sparse_regression(N=20, d=100, seed=11)
    potential = Hypentropy(np.array([1e-3, 1e-1, 10])[:, None])
    levels = 10.0 ** np.arange(-14, -23, -2)  # before that, fast and slow modes still mix
    flow = dual_flow(task.X, task.y, potential, stop_loss=levels[-1], levels=levels)
    exact = interpolate(task.X, task.y, potential).solution
    distances = np.linalg.norm(flow.predictors - exact[:, None], axis=-1)
    for row in distances:
        assert np.polyfit(np.log(levels), np.log(row), 1)[0] == pytest.approx(0.5, abs=5e-3)


def test_paper_size_flow_reaches_the_tabulated_time():
    """Times at which an independent integration of all 4000 weights had a residual of 1e-7."""
    task = sparse_regression()
    flow = dual_flow(task.X, task.y, Hypentropy(np.array([4e-2, 4e-3])[:, None]), stop_loss=1e-15)
    assert flow.reached.all()
    np.testing.assert_allclose(task.population_error(flow.solution), [0.772369, 0.173575], atol=1e-6)
    later = dual_flow(task.X, task.y, Hypentropy(np.array([[4e-2]])), stop_loss=1e-20, time_limit=60.5)
    assert np.abs(later.solution @ task.X - task.y).max() == pytest.approx(1e-7, rel=0.2)


def test_flow_survives_extremely_rich_and_lazy_starts():
    task = sparse_regression(N=20, d=100, seed=11)
    potential = Hypentropy(np.array([1e-30, 1e4])[:, None])
    flow = dual_flow(task.X, task.y, potential, stop_loss=1e-16)
    assert flow.reached.all()
    np.testing.assert_allclose(flow.solution, interpolate(task.X, task.y, potential).solution, atol=1e-6)


def test_batch_equals_single_flows(tasks):
    potential = Hypentropy(np.array([1e-4, 1e-1])[:, None], np.linspace(0, 1, 30))
    stop = {"stop_loss": 1e-8, "levels": [1e-3]}
    batch = dual_flow(tasks.expand().X, tasks.expand().y, potential, **stop)
    assert batch.predictors.shape == (4, 2, 2, 30)
    for i, j in np.ndindex(4, 2):
        one = dual_flow(tasks.X[i], tasks.y[i], Hypentropy(potential.root_k[j], potential.start), **stop)
        np.testing.assert_allclose(batch.predictors[i, j], one.predictors, atol=1e-9)
        assert one.reached and batch.outcome[i, j] is one.outcome
        assert batch.evaluations[i, j] == one.evaluations


def test_levels_above_the_first_loss_are_passed_at_time_zero(tasks):
    flow = dual_flow(tasks.X, tasks.y, Hypentropy(0.1), stop_loss=1e-3, levels=[1e3])
    np.testing.assert_array_equal(flow.times[:, 0], 0)
    np.testing.assert_array_equal(flow.predictors[:, 0], 0)
    network = DiagonalNetwork.from_scale_shape(0.1, 0, 30)
    flow = parameter_flow(network, tasks.X, tasks.y, stop_loss=1e-3, levels=[1e3])
    np.testing.assert_array_equal(flow.times[:, 0], 0)


def test_limits_end_the_flow_with_an_outcome(tasks):
    X, y, network = tasks.X[0], tasks.y[0], DiagonalNetwork.from_scale_shape(0.01, 0, 30)
    potential = Hypentropy.from_network(network)
    for flow in (
        dual_flow(X, y, potential, stop_loss=1e-12, levels=[1e-2], time_limit=0.5),
        parameter_flow(network, X, y, stop_loss=1e-12, levels=[1e-2], time_limit=0.5),
    ):
        assert flow.outcome is FlowOutcome.TIME_LIMIT and not flow.reached
        assert flow.time == 0.5
        assert np.isnan(flow.times[-1])
    for flow in (
        dual_flow(X, y, potential, stop_loss=1e-12, max_evaluations=30),
        parameter_flow(network, X, y, stop_loss=1e-12, max_evaluations=30),
    ):
        assert flow.outcome is FlowOutcome.EVALUATION_LIMIT


def test_losses_below_the_noise_floor_are_refused_rather_than_chased(tasks):
    network = DiagonalNetwork.from_scale_shape(0.1, 0, 30)
    with pytest.raises(ValueError, match="noise floor"):
        dual_flow(tasks.X, tasks.y, Hypentropy(0.1), stop_loss=1e-30)
    with pytest.raises(ValueError, match="noise floor"):
        parameter_flow(network, tasks.X, tasks.y, stop_loss=1e-20, rtol=1e-6)
    with pytest.raises(ValueError, match="noise floor"):
        dual_flow(tasks.X, tasks.y, Hypentropy(1.0, 1e3 * np.ones(30)), stop_loss=1e-18)


def test_wrong_settings_are_refused(tasks):
    network = DiagonalNetwork.from_scale_shape(0.1, 0, 29)
    with pytest.raises(ValueError, match="last axis of the network's weights has length 29"):
        parameter_flow(network, tasks.X, tasks.y)
    with pytest.raises(ValueError, match="at least stop_loss"):
        dual_flow(tasks.X, tasks.y, Hypentropy(0.1), stop_loss=1e-4, levels=[1e-5])
    with pytest.raises(ValueError, match=r"rtol = 0\.5"):
        dual_flow(tasks.X, tasks.y, Hypentropy(0.1), rtol=0.5)
    with pytest.raises(ValueError, match="time_limit = 0"):
        dual_flow(tasks.X, tasks.y, Hypentropy(0.1), time_limit=0)
    with pytest.raises(ValueError, match="length 3"):
        dual_flow(tasks.X, tasks.y, Hypentropy(np.ones(3)))


def test_a_frozen_hidden_layer_stays_and_the_readout_takes_the_shortest_way():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(8, 3)), rng.normal(size=3)
    start = DiagonalNetwork(*rng.uniform(0.3, 1.0, size=(4, 8)))
    end = parameter_flow(start, X, y, stop_loss=1e-20, rtol=1e-12, train_hidden=False)
    assert (end.network.u_plus == start.u_plus).all() and (end.network.u_minus == start.u_minus).all()
    features = np.concatenate([start.u_plus[:, None] * X, -start.u_minus[:, None] * X])
    moved = np.linalg.lstsq(features.T, y - start.predictor @ X, rcond=None)[0]
    np.testing.assert_allclose(end.network.v_plus, start.v_plus + moved[:8], atol=1e-8)
    np.testing.assert_allclose(end.network.v_minus, start.v_minus + moved[8:], atol=1e-8)
