"""Speed of the diagonal network's flow and minimizer, side by side in one run on one thread.

    python tests/benchmarks/bench_diagonal.py [--points 6] [--out FILE.json]

At the size of Azulay et al. (N = 100, d = 1000, 20 scales × 5 shapes), on a sample of the grid:

* descent: our own expression of the authors' procedure, plain gradient descent with step 1e-3, one setting
  at a time, the loss looked at every 1000 steps, stopped at a mean squared error below 1e-4;
* flow: ``regimes.flow.dual_flow``, integrated further, so that its distance to the exact minimizer is not
  larger at any point;
* conic: CLARABEL through cvxpy on the exponential-cone form of the potential, the exact minimizer;
* minimizer: ``regimes.interpolate.interpolate``.

Ours are timed on the whole grid in one batch, as they are meant to be used, and on the sampled points alone.
The times of the others for the whole grid are extrapolated: descent by the number of its steps, which is found
from the flow's time to the authors' loss at each of the 100 points (one step is 1e-3 units of time), conic by its
mean time per point. Not collected by pytest; asserts nothing.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import json
import platform
import resource
import time
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
OUR_LOSS = 1e-8
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
    cp.Problem(cp.Minimize(entropy), [task.X.T @ (p - m) == task.y]).solve(cp.CLARABEL)
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
    settings = {"stop_loss": OUR_LOSS, "levels": [AUTHORS_LOSS]}
    flow, flow_s = timed(lambda: dual_flow(task.X, task.y, potential, **settings))
    looks = np.ceil(flow.times[..., 0] / (STEP * LOOK_EVERY)) * LOOK_EVERY
    return {
        "flow_s": flow_s,
        "minimizer_s": minimizer_s,
        "all_reached": bool(flow.reached.all() and solved.converged.all()),
        "largest_flow_distance": float(np.linalg.norm(flow.solution - solved.solution, axis=-1).max()),
        "descent_steps": float(looks.sum()),
    }


def one_point(task: SparseRegression, alpha: float, s: float, with_conic: bool) -> dict[str, float]:
    """Times and distances to the exact minimizer of all contenders at one setting."""
    scale = root_k(alpha, s)
    potential = Hypentropy(scale)
    exact, minimizer_s = timed(interpolate, task.X, task.y, potential)
    flow, flow_s = timed(lambda: dual_flow(task.X, task.y, potential, stop_loss=OUR_LOSS))
    (w, steps), descent_s = timed(descent, task, alpha, s)
    row = {"alpha": alpha, "s": s, "steps": steps, "descent_s": descent_s, "flow_s": flow_s}
    row |= {"minimizer_s": minimizer_s, "gap": float(exact.gap)}
    row |= {"descent_distance": float(np.linalg.norm(w - exact.solution))}
    row |= {"flow_distance": float(np.linalg.norm(flow.solution - exact.solution))}
    if with_conic:
        w, row["conic_s"] = timed(conic, task, scale)
        row["conic_distance"] = float(np.linalg.norm(w - exact.solution))
    return row


HEAD = ("alpha", "s", "steps", "descent_s", "flow_s", "conic_s", "minimizer_s")
DISTANCES = ("descent_distance", "flow_distance", "conic_distance", "gap")


def print_row(cells) -> None:
    print("  ".join(f"{c if isinstance(c, str) else format(c, '.3g'):>16}" for c in cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=6, help="settings in the sample (default 6)")
    parser.add_argument("--out", type=Path, help="also write the figures as JSON to this file")
    arguments = parser.parse_args()
    task = sparse_regression()
    whole_grid(sparse_regression(N=5, d=20))  # imports, allocations and look-ups happen before the clock runs

    grid = whole_grid(task)
    grid["peak_mb_of_ours"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print_row((*HEAD, *DISTANCES))
    rows = []
    for alpha, s in sample(arguments.points):
        rows.append(one_point(task, alpha, s, with_conic=True))
        print_row(rows[-1][name] for name in (*HEAD, *DISTANCES))

    per_step = sum(r["descent_s"] for r in rows) / sum(r["steps"] for r in rows)
    grid["descent_s"] = per_step * grid["descent_steps"]
    grid["conic_s"] = np.mean([r["conic_s"] for r in rows]) * SCALES.size * SHAPES.size
    grid["flow_ratio"] = grid["descent_s"] / grid["flow_s"]
    grid["minimizer_ratio"] = grid["conic_s"] / grid["minimizer_s"]
    grid["flow_never_farther"] = all(r["flow_distance"] <= r["descent_distance"] for r in rows)
    grid["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"\nThe whole grid of {SCALES.size * SHAPES.size} settings:\n"
        f"  descent    {grid['descent_s']:9.1f} s   (extrapolated: {grid['descent_steps']:.3g} steps of "
        f"{per_step * 1e6:.0f} µs)\n"
        f"  flow       {grid['flow_s']:9.2f} s   {grid['flow_ratio']:.0f} times faster; distance to the minimizer "
        f"at most {grid['largest_flow_distance']:.1e}, never farther than descent: {grid['flow_never_farther']}\n"
        f"  conic      {grid['conic_s']:9.1f} s   (extrapolated: mean time of the sample)\n"
        f"  minimizer  {grid['minimizer_s']:9.2f} s   {grid['minimizer_ratio']:.0f} times faster\n"
        f"  peak memory {grid['peak_mb_of_ours']:.0f} MB after ours, {grid['peak_mb']:.0f} MB in the end"
    )
    if arguments.out:
        machine = {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "machine": platform.machine(),
        }
        arguments.out.write_text(json.dumps({"grid": grid, "points": rows, "machine": machine}, indent=1))


if __name__ == "__main__":
    main()
