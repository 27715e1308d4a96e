"""A build from end to end: check the sources, execute what is stale, look at the claims, make the site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from regimes.press import ledgers
from regimes.press.chapters import Chapter, load
from regimes.press.store import Run, Store


class BuildError(RuntimeError):
    """The build is red; the message says everything that is wrong."""


@dataclass(frozen=True)
class Request:
    """What is asked of a build.

    `names` are the chapters to bring up to date (all when empty), executed anew with `force`. With a `preset`
    every chapter that has it runs with it, and the site goes to `_build/presets/<preset>/html`.
    """

    names: Sequence[str] = ()
    workers: int = 1
    force: bool = False
    site: bool = True
    colour: bool = False
    preset: str | None = None

    def changes(self, chapter: Chapter) -> dict[str, Any]:
        """What the preset changes in a chapter."""
        return chapter.presets.get(self.preset, {}) if self.preset else {}


@dataclass(frozen=True)
class Plan:
    """What a build would do: runs that are still good, chapters to execute, chapters left as they are."""

    runs: dict[str, Run]
    stale: list[Chapter]
    left: list[Chapter]


def plan(store: Store, chapters: Sequence[Chapter], request: Request) -> Plan:
    """Sort the chapters."""
    runs, stale, left = {}, [], []
    for chapter in chapters:
        wanted = not request.names or chapter.name in request.names
        run = None if request.force and wanted else store.find(chapter, request.changes(chapter))
        if run is not None:
            runs[chapter.name] = run
        else:
            (stale if wanted else left).append(chapter)
    return Plan(runs, stale, left)


def build(root: Path, request: Request) -> tuple[dict[str, Run], str]:
    """Bring the book up to date; the runs that it now consists of, and where the site is.

    Raises:
        BuildError: with all that is wrong. The last good site and all finished runs are still there.
    """
    (root / "_build").mkdir(exist_ok=True)
    try:
        with FileLock(root / "_build" / ".lock", timeout=0):
            return _build(root, request)
    except Timeout as error:
        raise BuildError(f"another build is under way in {root}; wait for it to end") from error


def _build(root: Path, request: Request) -> tuple[dict[str, Run], str]:
    chapters, faults = load(root)
    if faults:
        raise BuildError("\n".join([*faults, "Nothing was executed."]))
    if request.preset and not any(request.preset in chapter.presets for chapter in chapters):
        raise BuildError(f"no chapter has a preset {request.preset!r}; `regimes list` shows them")
    store = Store(root)
    store.clean()
    todo = plan(store, chapters, request)
    runs, failures = _execute(store, todo.stale, request) if todo.stale else ({}, [])
    runs = {c.name: run for c in chapters if (run := todo.runs.get(c.name) or runs.get(c.name))}
    reports = [failure.text(request.colour) for failure in failures] + ledgers.faults(runs)
    if reports:
        raise BuildError("\n\n".join(reports))
    if not request.site:
        return runs, "the site was not asked for"
    if todo.left:
        missing = ", ".join(chapter.name for chapter in todo.left)
        raise BuildError(
            f"The site was not built: no fresh run of {missing}. `regimes build` executes them;"
            " `regimes run CHAPTER --html` makes a page of one chapter alone."
        )
    folder = root / "_build"
    return runs, _site(
        root, chapters, runs, folder / "presets" / request.preset if request.preset else folder
    )


def _execute(store: Store, stale: Sequence[Chapter], request: Request) -> tuple[dict, list]:
    # Imported here: an unchanged build needs neither.
    from regimes.press.execute import Job, execute
    from regimes.press.progress import Progress

    def expected(chapter: Chapter) -> float:
        last = store.latest(chapter.name)
        return last.seconds if last else chapter.budget

    # The longest first, so that none of them is left to run alone at the end.
    ordered = sorted(stale, key=expected, reverse=True)
    jobs = [Job(chapter, request.changes(chapter), request.preset) for chapter in ordered]
    return execute(store, jobs, request.workers, Progress(len(jobs)))


def _site(root: Path, chapters: Sequence[Chapter], runs: Mapping[str, Run], build: Path) -> str:
    from regimes.press.stage import SiteError, build_site

    try:
        result = build_site(root, chapters, runs, build)
    except SiteError as error:
        raise BuildError(f"The site was not built:\n{error}") from error
    how = f"built in {result.seconds:.1f} s" if result.built else "nothing has changed"
    return f"{result.path / 'index.html'} ({how})"
