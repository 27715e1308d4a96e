"""Transfer: the solver ends where training does, and its tables hold what they say."""

import numpy as np
import pytest

from regimes import transfer
from regimes.flow import parameter_flow
from regimes.models import DiagonalNetwork
from regimes.multitask import MultiOutputNetwork, multitask_flow
from regimes.potentials import Hypentropy
from regimes.tasks import overlapping_teachers
from regimes.train import gradient_descent

D, START = 20, {"alpha": 0.05, "gamma": 0.2}


@pytest.fixture(scope="module")
def task():
    return overlapping_teachers(6, 3, 2, d=D, auxiliary=4, seed=1)


@pytest.fixture(scope="module")
def pretrained(task):
    white = np.sqrt(D) * np.eye(D)
    fresh = DiagonalNetwork.tied(0.05, D)
    return parameter_flow(fresh, white, white @ task.w_aux, stop_loss=1e-20, rtol=1e-12).network


def test_carried_is_the_network_that_pretraining_ends_at(task, pretrained):
    network = transfer.carried(DiagonalNetwork.tied(0.05, D), task.w_aux)
    for name, weights in vars(network).items():
        np.testing.assert_allclose(weights, getattr(pretrained, name), atol=1e-8)


def test_carried_follows_any_start(task):
    start = DiagonalNetwork(*np.random.default_rng(0).normal(size=(4, D)))
    end = parameter_flow(start, task.X, task.y, stop_loss=1e-20, rtol=1e-12).network
    network = transfer.carried(start, end.predictor)
    for name, weights in vars(network).items():
        np.testing.assert_allclose(weights, getattr(end, name), atol=1e-8)


@pytest.mark.parametrize("scale", [1.0, 0.3])
@pytest.mark.parametrize("procedure", ["STL", "PT+FT", "PT+FT (LP)", "STL (LP)"])
def test_limits_are_the_ends_of_parameter_flows(task, pretrained, procedure, scale):
    start = DiagonalNetwork.tied(0.05, D) if "STL" in procedure else transfer.rehead(pretrained, 0.2)
    probing = procedure.endswith("(LP)")
    flow = parameter_flow(
        transfer.rescaled(start, scale),
        task.X,
        task.y,
        stop_loss=1e-18,
        rtol=1e-11,
        train_hidden=not probing,
    )
    end = transfer.limit(procedure, task, scale=scale, tolerance=1e-12, **START)
    np.testing.assert_allclose(end.solution, flow.solution, atol=1e-7)
    assert end.converged and end.residual < 1e-10


def test_multitask_limit_is_that_of_a_held_flow_from_a_small_start(task):
    white = np.sqrt(D) * np.eye(D)
    both, alpha = [(white, white @ task.w_aux), (task.X, task.y)], 1e-4
    fitted = multitask_flow(MultiOutputNetwork.constant(alpha, D), both, (1.0, 0.0))
    held = multitask_flow(fitted.network, both, (np.inf, 1.0), stop_loss=1e-14)
    end = transfer.limit("MTL", task, alpha=alpha).solution
    assert np.linalg.norm(held.network.predictor[1] - end) < 5e-3
    assert np.linalg.norm(transfer.limit("STL", task, alpha=alpha).solution - end) > 0.1


def test_rescaling_multiplies_kappa_by_its_square_and_nothing_else(task):
    one, tenth = (transfer.potential("PT+FT", task, scale=c, **START) for c in (1.0, 0.1))
    np.testing.assert_allclose(tenth.root_k, 0.01 * one.root_k, rtol=1e-12)
    np.testing.assert_allclose(tenth.start, 0.01 * one.start, rtol=1e-12)
    closed = Hypentropy.finetuning(task.w_aux, 0.2, 0.05)
    np.testing.assert_allclose(one.root_k, closed.root_k, rtol=1e-12)
    np.testing.assert_allclose(one.start, closed.start, atol=1e-15)


def test_the_least_error_is_that_of_a_watched_descent(task):
    end = transfer.limit("PT+FT", task, **START)
    least = transfer.least_error("PT+FT", task, end, **START)
    start, levels = transfer.start("PT+FT", task, **START), np.geomspace(1, 1e-8, 400)
    watched = gradient_descent(
        start, task.X, task.y, step=1e-3, stop_loss=1e-8, levels=levels, max_steps=400_000
    )
    seen = task.population_error(watched.predictors)
    assert least == pytest.approx(np.nanmin(seen), rel=2e-2)
    assert least <= task.population_error(end.solution) * (1 + 1e-12)


def test_the_least_error_of_a_probe_is_that_of_a_watched_descent(task):
    end = transfer.limit("PT+FT (LP)", task, **START)
    least = transfer.least_error("PT+FT (LP)", task, end, **START)
    start, levels = transfer.start("PT+FT (LP)", task, **START), np.geomspace(1, 1e-4, 400)
    watched = gradient_descent(
        start, task.X, task.y, step=1e-2, stop_loss=1e-4, levels=levels, train_hidden=False
    )
    assert least == pytest.approx(np.nanmin(task.population_error(watched.predictors)), rel=5e-2)


def test_a_sweep_is_its_conditions_one_by_one():
    tasks = overlapping_teachers(6, [3, 2], [2, 0], d=D, auxiliary=4, seed=[0, 5])
    table = transfer.sweep("PT+FT", tasks, [1.0, 0.1], oracle=True, **START)
    assert table["error"].shape == table["least"].shape == table["converged"].shape == (2, 2, 2)
    alone = overlapping_teachers(6, 2, 0, d=D, auxiliary=4, seed=5)
    one = transfer.sweep("PT+FT", alone, [0.1], oracle=True, **START)
    np.testing.assert_allclose(table["error"][1, 1, 1], one["error"][0], rtol=1e-6)
    np.testing.assert_allclose(table["least"][1, 1, 1], one["least"][0], rtol=1e-3)
    assert (table["least"] <= table["error"] * (1 + 1e-9)).all()


def test_a_shared_feature_is_overshot_by_the_root_of_the_golden_ratio():
    task = overlapping_teachers(30, 4, 4, d=40, auxiliary=4, seed=0)
    tiny = {"alpha": 1e-4, "gamma": 1e-4}
    end = transfer.limit("PT+FT", task, **tiny).solution
    golden = (1 + np.sqrt(5)) / 2
    assert transfer.forgetting(task, end, **tiny) == pytest.approx((np.sqrt(golden) - 1) ** 2, rel=1e-2)


def test_impossible_requests_are_refused(task):
    with pytest.raises(ValueError, match="PT"):
        transfer.limit("pretrain", task)
    with pytest.raises(ValueError, match="one phase"):
        transfer.limit("MTL", task, scale=0.1)
    with pytest.raises(ValueError, match="STL or PT"):
        transfer.start("MTL", task)
