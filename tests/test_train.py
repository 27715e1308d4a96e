"""Gradient descent: its step against autograd, first order in the step, the stability guard, outcomes."""

import numpy as np
import pytest
import torch

from regimes.flow import dual_flow, parameter_flow
from regimes.interpolate import interpolate
from regimes.models import DiagonalNetwork
from regimes.multitask import MultiOutputNetwork, multitask_flow
from regimes.potentials import Hypentropy
from regimes.tasks import sparse_regression
from regimes.train import TrainOutcome, gradient_descent, multitask_descent, step_limit

NAMES = ("u_plus", "v_plus", "u_minus", "v_minus")


@pytest.fixture(scope="module")
def task():
    return sparse_regression(N=20, d=100, seed=11)


def test_one_step_is_autograds(task):
    weights = np.random.default_rng(0).normal(size=(4, 100))
    trained = gradient_descent(
        DiagonalNetwork(*weights), task.X, task.y, step=1e-3, stop_loss=1e-10, max_steps=1
    )
    leaf = torch.tensor(weights, requires_grad=True)
    residual = torch.tensor(task.y) - (leaf[0] * leaf[1] - leaf[2] * leaf[3]) @ torch.tensor(task.X)
    (residual.square().sum() / 40).backward()
    expected = weights - 1e-3 * leaf.grad.numpy()
    found = np.stack([getattr(trained.network, name) for name in NAMES])
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-15)
    assert trained.outcome is TrainOutcome.STEP_LIMIT and trained.steps == 1


def test_error_of_the_limit_is_first_order_in_the_step():
    """Errors at steps 0.04 and 0.0025 as an independent implementation found them."""
    task = sparse_regression(N=20, d=100)
    network = DiagonalNetwork.from_scale_shape(1e-2, 0.5, 100)
    exact = interpolate(task.X, task.y, Hypentropy.from_network(network)).solution
    errors = []
    for step in (0.04, 0.02, 0.0025):
        trained = gradient_descent(network, task.X, task.y, step=step, stop_loss=1e-18)
        assert trained.reached and trained.loss <= 1e-18
        errors.append(np.abs(trained.solution - exact).max())
    np.testing.assert_allclose([errors[0], errors[2]], [6.0e-4, 3.8e-5], rtol=0.01)
    assert 1.8 < errors[0] / errors[1] < 2.2


def test_small_steps_follow_the_flow(task):
    network = DiagonalNetwork.from_scale_shape(1e-2, 0.5, 100)
    levels, step = [1e-2, 1e-4], 1e-3
    flow = dual_flow(
        task.X, task.y, Hypentropy.from_network(network), stop_loss=1e-4, levels=levels, rtol=1e-5
    )
    trained = gradient_descent(network, task.X, task.y, step=step, stop_loss=1e-4, levels=levels)
    np.testing.assert_allclose(trained.steps_at * step, flow.times, rtol=5e-3)
    np.testing.assert_allclose(trained.predictors, flow.predictors, atol=2e-3)


def test_step_above_the_limit_is_refused_and_would_have_gone_wrong():
    """Just above the limit the loss still vanishes, at a wrong solution that a loss curve cannot tell."""
    task = sparse_regression(N=20, d=100)
    network = DiagonalNetwork.from_scale_shape(0.379, 0.99, 100)
    exact = interpolate(task.X, task.y, Hypentropy.from_network(network)).solution
    limit = step_limit(network, task.X)
    below = gradient_descent(network, task.X, task.y, step=0.98 * limit, stop_loss=1e-20)
    assert below.reached and np.abs(below.solution - exact).max() < 1e-6
    with pytest.raises(ValueError, match="is unstable"):
        gradient_descent(network, task.X, task.y, step=1.1 * limit, stop_loss=1e-20)
    above = gradient_descent(network, task.X, task.y, step=1.1 * limit, stop_loss=1e-20, allow_unstable=True)
    assert above.reached and np.abs(above.solution - exact).max() > 1e-2


def test_limit_is_two_over_the_curvature_of_the_loss(task):
    weights = np.random.default_rng(0).normal(size=(4, 100)) * 0.1
    X = torch.tensor(task.X)

    def output(flat):
        up, vp, um, vm = flat.reshape(4, -1)
        return (up * vp - um * vm) @ X

    jacobian = torch.autograd.functional.jacobian(output, torch.tensor(weights).ravel()).numpy()
    expected = 2 * 20 / np.linalg.eigvalsh(jacobian @ jacobian.T)[-1]
    assert step_limit(DiagonalNetwork(*weights), task.X) == pytest.approx(expected, rel=1e-12)


