"""The run store: executed chapters, found again by what they were made from.

A run lies in ``_build/runs/<chapter>/<key>/<entry>/`` as ``notebook.ipynb`` and ``run.json``. The key covers
what is known before a run (code cells, parameters, Python's version). Which files and versions a run depends
on is known only afterwards, so a look-up walks the entries under the key and takes one whose recorded files
and versions are still those of today (the manifest mode of compiler caches). Prose, tags and captions are
part of neither.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
import psutil
from nbformat import NotebookNode

from regimes.press.cells import code_cells, tags
from regimes.press.chapters import Chapter
from regimes.press.trace import digest, locate

FORMAT = 2
KEEP = 5
INJECTED = "injected-parameters"


@dataclass(frozen=True)
class Run:
    """One stored run: the content of its ``run.json``, and the folder that it lies in."""

    chapter: str
    key: str
    parameters: dict[str, Any]
    changed: dict[str, Any]
    preset: str | None
    seconds: float
    budget: float
    peak_mb: float
    started: str
    commit: str | None
    python: str
    platform: str
    versions: dict[str, str]
    files: dict[str, str]
    claims: list[dict[str, Any]]
    records: dict[str, Any]
    path: Path

    @classmethod
    def read(cls, path: Path) -> Run:
        """The run in a folder.

        Raises:
            OSError, ValueError, TypeError: there is none, or not one of this format.
        """
        return cls(**json.loads((path / "run.json").read_text(encoding="utf-8")), path=path)

    def notebook(self) -> NotebookNode:
        """The executed notebook as it was stored."""
        return nbformat.read(self.path / "notebook.ipynb", as_version=4)

    def stamp(self) -> dict[str, Any]:
        """How the run was made, for the notebook's metadata: everything but claims, records and files."""
        told = asdict(self)
        return {
            name: told[name] for name in told if name not in ("claims", "records", "files", "path", "key")
        }


def compose(source: NotebookNode, run: Run) -> NotebookNode:
    """Today's cells of ``source`` with the run's outputs laid on its code cells by position.

    The cell of changed parameters, where the run has one, follows the parameters cell.

    Raises:
        ValueError: the source has another number of code cells than the run.
    """
    notebook, stored = copy.deepcopy(source), run.notebook()
    injected = [cell for cell in code_cells(stored) if INJECTED in tags(cell)]
    done = [cell for cell in code_cells(stored) if INJECTED not in tags(cell)]
    cells = code_cells(notebook)
    if len(cells) != len(done):
        raise ValueError(f"{run.chapter} has {len(cells)} code cells, its stored run {len(done)}")
    for cell, old in zip(cells, done, strict=True):
        cell.outputs, cell.execution_count = old.outputs, old.execution_count
    if injected:
        place = next(i for i, cell in enumerate(notebook.cells) if "parameters" in tags(cell))
        notebook.cells[place + 1 : place + 1] = injected
    for name in ("kernelspec", "language_info"):
        if name in stored.metadata:
            notebook.metadata[name] = stored.metadata[name]
    notebook.metadata.setdefault("regimes", NotebookNode())["run"] = run.stamp()
    return notebook


class Store:
    """The runs of one book."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "_build" / "runs"

    def key(self, chapter: Chapter, changed: Mapping[str, Any]) -> str:
        """Hash of all that is known of a run beforehand."""
        known = {
            "format": FORMAT,
            "python": platform.python_version(),
            "cells": [cell.source for cell in code_cells(chapter.notebook)],
            "parameters": chapter.values(changed),
        }
        return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()

    def find(self, chapter: Chapter, changed: Mapping[str, Any] | None = None) -> Run | None:
        """The newest run that is what a run today would be, or None."""
        entries = self._entries(f"{chapter.name}/{self.key(chapter, changed or {})}")
        return next((run for run in self._read(entries) if self.is_current(run)), None)

    def latest(self, name: str) -> Run | None:
        """The newest run of a chapter with its defaults, stale or not, or None."""
        return next(self._read(self._entries(f"{name}/*", "default-*")), None)

    def is_current(self, run: Run) -> bool:
        """Whether the files and versions that the run used are still the same."""
        return all(_version(name) == version for name, version in run.versions.items()) and all(
            _digest_or_none(locate(name, self.root)) == hashed for name, hashed in run.files.items()
        )

    def temporary(self) -> Path:
        """A new folder in the store, named after this process, for a run that is under way."""
        path = self.folder / f".tmp-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        path.mkdir(parents=True)
        return path

    def keep(self, temporary: Path, run: Mapping[str, Any]) -> Run:
        """Store the notebook in ``temporary`` with its run.json: complete, or not at all."""
        (temporary / "run.json").write_text(json.dumps(run, indent=1), encoding="utf-8")
        (temporary / "seal").write_text(_seal(temporary), encoding="utf-8")
        setting = _setting(run["changed"])
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
        entry = self.folder / run["chapter"] / run["key"] / f"{setting}-{moment}-{uuid.uuid4().hex[:4]}"
        entry.parent.mkdir(parents=True, exist_ok=True)
        temporary.rename(entry)
        for old in self._entries(f"{run['chapter']}/*", f"{setting}-*")[KEEP:]:
            self._remove(old)
        return Run.read(entry)

    def clean(self) -> None:
        """Remove what killed processes have left half-done."""
        for left in self.folder.glob(".tmp-*"):
            owner = left.name.split("-")[1]
            if not (owner.isdigit() and psutil.pid_exists(int(owner))):
                shutil.rmtree(left, ignore_errors=True)

    def _entries(self, where: str, entry: str = "*") -> list[Path]:
        return sorted(self.folder.glob(f"{where}/{entry}"), key=lambda path: path.name, reverse=True)

    def _read(self, entries: list[Path]) -> Iterator[Run]:
        """The runs that are as they were stored; one that was damaged since is none."""
        for path in entries:
            try:
                if (path / "seal").read_text(encoding="utf-8") == _seal(path):
                    yield Run.read(path)
            except (OSError, ValueError, TypeError):
                continue

    def _remove(self, entry: Path) -> None:
        # Renamed first: no reader may meet an entry that is half gone.
        gone = self.folder / f".tmp-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        entry.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
        if not any(entry.parent.iterdir()):
            entry.parent.rmdir()


def _seal(folder: Path) -> str:
    return digest(folder / "run.json") + digest(folder / "notebook.ipynb")


def _setting(changed: Mapping[str, Any]) -> str:
    if not changed:
        return "default"
    return hashlib.sha256(json.dumps(dict(changed), sort_keys=True).encode()).hexdigest()[:12]


def _digest_or_none(path: Path) -> str | None:
    try:
        return digest(path)
    except OSError:
        return None


@functools.cache
def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
