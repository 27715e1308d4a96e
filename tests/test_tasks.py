"""Tasks: the draw is the documented one, and impossible requests are refused."""

import numpy as np
import pytest

from regimes.tasks import sparse_regression


def test_the_draw_follows_the_documented_order():
    task = sparse_regression(N=6, d=20, r=3, noise=0.04, seed=5)
    rng = np.random.default_rng(5)
    X = rng.normal(size=(20, 6))
    support = rng.choice(20, 3, replace=False)
    y = X[support].sum(0) / np.sqrt(3) + 0.2 * rng.normal(size=6)
    np.testing.assert_array_equal(task.X, X)
    assert set(np.flatnonzero(task.w_star)) == set(support)
    assert np.linalg.norm(task.w_star) == pytest.approx(1)
    np.testing.assert_allclose(task.y, y, rtol=1e-14)


def test_several_seeds_are_the_single_ones_stacked():
    tasks = sparse_regression(N=4, d=9, r=2, seed=[3, 8])
    for i, seed in enumerate((3, 8)):
        one = sparse_regression(N=4, d=9, r=2, seed=seed)
        for name in ("X", "y", "w_star"):
            np.testing.assert_array_equal(getattr(tasks, name)[i], getattr(one, name))


def test_population_error_is_the_expected_squared_error():
    task = sparse_regression(N=4, d=9, r=2)
    w = np.random.default_rng(1).normal(size=9)
    x = np.random.default_rng(2).normal(size=(400_000, 9))
    squares = (x @ (w - task.w_star)) ** 2
    assert task.population_error(w) == pytest.approx(squares.mean(), abs=5 * squares.std() / np.sqrt(len(x)))
    assert task.population_error(task.w_star) == 0


def test_population_error_takes_settings_after_the_seeds():
    tasks = sparse_regression(N=4, d=9, r=2, seed=[0, 1, 2])
    w = np.random.default_rng(1).normal(size=(3, 5, 2, 9))
    errors = tasks.population_error(w)
    assert errors.shape == (3, 5, 2)
    assert errors[2, 4, 1] == pytest.approx(np.sum((w[2, 4, 1] - tasks.w_star[2]) ** 2))
    assert tasks.expand(2).X.shape == (3, 1, 1, 9, 4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"N": 0}, "N = 0"),
        ({"N": 2.5}, "N = 2.5"),
        ({"d": 3, "r": 4}, "r = 4 non-zero entries do not fit into d = 3"),
        ({"noise": -1}, "noise = -1"),
        ({"noise": float("nan")}, "noise = nan"),
        ({"seed": []}, "empty"),
    ],
)
def test_impossible_requests_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        sparse_regression(**settings)
