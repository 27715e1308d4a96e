"""Speed of the transfer experiments' exact solver, side by side in one run.

    python tests/benchmarks/bench_transfer.py [--processes 2] [--points 6] [--out FILE.json]

At the size of Lippl and Lindsey (d = 1000, K = 40, n = 16 to 512, 6 seeds, alpha = gamma = 1e-3):

* ours: ``regimes.transfer.limit`` for all 900 conditions of their three published tables, in ``--processes``
  processes of one thread each;
* trainer: our own expression of the authors' procedure on a sample of conditions, one seed: full-batch
  gradient descent on the mean squared error with step 0.1, stopped at 1e-10 or after a million steps
  (pretraining is given: it is not timed, nor are the test errors that the authors compute on the way).

Both are compared with the exact solution to a residual of 1e-12, once a condition. Not collected by pytest;
asserts nothing.
"""
# ruff: noqa: E402 (the number of threads is fixed before numpy is loaded)

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import json
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from regimes import transfer
from regimes.models import DiagonalNetwork
from regimes.tasks import TransferTask, overlapping_teachers

SAMPLES = [16, 32, 64, 128, 256, 512]
SCALES = np.array([1.0, 0.1, 0.01, 0.001])
ACTIVE = [5, 10, 20, 30, 40]
STUDIES = {
    "overlap": ([40] * 4, [0, 20, 30, 40], "unit"),
    "active": (ACTIVE * 2, ACTIVE + [0] * 5, "mean"),  # the rescaling table too, by its scales
}
STEP, GOAL, MOST = 0.1, 1e-10, 1_000_000


def tables(job: tuple[str, int, int]) -> tuple[int, bool]:
    """All procedures of a study for one seed and number of samples: problems solved, all converged."""
    study, n, seed = job
    active, shared, normalization = STUDIES[study]
    task = overlapping_teachers(n, active, shared, normalization=normalization, seed=seed)
    found = []
    for procedure in transfer.PROCEDURES:
        rescaled = study == "active" and procedure in ("STL", "PT+FT")
        end = transfer.limit(procedure, task, scale=SCALES if rescaled else SCALES[:1])
        found.append(np.broadcast_to(end.converged, end.solution.shape[:-1]))
    return sum(f.size for f in found), all(f.all() for f in found)


def trainer(start: DiagonalNetwork, task: TransferTask) -> tuple[np.ndarray, int]:
    """The authors' procedure from ``start``: its predictor and the number of steps."""
    X, y = task.X, task.y
    up, vp, um, vm = (a.ravel().copy() for a in (start.u_plus, start.v_plus, start.u_minus, start.v_minus))
    steps = 0
    while True:
        residual = y - (up * vp - um * vm) @ X
        if residual @ residual < GOAL * len(y) or steps == MOST:
            return up * vp - um * vm, steps
        force = (2 * STEP / len(y)) * (X @ residual)
        up, vp, um, vm = up + vp * force, vp + up * force, um - vm * force, vm - um * force
        steps += 1


def point(procedure: str, active: int, shared: int, n: int) -> dict[str, float | str]:
    """Times and distances of both at one condition."""
    normalization = "unit" if active == 40 else "mean"
    task = overlapping_teachers(n, active, shared, normalization=normalization, seed=0)
    exact = transfer.limit(procedure, task, tolerance=1e-13).solution
    begin = time.perf_counter()
    ours = transfer.limit(procedure, task).solution
    ours_s = time.perf_counter() - begin
    begin = time.perf_counter()
    w, steps = trainer(transfer.start(procedure, task), task)
    trainer_s = time.perf_counter() - begin
    return {
        "procedure": procedure,
        "active": active,
        "shared": shared,
        "n": n,
        "steps": steps,
        "trainer_s": trainer_s,
        "ours_s": ours_s,
        "ratio": trainer_s / ours_s,
        "trainer_off": float(np.linalg.norm(w - exact)),
        "ours_off": float(np.linalg.norm(ours - exact)),
    }


POINTS = [
    ("PT+FT", 40, 40, 16),
    ("PT+FT", 40, 30, 32),
    ("PT+FT", 5, 5, 64),
    ("STL", 40, 0, 32),
    ("STL", 5, 0, 64),
    ("PT+FT", 40, 20, 128),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--points", type=int, default=len(POINTS), help="conditions of the sample")
    parser.add_argument("--out", type=Path, help="also write the figures as JSON to this file")
    arguments = parser.parse_args()
    jobs = [(study, n, seed) for n in SAMPLES[::-1] for study in STUDIES for seed in range(6)]
    begin = time.perf_counter()
    with ProcessPoolExecutor(arguments.processes) as pool:
        done = list(pool.map(tables, jobs))
    grid = {"ours_s": time.perf_counter() - begin, "problems": sum(d[0] for d in done)}
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    grid["cpu_s"] = used.ru_utime + used.ru_stime
    grid["all_converged"] = all(d[1] for d in done)
    times = f"{grid['ours_s']:.1f} s ({grid['cpu_s']:.1f} s of processor time)"
    print(f"{grid['problems']} problems in {times}, all converged: {grid['all_converged']}", flush=True)
    rows = []
    for setting in POINTS[: arguments.points]:
        rows.append(point(*setting))
        if len(rows) == 1:
            print("".join(f"{name:>13}" for name in rows[0]))
        cells = (v if isinstance(v, str) else format(v, ".3g") for v in rows[-1].values())
        print("".join(f"{cell:>13}" for cell in cells), flush=True)
    total = sum(r["trainer_s"] for r in rows) / sum(r["ours_s"] for r in rows)
    print(
        f"ratio of total times: {total:.0f}; smallest: {min(r['ratio'] for r in rows):.0f}; never farther: "
        f"{all(r['ours_off'] <= r['trainer_off'] for r in rows)}"
    )
    if arguments.out:
        arguments.out.write_text(json.dumps({"grid": grid, "points": rows}, indent=1))


if __name__ == "__main__":
    main()
