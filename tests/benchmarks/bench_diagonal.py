"""Speed of the diagonal network's flow and minimizer, side by side in one run on one thread.

    python tests/benchmarks/bench_diagonal.py [--points 6] [--out FILE.json]

At the size of Azulay et al. (N = 100, d = 1000, 20 scales × 5 shapes), on a sample of the grid:

* descent: our own expression of the authors' procedure, plain gradient descent with step 1e-3, one setting
  at a time, the loss looked at every 1000 steps, stopped at a mean squared error below 1e-4;
* flow: ``regimes.flow.dual_flow``, carried on to a loss of 1e-18, so that its distance to the exact minimizer
  is not larger than descent's at any point (descent overshoots its goal between two looks);
* conic: CLARABEL through cvxpy, with its own tolerances, on the exponential-cone form of the potential;
* minimizer: ``regimes.interpolate.interpolate``.

Ours are timed on the sampled points alone, and on the whole grid in one batch, as they are meant to be used.
The others' times for the whole grid are extrapolated: descent by its number of steps at each of the 100
points, known from the flow's time to the authors' loss (a step is 1e-3 units of time); conic by its mean
time per point. Not collected by pytest; asserts nothing.
"""
# ruff: noqa: E402 (the number of threads is fixed before numpy is loaded)

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import json
import platform
import resource
import time
import warnings
from collections.abc import Iterable
from pathlib import Path

import cvxpy as cp
import numpy as np

from regimes.flow import dual_flow
from regimes.interpolate import interpolate
from regimes.models import DiagonalNetwork, root_k
from regimes.potentials import Hypentropy
from regimes.tasks import SparseRegression, sparse_regression

SCALES, SHAPES = np.logspace(-5, -0.6, 20), np.array([0, 0.5, 0.7, 0.9, 0.99])
AUTHORS_LOSS = 1e-4 / 2  # their mean squared error, without our factor of 1/2
OURS = {"stop_loss": 1e-18, "rtol": 1e-2}
STEP, LOOK_EVERY = 1e-3, 1000


def descent(task: SparseRegression, alpha: float, s: float) -> tuple[np.ndarray, int]:
    """The authors' procedure for one setting: its predictor and the number of steps."""
    X, y = task.X, task.y
    network = DiagonalNetwork.from_scale_shape(alpha, s, len(X))
    up, vp, um, vm = (a.copy() for a in (network.u_plus, network.v_plus, network.u_minus, network.v_minus))
    for count in range(10_000_000):
        residual = y - X.T @ (up * vp - um * vm)
        if count % LOOK_EVERY == 0 and np.mean(residual**2) < 2 * AUTHORS_LOSS:
            break
        force = STEP / len(y) * (X @ residual)
        up, vp, um, vm = up + vp * force, vp + up * force, um - vm * force, vm - um * force
    return up * vp - um * vm, count


def conic(task: SparseRegression, scale: float) -> np.ndarray:
    """The minimizer by a general solver: q is the least sum of two relative entropies over w = p − m."""
    p, m = cp.Variable(len(task.X)), cp.Variable(len(task.X))
    entropy = cp.sum(cp.kl_div(p, scale / 4) + cp.kl_div(m, scale / 4)) / 2
    problem = cp.Problem(cp.Minimize(entropy), [task.X.T @ (p - m) == task.y])
    with warnings.catch_warnings():
        # CLARABEL often stops short of its tolerances; the table shows how far.
        warnings.simplefilter("ignore")
        problem.solve(cp.CLARABEL)
    return p.value - m.value


def timed(function, *arguments):
    start = time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - start


def sample(points: int) -> list[tuple[float, float]]:
    """Settings spread over the grid: scales from end to end, shapes in turn."""
    rows = np.linspace(0, len(SCALES) - 1, points).round().astype(int)
    return [(SCALES[i], SHAPES[n % len(SHAPES)]) for n, i in enumerate(rows)]


