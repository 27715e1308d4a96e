"""Tasks: the draw is the documented one, and impossible requests are refused."""

import numpy as np
import pytest

from regimes.tasks import overlapping_teachers, sparse_regression


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


def test_overlapping_teachers_share_the_features_that_they_should():
    task = overlapping_teachers(5, 4, 3, d=30, auxiliary=6, seed=2)
    main, aux = task.w_star != 0, task.w_aux != 0
    assert (main.sum(), aux.sum(), (main & aux).sum()) == (4, 6, 3)
    assert (np.sign(task.w_star) == np.sign(task.w_aux))[main & aux].all()
    np.testing.assert_allclose(np.abs(task.w_aux[aux]), 1 / np.sqrt(6))
    np.testing.assert_allclose(np.abs(task.w_star[main]), 1 / 2)
    mean = overlapping_teachers(5, 4, 3, d=30, auxiliary=6, seed=2, normalization="mean")
    np.testing.assert_allclose(mean.w_star, task.w_star / 2)
    np.testing.assert_allclose(np.square(task.X).sum(0), 30)
    np.testing.assert_allclose(task.y, task.X.T @ task.w_star)


def test_a_batch_of_teachers_is_the_single_ones_with_common_inputs():
    batch = overlapping_teachers(5, [4, 2], [3, 0], d=30, auxiliary=6, seed=[0, 7])
    one = overlapping_teachers(5, 2, 0, d=30, auxiliary=6, seed=7)
    assert batch.X.shape == (2, 1, 30, 5) and batch.y.shape == (2, 2, 5)
    np.testing.assert_array_equal(batch.X[1, 0], one.X)
    for name in ("y", "w_star", "w_aux"):
        np.testing.assert_allclose(getattr(batch, name)[1, 1], getattr(one, name), atol=1e-14)
    wide = batch.expand(1)
    assert wide.X.shape == (2, 1, 1, 30, 5) and wide.w_aux.shape == (2, 2, 1, 30)
    np.testing.assert_allclose(batch.population_error(0 * batch.w_star), 1)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"n": 0}, "n = 0"),
        ({"overlap": 5}, "overlap = 5"),
        ({"auxiliary": 30}, "do not fit"),
        ({"normalization": "sum"}, "normalization = 'sum'"),
        ({"seed": []}, "seed is an empty"),
    ],
)
def test_impossible_teachers_are_refused(wrong, match):
    settings = {"n": 5, "active": 4, "overlap": 0, "d": 30, "auxiliary": 6, "seed": 0} | wrong
    with pytest.raises(ValueError, match=match):
        overlapping_teachers(**settings)
