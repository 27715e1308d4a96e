"""Executes chapters in parallel, each in a process of its own, within its limits of time and memory."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
import psutil

from regimes.press.chapters import Chapter
from regimes.press.failures import Failure, explain
from regimes.press.machine import commit_of, cores
from regimes.press.progress import Progress
from regimes.press.store import Run, Store

START_TIMEOUT = 120.0
TIMES_BUDGET = 3.0
_POLL = 0.1
_ONE_THREAD = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


@dataclass(frozen=True)
class Job:
    """A chapter to execute with these changes; ``limited`` stops it at three times its budget."""

    chapter: Chapter
    changed: Mapping[str, Any]
    preset: str | None = None
    limited: bool = True


def execute(
    store: Store, jobs: Sequence[Job], workers: int, progress: Progress
) -> tuple[dict[str, Run], list[Failure]]:
    """Execute all jobs, at most ``workers`` at once; the new runs by chapter, and the failures.

    A failure does not stop the others. Leaving by an exception (Ctrl-C) ends all that is running; finished
    runs are in the store by then.
    """
    commit = commit_of(store.root)
    waiting, running = deque(jobs), []
    runs: dict[str, Run] = {}
    failures: list[Failure] = []
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                running.append(Child(store, waiting.popleft(), commit))
                progress.begin(running[-1].job)
            time.sleep(_POLL)
            for child in list(running):
                ended = child.poll()
                progress.step(child.job, child.cell)
                if ended is None:
                    continue
                running.remove(child)
                if isinstance(ended, Run):
                    runs[ended.chapter] = ended
                else:
                    failures.append(ended)
                progress.end(child.job, ended)
    finally:
        for child in running:
            child.stop()
    return runs, failures


class Child:
    """One running child process with its folder in the store."""

    def __init__(self, store: Store, job: Job, commit: str | None) -> None:
        self.store, self.job, self.commit = store, job, commit
        self.cell = -1
        self._attempts = 0
        self._launch()

    def _launch(self) -> None:
        self._attempts += 1
        self._first: float | None = None
        self._peak = 0.0
        self._begun, self._started = time.monotonic(), datetime.now(UTC)
        self.folder = self.store.temporary()
        # Socket paths must be short, so not in the store.
        self._runtime = Path(tempfile.mkdtemp(prefix="regimes-"))
        nbformat.write(self.job.chapter.notebook, self.folder / "source.ipynb")
        job = {
            "folder": str(self.folder),
            "root": str(self.store.root),
            "cwd": str(self.job.chapter.path.parent),
            "changed": dict(self.job.changed),
            "start_timeout": START_TIMEOUT,
            "parent": os.getpid(),
        }
        (self.folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "regimes.press.child", str(self.folder / "job.json")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment(),
                # Ctrl-C goes to the parent alone, which then ends the children in order.
                start_new_session=True,
            )

    def _environment(self) -> dict[str, str]:
        fixed = {
            "JUPYTER_RUNTIME_DIR": str(self._runtime),
            # A person's own start-up files of IPython are no part of the book.
            "IPYTHONDIR": str(self._runtime / "ipython"),
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
            "PYTHONHASHSEED": "0",
            "TQDM_DISABLE": "1",
        }
        return os.environ | dict.fromkeys(_ONE_THREAD, "1") | fixed

    def poll(self) -> Run | Failure | None:
        """How the job ended, or None while it goes on."""
        self._read_steps()
        status = self._process.poll()
        if status is None:
            return self._over_limits()
        shutil.rmtree(self._runtime, ignore_errors=True)
        if status == 0:
            return self._keep()
        told = self._told(status)
        self._clear()
        if told["kind"] == "start" and self._attempts == 1:
            self._launch()
            return None
        return explain(self.job.chapter, told)

    def stop(self) -> None:
        """End the child and all its processes, and remove what they have left."""
        for process in [*_descendants(self._process.pid), self._process]:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self._process.wait()
        self._clear()

    def _clear(self) -> None:
        shutil.rmtree(self._runtime, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _read_steps(self) -> None:
        steps = self.folder / "steps"
        lines = steps.read_text().splitlines() if steps.exists() else []
        if lines and self._first is None:
            self._first = time.monotonic()
        self.cell = int(lines[-1]) if lines else -1

    def _over_limits(self) -> Failure | None:
        told = self._too_long() or self._too_big()
        if told is None:
            return None
        self.stop()
        return explain(self.job.chapter, told | {"cell": self.cell})

    def _too_long(self) -> dict[str, Any] | None:
        chapter = self.job.chapter
        if self._first is None:
            late = time.monotonic() - self._begun > 2 * START_TIMEOUT
            return (
                {"kind": "start", "message": f"no cell began within {2 * START_TIMEOUT:g} s"}
                if late
                else None
            )
        seconds, limit = time.monotonic() - self._first, TIMES_BUDGET * chapter.budget
        if self.cell >= len(chapter.notebook.cells):
            # The chapter is done; the press has still to write it down.
            limit += START_TIMEOUT
        return {"kind": "budget", "limit": limit} if self.job.limited and seconds > limit else None

    def _too_big(self) -> dict[str, Any] | None:
        # The memory of papermill's own process is the press's affair.
        used = sum(_memory(process) for process in _descendants(self._process.pid))
        self._peak = max(self._peak, used)
        return {"kind": "memory", "used": used} if used > self.job.chapter.memory_gb * 1e9 else None

    def _told(self, status: int) -> dict[str, Any]:
        try:
            return json.loads((self.folder / "failure.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            log = (self.folder / "log").read_text(encoding="utf-8", errors="replace")
            return {"kind": "press", "status": status, "log": log, "cell": self.cell}

    def _keep(self) -> Run:
        outcome = json.loads((self.folder / "outcome.json").read_text(encoding="utf-8"))
        for done in ("job.json", "log", "outcome.json", "source.ipynb", "steps", "trace.json"):
            (self.folder / done).unlink()
        chapter = self.job.chapter
        outcome["peak_mb"] = round(max(outcome["peak_mb"], self._peak / 1e6), 1)
        known = {
            "chapter": chapter.name,
            "key": self.store.key(chapter, self.job.changed),
            "parameters": chapter.values(self.job.changed),
            "changed": dict(self.job.changed),
            "preset": self.job.preset,
            "budget": chapter.budget,
            "started": self._started.isoformat(timespec="seconds"),
            "commit": self.commit,
            "python": platform.python_version(),
            "platform": f"{platform.system()} {platform.machine()}, {cores()} cores",
        }
        return self.store.keep(self.folder, known | outcome)


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _memory(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.NoSuchProcess:
        return 0
