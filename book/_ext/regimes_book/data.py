"""What the chapters' runs said: the ledger and the runs, as staged beside the pages."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from sphinx.environment import BuildEnvironment

LEDGER, RUNS = "book/_data/ledger.json", "book/_data/runs.json"
GOOD = ("holds", "supported")


def ledger(env: BuildEnvironment) -> dict[str, dict[str, Any]] | None:
    """Claim records by id; None in a bare build, where no chapter was run."""
    records = _read(env, LEDGER)
    return None if records is None else {record["id"]: record for record in records}


def runs(env: BuildEnvironment) -> dict[str, dict[str, Any]] | None:
    """Runs by chapter; None in a bare build."""
    return _read(env, RUNS)


def depend(env: BuildEnvironment, *files: str) -> None:
    """The page being read is read again when one of the files changes."""
    for file in files:
        if (Path(env.srcdir) / file).exists():
            env.note_dependency(file)


def tally(records: Iterable[dict[str, Any]]) -> str:
    """How many claims there are and how they stand, as a phrase."""
    records = list(records)
    parts = []
    for kind, good in (("established", "hold"), ("conjecture", "supported")):
        verdicts = [record["verdict"] for record in records if record["kind"] == kind]
        if not verdicts:
            continue
        number, done = len(verdicts), sum(verdict in GOOD for verdict in verdicts)
        noun = kind if kind == "established" or number == 1 else "conjectures"
        parts.append(f"{number} {noun} ({'all' if done == number > 1 else done} {good})")
    return (
        f"{len(records)} claim{'' if len(records) == 1 else 's'}: " + ", ".join(parts)
        if parts
        else "no claims"
    )


def _read(env: BuildEnvironment, name: str) -> Any:
    path = Path(env.srcdir) / name
    return _load(path, path.stat().st_mtime_ns) if path.exists() else None


@lru_cache(maxsize=8)
def _load(path: Path, _time: int) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
