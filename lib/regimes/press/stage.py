"""The site: chapters and prose staged into one tree, built with warnings as errors, swapped in whole."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import yaml
from filelock import FileLock

from regimes.press.cells import first_line
from regimes.press.chapters import Chapter
from regimes.press.present import SiteError, page
from regimes.press.store import Run, compose

__all__ = ["SiteError", "SiteResult", "book_files", "build_site", "staged", "write_tree"]

_IGNORED = ("__pycache__", ".ipynb_checkpoints", "_data")
_WARNING = re.compile(r"^(?P<where>.*?)(?P<kind>WARNING|ERROR|CRITICAL|SEVERE): (?P<text>.*)$")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_CELL_LINES = 10_000  # MyST-NB numbers the lines of cell c, counted from 1, as c * 10000 + 2, + 3, ...


@dataclass(frozen=True)
class SiteResult:
    """What `build_site` did: whether it built at all, where the site is, how long it took."""

    built: bool
    path: Path
    seconds: float


def build_site(
    root: Path, chapters: Sequence[Chapter], runs: Mapping[str, Run], build: Path | None = None
) -> SiteResult:
    """Publishes the chapters' runs and the prose pages as `html` in the folder `build` (default `_build`).

    Does nothing when nothing that the site depends on has changed. Until the new site is complete and free of
    warnings the old one stays.

    Raises:
        SiteError: a chapter without a run, an image without alt text, or any warning of the book builder.
    """
    started = time.perf_counter()
    missing = [chapter.name for chapter in chapters if chapter.name not in runs]
    if missing:
        raise SiteError("no stored run to publish of: " + ", ".join(missing))
    build = build or root / "_build"
    build.mkdir(parents=True, exist_ok=True)
    with FileLock(build / "site.lock"):
        built = _update(root, build, chapters, runs)
    return SiteResult(built, build / "html", time.perf_counter() - started)


def _update(root: Path, build: Path, chapters: Sequence[Chapter], runs: Mapping[str, Run]) -> bool:
    _recover(build)
    sources = book_files(root)
    fingerprint, mark = _fingerprint(root, sources, chapters, runs), build / "site.fingerprint"
    known = mark.read_text() if mark.exists() else None
    if known == fingerprint and (build / "html" / "index.html").exists():
        return False
    # The mark stands only beside a tree whose last build was clean. Sphinx forgets the warnings of pages that
    # it does not read again, so after a red or interrupted build everything is read again.
    mark.unlink(missing_ok=True)
    removed = write_tree(build / "src", staged(root, sources, chapters, runs))
    if known is None or removed:
        shutil.rmtree(build / "site", ignore_errors=True)
    _run_builder(build / "src", build / "site")
    _swap(build, build / "site" / "_build" / "html")
    mark.write_text(fingerprint)
    return True


def book_files(root: Path) -> dict[Path, bytes]:
    """The book's files by their place in it, read once, so that an edit meanwhile can't mix two states."""
    files = [root / "_config.yml", root / "_toc.yml", *sorted((root / "book").rglob("*"))]
    names = [path.relative_to(root) for path in files if path.is_file()]
    return {name: (root / name).read_bytes() for name in names if not set(name.parts) & set(_IGNORED)}


def _fingerprint(
    root: Path, sources: Mapping[Path, bytes], chapters: Sequence[Chapter], runs: Mapping[str, Run]
) -> str:
    """One hash over all that the site is made from: sources, runs, docstrings, installed versions."""
    parts = [sys.version, *sorted(p.name for p in Path(sysconfig.get_path("purelib")).glob("*.dist-info"))]
    for name, data in sources.items():
        parts += [str(name), hashlib.sha256(data).hexdigest()]
    for chapter in chapters:
        parts += [chapter.name, nbformat.writes(chapter.notebook)]
    files = [path for chapter in chapters for path in sorted(runs[chapter.name].path.iterdir())]
    for path in [*files, *sorted((root / "lib").rglob("*.py"))]:
        parts += [str(path.relative_to(root)), hashlib.sha256(path.read_bytes()).hexdigest()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def staged(
    root: Path, sources: Mapping[Path, bytes], chapters: Sequence[Chapter], runs: Mapping[str, Run]
) -> dict[Path, bytes]:
    """All files of the tree that the book builder sees."""
    content = dict(sources)
    content[Path("_config.yml")] = _staged_config(sources[Path("_config.yml")])
    faults = []
    for chapter in chapters:
        try:
            notebook = page(compose(chapter.notebook, runs[chapter.name]), chapter.name, root)
        except SiteError as error:
            faults.append(str(error))
            continue
        content[chapter.path.relative_to(root)] = nbformat.writes(notebook).encode()
    if faults:
        raise SiteError("\n".join(faults))
    content[Path("book/_data/ledger.json")] = _json(_ledger(root, chapters, runs))
    content[Path("book/_data/runs.json")] = _json(_runs(root, chapters, runs))
    return content


def write_tree(src: Path, content: Mapping[Path, bytes]) -> bool:
    """Makes `src` hold just this content; returns whether a file went away."""
    gone = {path for path in src.rglob("*") if path.is_file()} - {src / name for name in content}
    for path in gone:
        path.unlink()
    for name, data in content.items():
        path = src / name
        # An untouched file keeps its time, and Sphinx does not read it again.
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return bool(gone)


def _staged_config(source: bytes) -> bytes:
    config = yaml.safe_load(source)
    config.setdefault("execute", {})["execute_notebooks"] = "off"
    return yaml.safe_dump(config, sort_keys=False).encode()


def _docname(root: Path, chapter: Chapter) -> str:
    return chapter.path.relative_to(root).with_suffix("").as_posix()


def _ledger(root: Path, chapters: Sequence[Chapter], runs: Mapping[str, Run]) -> list[dict[str, Any]]:
    ledger, first = [], {}
    for chapter in chapters:
        run = runs[chapter.name]
        for claim in run.claims:
            if claim["id"] in first:
                raise SiteError(
                    f"the claim {claim['id']} is made twice: in {first[claim['id']]} and {chapter.name}"
                )
            first[claim["id"]] = chapter.name
            ledger.append({**claim, "parameters": run.parameters, "docname": _docname(root, chapter)})
    return ledger


def _runs(root: Path, chapters: Sequence[Chapter], runs: Mapping[str, Run]) -> dict[str, dict[str, Any]]:
    result = {}
    for chapter in chapters:
        run = runs[chapter.name]
        told = {
            f.name: getattr(run, f.name) for f in dataclasses.fields(run) if f.name not in ("path", "claims")
        }
        result[chapter.name] = {**told, "title": chapter.title, "docname": _docname(root, chapter)}
    return result


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False).encode()


def _run_builder(src: Path, site: Path) -> None:
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build", "."]
    command += ["--path-output", str(site), "-W", "-n", "--keep-going"]
    environment = {**os.environ, "NO_COLOR": "1", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("FORCE_COLOR", None)
    done = subprocess.run(command, cwd=src, env=environment, capture_output=True, text=True, check=False)
    told = _warnings(done.stderr, src)
    if done.returncode == 0 and not told:
        return
    if not told:
        told = [_ANSI.sub("", done.stderr).strip() or _ANSI.sub("", done.stdout).strip()[-2000:]]
    raise SiteError("\n".join(told))


def _warnings(stderr: str, src: Path) -> list[str]:
    """Sphinx's warnings and errors, each with its following lines, pages named as in the repository."""
    told: list[str] = []
    for line in _ANSI.sub("", stderr).replace(f"{src}/", "").splitlines():
        if line.startswith(("Traceback", "RuntimeError", "=====")):
            break  # Jupyter Book's own traceback says only that Sphinx had warnings
        found = _WARNING.match(line)
        if found:
            told.append(f"{_readable(found['where'], src)}{found['text']}")
        elif told and line.strip():
            told[-1] += "\n  " + line.strip()
    return list(dict.fromkeys(told))


