"""One chapter with chosen parameters, as a notebook or a page of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import yaml

from regimes.press import stage
from regimes.press.chapters import Chapter
from regimes.press.failures import Failure
from regimes.press.store import Run, Store, compose


def run(
    store: Store, chapter: Chapter, changed: Mapping[str, Any], preset: str | None, force: bool
) -> Run | Failure:
    """The stored run of these parameters, executed where there is none that is fresh.

    The default setting keeps its limit of three times the budget; other parameters may take their time.
    """
    found = None if force else store.find(chapter, changed)
    if found is not None:
        return found
    from regimes.press.execute import Job, execute
    from regimes.press.progress import Progress

    job = Job(chapter, changed, preset, limited=not changed)
    runs, failures = execute(store, [job], 1, Progress(1))
    return failures[0] if failures else runs[chapter.name]


def write(root: Path, chapter: Chapter, run: Run, out: Path, html: bool) -> list[Path]:
    """Write the executed notebook to ``out``, with ``html`` also as a page of the book; where they are.

    Raises:
        RuntimeError: the page could not be made (the notebook is there all the same).
    """
    _replace(out, nbformat.writes(compose(chapter.notebook, run)))
    return [out, _page(root, chapter, run, out.with_name(f"{out.stem}_html"))] if html else [out]


def _make_way(folder: Path) -> None:
    """Remove a page that was written here before, and nothing else."""
    if not folder.exists():
        return
    if not (folder / "searchindex.js").is_file():
        raise RuntimeError(
            f"{folder} exists and is no page of this book; move it, or choose another name with -o"
        )
    shutil.rmtree(folder)


def _replace(path: Path, text: str) -> None:
    # Whoever reads the old file meanwhile, and whoever stops this, still has a whole one.
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    fresh.write_text(text, encoding="utf-8")
    os.replace(fresh, path)


def _page(root: Path, chapter: Chapter, run: Run, folder: Path) -> Path:
    """The book with this one page, in a folder. Links to other chapters lead nowhere, so warnings pass."""
    work = root / "_build" / "page" / chapter.name
    page = f"notebooks/{chapter.name}"
    content = stage.staged(root, stage.book_files(root), [chapter], {chapter.name: run})
    content[Path("_toc.yml")] = yaml.safe_dump({"format": "jb-book", "root": page}).encode()
    stage.write_tree(work / "src", content)
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build", "."]
    done = subprocess.run(
        [*command, "--path-output", str(work)], cwd=work / "src", capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{chapter.name}: no page could be made\n{done.stderr[-2000:]}")
    _make_way(folder)
    shutil.copytree(work / "_build" / "html", folder, ignore=shutil.ignore_patterns("*.map", ".buildinfo"))
    return folder / f"{page}.html"
