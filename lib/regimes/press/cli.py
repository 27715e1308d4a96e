"""The command ``regimes``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from regimes.press.chapters import Chapter
    from regimes.press.store import Run, Store

# What a command needs is imported inside it: `regimes --help` should not wait for notebooks and trees.


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--root", type=click.Path(path_type=Path, exists=True, file_okay=False), help="The book's folder."
)
@click.pass_context
def main(context: click.Context, root: Path | None) -> None:
    """Execute the book's chapters and publish them."""
    from regimes.press.chapters import find_root

    try:
        context.obj = find_root(root or Path.cwd())
    except FileNotFoundError as error:
        raise click.UsageError(str(error)) from error
    if root is not None and context.obj != root.resolve():
        raise click.UsageError(f"{root} is no book: it has no _toc.yml or no folder notebooks/")


@main.command("list")
@click.option("--parameters", is_flag=True, help="Also each parameter with type, default, range and meaning.")
@click.pass_obj
def list_(root: Path, parameters: bool) -> None:
    """Show the chapters, their last runs and presets."""
    from regimes.press.chapters import load
    from regimes.press.store import Store

    chapters, faults = load(root)
    store = Store(root)
    for chapter in chapters:
        click.echo(f"{chapter.name}  {chapter.title}")
        click.echo(f"  budget {chapter.budget:g} s; {_last(store, chapter)}")
        if chapter.presets:
            click.echo(f"  presets: {', '.join(chapter.presets)}")
        if parameters:
            click.echo("\n".join(chapter.describe()) or "  no parameters")
    if faults:
        click.echo("\n".join(faults), err=True)
        sys.exit(1)


@main.command()
@click.argument("chapters", metavar="[CHAPTER]...", nargs=-1)
@click.option(
    "--jobs", "-j", type=click.IntRange(min=1), help="Chapters at once (default: one for each processor)."
)
@click.option("--force", is_flag=True, help="Execute even what is up to date.")
@click.option("--no-site", is_flag=True, help="Execute and check the claims only.")
@click.option(
    "--preset", help="With this preset, where a chapter has it; site in _build/presets/PRESET/html."
)
@click.pass_obj
def build(
    root: Path, chapters: tuple[str, ...], jobs: int | None, force: bool, no_site: bool, preset: str | None
) -> None:
    """Execute what is stale, in parallel, and build the site.

    With CHAPTERs only these are executed; the site is then built if the others have fresh runs.
    """
    from regimes.press import build as building
    from regimes.press import ledgers
    from regimes.press.chapters import chapter_names
    from regimes.press.machine import cores

    names = [_name(chapter_names(root), given) for given in chapters]
    request = building.Request(
        names, jobs or cores(), force, site=not no_site, colour=sys.stdout.isatty(), preset=preset
    )
    try:
        runs, site = building.build(root, request)
    except building.BuildError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        click.echo("Stopped. Finished chapters are kept.", err=True)
        sys.exit(130)
    click.echo(f"Ledger: {ledgers.counts(runs.values())}")
    click.echo(f"Site: {site}")