def test_divergence_is_an_outcome(task):
    network = DiagonalNetwork.from_scale_shape(np.array([1e-2, 10.0]), 0.0, 100)
    trained = gradient_descent(network, task.X, task.y, step=0.05, stop_loss=1e-8, allow_unstable=True)
    assert list(trained.outcome) == [TrainOutcome.REACHED_LOSS, TrainOutcome.DIVERGED]
    assert np.isfinite(trained.solution).all() and list(trained.steps_at[1]) == [-1]


def test_batch_equals_single_trainings():
    tasks = sparse_regression(N=6, d=20, seed=[0, 1]).expand()
    network = DiagonalNetwork.from_scale_shape(np.array([1e-2, 1e-1, 1.0]), 0.3, 20)
    settings = {"step": 1e-2, "stop_loss": 1e-6, "levels": [1e-2]}
    batch = gradient_descent(network, tasks.X, tasks.y, **settings)
    assert batch.predictors.shape == (2, 3, 2, 20) and batch.reached.all()
    for i, j in np.ndindex(2, 3):
        alone = DiagonalNetwork(*(getattr(network, name)[j] for name in NAMES))
        one = gradient_descent(alone, tasks.X[i, 0], tasks.y[i, 0], **settings)
        np.testing.assert_allclose(batch.solution[i, j], one.solution, atol=1e-12)
        assert batch.steps[i, j] == one.steps


def test_single_precision_is_an_option(task):
    network = DiagonalNetwork.from_scale_shape(0.1, 0.0, 100)
    settings = {"step": 1e-2, "stop_loss": 1e-6}
    double = gradient_descent(network, task.X, task.y, **settings)
    single = gradient_descent(network, task.X, task.y, **settings, dtype=torch.float32)
    error = np.abs(single.solution - double.solution).max()
    assert 0 < error < 1e-4


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"step": 0}, "step = 0"), ({"step": np.nan}, "step = nan"), ({"stop_loss": -1}, "stop_loss = -1")],
)
def test_wrong_settings_are_refused(task, settings, message):
    network = DiagonalNetwork.from_scale_shape(0.1, 0.0, 100)
    with pytest.raises(ValueError, match=message):
        gradient_descent(network, task.X, task.y, **{"step": 1e-3, "stop_loss": 1e-3, **settings})


def test_a_frozen_hidden_layer_stays_and_the_readout_learns():
    task = sparse_regression(N=3, d=8, r=2, noise=0.0, seed=0)
    start = DiagonalNetwork.from_scale_shape(0.3, 0.2, 8)
    run = gradient_descent(start, task.X, task.y, step=0.02, stop_loss=1e-20, train_hidden=False)
    assert run.reached
    np.testing.assert_array_equal(run.network.u_plus, start.u_plus)
    flow = parameter_flow(start, task.X, task.y, stop_loss=1e-20, rtol=1e-12, train_hidden=False)
    np.testing.assert_allclose(run.solution, flow.solution, atol=1e-8)


def multitask(step, **options):
    rng = np.random.default_rng(4)
    tasks = [(rng.normal(size=(6, n)), rng.normal(size=n)) for n in (4, 3)]
    net = MultiOutputNetwork.constant(0.3, 6)
    settings = {"step": step, "stop_loss": 1e-16} | options
    return multitask_descent(net, tasks, (2.0, 1.0), **settings), multitask_flow(net, tasks, (2.0, 1.0))


def test_multitask_descent_comes_near_the_flow_in_proportion_to_its_step():
    far = []
    for step in (0.02, 0.01):
        run, flow = multitask(step)
        assert run.outcome is TrainOutcome.REACHED_LOSS and run.loss.sum() <= 1e-16
        far.append(np.linalg.norm(run.network.predictor - flow.network.predictor))
    assert far[0] < 0.1 and far[0] / far[1] == pytest.approx(2, abs=0.3)


def test_multitask_descent_says_how_it_ended_and_refuses_what_does_not_fit():
    assert multitask(0.01, max_steps=3)[0].outcome is TrainOutcome.STEP_LIMIT
    assert multitask(50.0)[0].outcome is TrainOutcome.DIVERGED
    net = MultiOutputNetwork.constant(0.3, 6)
    pair = (np.eye(6), np.ones(6))
    with pytest.raises(ValueError, match="one of each"):
        multitask_descent(net, [pair], step=0.1, stop_loss=0.1)
    with pytest.raises(ValueError, match="step = -1"):
        multitask_descent(net, [pair, pair], step=-1, stop_loss=0.1)
