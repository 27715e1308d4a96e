"""Several tasks on one hidden layer: a conic solver as second witness, conserved quantities, known limits."""

import cvxpy as cp
import numpy as np
import pytest

from regimes import multitask
from regimes.flow import FlowOutcome, parameter_flow
from regimes.interpolate import interpolate, minimum_l1
from regimes.models import DiagonalNetwork
from regimes.multitask import MultiOutputNetwork
from regimes.potentials import ImplicitMultiTask


def two_tasks(seed, d=12, sizes=(6, 5)):
    rng = np.random.default_rng(seed)
    B = np.zeros((2, d))
    B[0, :3], B[1, :2], B[1, 5] = rng.uniform(0.5, 1.5, 3), rng.uniform(-1.5, 1.5, 2), 0.8
    Xs = [rng.normal(size=(d, n)) for n in sizes]
    return [(X, X.T @ beta) for X, beta in zip(Xs, B, strict=True)]


def known_auxiliary(seed, d=10, n=4):
    rng = np.random.default_rng(seed)
    a = np.where(np.arange(d) < 5, rng.uniform(0.3, 1.2, d) * rng.choice([-1, 1], d), 0.0)
    X = rng.normal(size=(d, n))
    b = np.where(np.arange(d) % 3 == 0, rng.normal(size=d), 0.0)
    return a, [(np.sqrt(d) * np.eye(d), np.sqrt(d) * a), (X, X.T @ b)]


@pytest.mark.parametrize("seed", range(3))
def test_least_group_norm_against_a_conic_solver(seed):
    tasks = two_tasks(seed)
    B = cp.Variable((12, 2))
    constraints = [X.T @ B[:, o] == y for o, (X, y) in enumerate(tasks)]
    cp.Problem(cp.Minimize(cp.sum(cp.norm(B, 2, axis=1))), constraints).solve(solver=cp.CLARABEL)
    found = multitask.minimum_group_norm(tasks)
    assert found.norm == pytest.approx(np.linalg.norm(B.value, axis=1).sum(), rel=1e-6)
    assert 0 <= found.gap + 1e-9 < 1e-5
    np.testing.assert_allclose(found.solution, B.value.T, atol=2e-3)
    for beta, (X, y) in zip(found.solution, tasks, strict=True):
        np.testing.assert_allclose(beta @ X, y, atol=1e-7)


def test_one_task_has_the_least_l1_norm():
    task = two_tasks(0)[0]
    found = multitask.minimum_group_norm([task])
    assert found.norm == pytest.approx(np.abs(minimum_l1(*task).solution).sum(), rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_weight_decay_solves_the_group_lasso_of_a_conic_solver(seed):
    tasks, decay = two_tasks(seed), 0.05
    B = cp.Variable((12, 2))
    losses = [cp.sum_squares(X.T @ B[:, o] - y) / (2 * len(y)) for o, (X, y) in enumerate(tasks)]
    problem = cp.Problem(cp.Minimize(sum(losses) + decay * cp.sum(cp.norm(B, 2, axis=1))))
    problem.solve(solver=cp.CLARABEL)
    found = multitask.decayed(tasks, decay, seed=seed)
    assert found.objective == pytest.approx(problem.value, rel=1e-6)
    np.testing.assert_allclose(found.network.predictor, B.value.T, atol=1e-3)
    assert found.network.squares / 2 == pytest.approx(multitask.group_norm(found.network.predictor), rel=1e-5)
    assert -1e-12 <= found.gap < 1e-6
    wrong = multitask.group_lasso_gap(found.network.predictor * 1.2, tasks, decay)
    assert wrong > 1e-3
    right = multitask.group_lasso_gap(B.value.T, tasks, decay)
    assert abs(right) < 1e-6


def test_flow_conserves_the_imbalance_and_reaches_the_loss():
    tasks = two_tasks(1)
    start = MultiOutputNetwork.constant(0.1, 12)
    end = multitask.multitask_flow(start, tasks, (3.0, 1.0), stop_loss=1e-14)
    assert end.outcome is FlowOutcome.REACHED_LOSS
    assert end.loss.sum() == pytest.approx(1e-14, rel=0.1)
    np.testing.assert_allclose(end.network.imbalance, start.imbalance, atol=1e-7)


def test_a_task_of_weight_zero_leaves_a_single_one():
    aux, main = two_tasks(2)
    start = MultiOutputNetwork.constant(0.1, 12)
    end = multitask.multitask_flow(start, [aux, main], (0, 1))
    assert (end.network.v_plus[0] == 0.1).all()
    alone = parameter_flow(DiagonalNetwork.tied(0.1, 12), *main, stop_loss=1e-16)
    np.testing.assert_allclose(end.network.predictor[1], alone.solution, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_a_held_task_stays_and_the_other_finds_the_implicit_minimum(seed):
    a, tasks = known_auxiliary(seed)
    alpha = 1e-3
    first = multitask.multitask_flow(MultiOutputNetwork.constant(alpha, 10), tasks, (1, 0), stop_loss=1e-22)
    second = multitask.multitask_flow(first.network, tasks, (np.inf, 1))
    np.testing.assert_allclose(second.network.predictor[0], a, atol=1e-7)
    limit = interpolate(*tasks[1], ImplicitMultiTask.from_start(a, alpha)).solution
    assert np.linalg.norm(second.network.predictor[1] - limit) < 10 * alpha * np.linalg.norm(limit)
    norm = multitask.minimum_group_norm(tasks).solution[1]
    assert np.linalg.norm(second.network.predictor[1] - norm) > 30 * alpha * np.linalg.norm(limit)


def test_the_jacobian_is_that_of_the_slope():
    rng = np.random.default_rng(0)
    system = multitask._System(2, 12, two_tasks(0), (2.0, 1.0))
    state, h = rng.normal(size=72), 1e-6
    differences = [
        (system.slope(0, state + h * e) - system.slope(0, state - h * e)) / (2 * h) for e in np.eye(72)
    ]
    np.testing.assert_allclose(system.jacobian(0, state), np.stack(differences, 1), atol=1e-6)


def test_what_does_not_fit_is_refused():
    tasks, start = two_tasks(0), MultiOutputNetwork.constant(0.1, 12)
    with pytest.raises(ValueError, match="one of each"):
        multitask.multitask_flow(start, tasks, (1.0,))
    with pytest.raises(ValueError, match="at least 0"):
        multitask.multitask_flow(start, tasks, (1.0, -1.0))
    with pytest.raises(ValueError, match="last axis"):
        multitask.multitask_flow(MultiOutputNetwork.constant(0.1, 11), tasks)
    with pytest.raises(ValueError, match="decay"):
        multitask.decayed(tasks, 0.0)