def whole_grid(task: SparseRegression) -> dict[str, float]:
    """Our times for all 100 settings, and the steps that descent would need for them."""
    potential = Hypentropy(root_k(SCALES[:, None], SHAPES)[..., None])
    solved, minimizer_s = timed(interpolate, task.X, task.y, potential)
    flow, flow_s = timed(lambda: dual_flow(task.X, task.y, potential, levels=[AUTHORS_LOSS], **OURS))
    looks = np.ceil(flow.times[..., 0] / (STEP * LOOK_EVERY)) * LOOK_EVERY
    return {
        "flow_s": flow_s,
        "minimizer_s": minimizer_s,
        "all_reached": bool(flow.reached.all() and solved.converged.all()),
        "largest_flow_off": float(np.linalg.norm(flow.solution - solved.solution, axis=-1).max()),
        "largest_gap": float(np.abs(solved.gap).max()),
        "descent_steps": float(looks.sum()),
    }


def one_point(task: SparseRegression, alpha: float, s: float) -> dict[str, float]:
    """Times, and distances to the exact minimizer, of all contenders at one setting."""
    scale = root_k(alpha, s)
    potential = Hypentropy(scale)
    exact, minimizer_s = timed(interpolate, task.X, task.y, potential)
    flow, flow_s = timed(lambda: dual_flow(task.X, task.y, potential, **OURS))
    (w, steps), descent_s = timed(descent, task, alpha, s)
    cone, conic_s = timed(conic, task, scale)
    off = {"descent": w, "flow": flow.solution, "conic": cone}
    return {
        "alpha": alpha,
        "s": s,
        "steps": steps,
        "descent_s": descent_s,
        "flow_s": flow_s,
        "ratio": descent_s / flow_s,
        "conic_s": conic_s,
        "minimizer_s": minimizer_s,
        "ratio_min": conic_s / minimizer_s,
        **{f"{name}_off": float(np.linalg.norm(v - exact.solution)) for name, v in off.items()},
    }


def print_row(cells: Iterable[str | float]) -> None:
    print("".join(f"{c if isinstance(c, str) else format(c, '.3g'):>12}" for c in cells), flush=True)


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


REPORT = """
The whole grid of 100 settings:
  descent   {descent_s:8.1f} s  (extrapolated: {descent_steps:.3g} steps of {step_us:.0f} µs)
  flow      {flow_s:8.2f} s  {flow_ratio:.0f} times faster, all reached: {all_reached}
            at most {largest_flow_off:.1e} from the minimizer, never farther than descent: {never_farther}
  conic     {conic_s:8.1f} s  (extrapolated: mean time of the sample)
  minimizer {minimizer_s:8.2f} s  {minimizer_ratio:.0f} times faster, largest duality gap {largest_gap:.1e}
Peak memory: {ours_mb:.0f} MB after ours, {peak_mb:.0f} MB in the end"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=6, help="settings in the sample (default 6)")
    parser.add_argument("--out", type=Path, help="also write the figures as JSON to this file")
    arguments = parser.parse_args()
    task = sparse_regression()
    whole_grid(sparse_regression(N=5, d=20))  # first uses and allocations happen before the clock runs
    grid = whole_grid(task) | {"ours_mb": peak_mb()}
    rows = []
    for alpha, s in sample(arguments.points):
        rows.append(one_point(task, alpha, s))
        if len(rows) == 1:
            print_row(rows[0])
        print_row(rows[-1].values())
    grid["step_us"] = 1e6 * sum(r["descent_s"] for r in rows) / sum(r["steps"] for r in rows)
    grid["descent_s"] = 1e-6 * grid["step_us"] * grid["descent_steps"]
    grid["conic_s"] = float(np.mean([r["conic_s"] for r in rows])) * SCALES.size * SHAPES.size
    grid["flow_ratio"] = grid["descent_s"] / grid["flow_s"]
    grid["minimizer_ratio"] = grid["conic_s"] / grid["minimizer_s"]
    grid["never_farther"] = all(r["flow_off"] <= r["descent_off"] for r in rows)
    grid["peak_mb"] = peak_mb()
    print(REPORT.format(**grid))
    if arguments.out:
        machine = {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "machine": platform.machine(),
        }
        arguments.out.write_text(json.dumps({"grid": grid, "points": rows, "machine": machine}, indent=1))


if __name__ == "__main__":
    main()