def _readable(where: str, src: Path) -> str:
    """The place of a warning; in notebooks the cell's first line stands for MyST-NB's number."""
    found = re.fullmatch(r"(\S+\.ipynb):(\d+): ", where)
    number, line = divmod(int(found[2]), _CELL_LINES) if found else (0, 0)
    if not found or not number or not (src / found[1]).is_file():
        return where
    cell = nbformat.read(src / found[1], as_version=4).cells[number - 1]
    begins = first_line(cell.source.lstrip("# "))
    return f"{found[1]}, {cell.cell_type} cell (`{begins}`), line {line - 1}: "


def _recover(build: Path) -> None:
    """Puts the last good site back where a build was killed between the two renames of `_swap`."""
    if (build / "html.old").exists() and not (build / "html").exists():
        (build / "html.old").rename(build / "html")


def _swap(build: Path, fresh: Path) -> None:
    new, live, old = build / "html.new", build / "html", build / "html.old"
    for leftover in (new, old):
        shutil.rmtree(leftover, ignore_errors=True)
    # Source maps serve only who debugs the theme, and weigh more than the book.
    shutil.copytree(fresh, new, ignore=shutil.ignore_patterns("*.map", ".buildinfo"))
    shutil.copy(build / "src" / "book" / "_data" / "ledger.json", new / "ledger.json")
    if live.exists():
        live.rename(old)
    new.rename(live)
    shutil.rmtree(old, ignore_errors=True)