@main.command()
@click.argument("chapter")
@click.option("--preset", help="A set of parameters from notebooks/presets/.")
@click.option(
    "-f",
    "file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="YAML file of parameters.",
)
@click.option(
    "-p",
    "given",
    type=(str, str),
    metavar="NAME VALUE",
    multiple=True,
    help="One parameter; goes before -f, and that before --preset.",
)
@click.option(
    "-o",
    "out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Output (default: CHAPTER.run.ipynb here).",
)
@click.option("--html", is_flag=True, help="Also as a page, in the folder CHAPTER.run_html beside it.")
@click.option("--force", is_flag=True, help="Execute even if such a run is stored.")
@click.pass_obj
def run(
    root: Path,
    chapter: str,
    preset: str | None,
    file: Path | None,
    given: tuple[tuple[str, str], ...],
    out: Path | None,
    html: bool,
    force: bool,
) -> None:
    """Execute one chapter with parameters of your choice.

    A name that does not exist, a wrong type or a value out of range is refused before anything runs.
    """
    from regimes.press import ledgers, single
    from regimes.press.failures import Failure
    from regimes.press.store import Store

    found = _chapter(root, chapter)
    changed = _changes(found, preset, file, given)
    out = out or Path(f"{found.name}.run.ipynb")
    if out.suffix != ".ipynb":
        raise click.UsageError(f"the output {out} must end in .ipynb")
    if out.resolve().is_relative_to(root / "notebooks"):
        raise click.UsageError(f"{out} lies among the book's sources; choose another place with -o")
    result = single.run(Store(root), found, changed, preset, force)
    if isinstance(result, Failure):
        raise click.ClickException(result.text(sys.stdout.isatty()))
    click.echo(f"{ledgers.cost(result)}; {ledgers.counts([result])}\n{ledgers.lines(result)}")
    try:
        written = single.write(root, found, result, out, html)
    except RuntimeError as error:
        raise click.ClickException(str(error)) from error
    for path in written:
        click.echo(f"Written: {path}")


@main.command()
@click.pass_obj
def check(root: Path) -> None:
    """Print the ledger of the stored runs; exit status 1 when an established claim does not hold."""
    from regimes.press import ledgers
    from regimes.press.chapters import load
    from regimes.press.store import Store

    chapters, faults = load(root)
    store, runs = Store(root), {}
    for chapter in chapters:
        click.echo(f"{chapter.name}: {_last(store, chapter)}")
        run = store.find(chapter) or store.latest(chapter.name)
        if run is None:
            faults.append(f"{chapter.name} has no run")
            continue
        runs[chapter.name] = run
        click.echo(ledgers.lines(run))
    click.echo(f"Ledger: {ledgers.counts(runs.values())}")
    faults += ledgers.faults(runs)
    if faults:
        raise click.ClickException("\n".join(faults))


def _last(store: Store, chapter: Chapter) -> str:
    run: Run | None = store.find(chapter)
    stale = "" if run else "stale "
    run = run or store.latest(chapter.name)
    if run is None:
        return "never run"
    from regimes.press.ledgers import cost, counts

    return f"{stale}run of {run.started[:16].replace('T', ' ')}: {cost(run)}; {counts([run])}"


def _name(names: list[str], given: str) -> str:
    """The chapter that a person means by ``03``, ``03_diagonal_networks`` or a path to it."""
    stem = Path(given).name.removesuffix(".ipynb")
    found = [name for name in names if name == stem] or [name for name in names if name.split("_")[0] == stem]
    if len(found) != 1:
        problem = "is not a chapter" if not found else f"could be {' or '.join(found)}"
        raise click.UsageError(f"{given!r} {problem}; chapters: {', '.join(names)}")
    return found[0]


def _chapter(root: Path, given: str) -> Chapter:
    from regimes.press.chapters import chapter_names, read_chapter
    from regimes.press.sources import SourceError

    name = _name(chapter_names(root), given)
    try:
        return read_chapter(root, name)
    except SourceError as error:
        raise click.ClickException("\n".join(f"{name}: {fault}" for fault in error.faults)) from error


def _changes(
    chapter: Chapter, preset: str | None, file: Path | None, given: tuple[tuple[str, str], ...]
) -> dict[str, Any]:
    """Preset, then file, then single parameters, the later winning; exit status 2 where one is refused."""
    from regimes.parameters import ParameterError
    from regimes.press.chapters import read_yaml

    values: dict[str, Any] = {}
    if preset is not None:
        if preset not in chapter.presets:
            known = ", ".join(chapter.presets) or "none"
            raise click.UsageError(f"{chapter.name} has no preset {preset!r}; there is: {known}")
        values |= chapter.presets[preset]
    try:
        content = read_yaml(file) if file else {}
        if not isinstance(content or {}, dict):
            raise click.UsageError(f"{file} must map parameter names to values")
        return chapter.changes(values | (content or {}) | dict(given))
    except (ParameterError, ValueError) as error:
        raise click.UsageError(str(error)) from error
