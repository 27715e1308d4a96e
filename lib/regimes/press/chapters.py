"""The chapters of the book: where they are, in which order, with which parameters and presets."""

from __future__ import annotations

import difflib
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import yaml
from nbformat import NotebookNode

import regimes
from regimes.parameters import ParameterError, fault_of, parse_value
from regimes.press.sources import Parameter, SourceError, check_cells, read_parameters

BUDGET = 60.0
MEMORY_GB = 3.0


@dataclass(frozen=True)
class Chapter:
    """A chapter as it stands in its source.

    ``budget`` is in seconds of the cells' wall time, ``memory_gb`` the limit of its processes together; both
    come from the notebook's metadata (``regimes.budget``, ``regimes.memory_gb``). ``notebook`` is the source
    as it was read, so that an edit afterwards cannot mix two states.
    """

    name: str
    path: Path
    title: str
    budget: float
    memory_gb: float
    parameters: dict[str, Parameter]
    notebook: NotebookNode = field(repr=False)
    presets: dict[str, dict[str, Any]] = field(default_factory=dict)

    def changes(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Those of the given values that differ from the defaults, typed.

        Strings stand for values as on a command line (``"1e-3"``, ``"[0, 0.5]"``, ``"true"``).

        Raises:
            ParameterError: an unknown name, a wrong type or a value out of range; lists every fault and
                all that exists.
        """
        faults, changed = [], {}
        for name, raw in given.items():
            try:
                value = self._typed(name, raw)
            except ParameterError as error:
                faults.append(str(error))
                continue
            if value != self.parameters[name].default:
                changed[name] = value
        if faults:
            raise ParameterError("\n".join([*faults, f"Parameters of {self.name}:", *self.describe()]))
        return {name: changed[name] for name in self.parameters if name in changed}

    def values(self, changed: Mapping[str, Any]) -> dict[str, Any]:
        """All parameters with the values that a run with these changes uses."""
        return {name: p.default for name, p in self.parameters.items()} | dict(changed)

    def describe(self) -> list[str]:
        """One aligned line for each parameter: name, type, default, range, meaning."""
        rows = [
            (p.name, p.annotation, repr(p.default), p.constraint.describe(), p.help)
            for p in self.parameters.values()
        ]
        widths = [max(len(row[i]) for row in rows) for i in range(4)] if rows else []
        return [
            "  " + "  ".join(c.ljust(w) for c, w in zip(row, [*widths, 0], strict=True)).rstrip()
            for row in rows
        ]

    def _typed(self, name: str, raw: Any) -> Any:
        if name not in self.parameters:
            close = difflib.get_close_matches(name, self.parameters, n=1)
            raise ParameterError(
                f"{self.name} has no parameter {name!r}" + (f"; did you mean {close[0]!r}?" if close else "")
            )
        known = self.parameters[name]
        value = raw
        if isinstance(raw, str) and known.annotation != "str":
            try:
                value = parse_value(raw, known.annotation)
            except ParameterError as error:
                raise ParameterError(f"{name}: {error}") from None
        if known.annotation == "float" and type(value) is int:
            value = float(value)
        fault = fault_of(name, value, known.annotation, known.constraint)
        if fault:
            raise ParameterError(fault)
        return value


def find_root(start: Path) -> Path:
    """The folder of the book: the nearest with ``_toc.yml`` and ``notebooks/``, from ``start`` upwards.

    Failing that, the checkout that this package was installed from.

    Raises:
        FileNotFoundError: neither exists.
    """
    start = start.resolve()
    checkout = Path(regimes.__file__).resolve().parents[2]
    for folder in [start, *start.parents, checkout]:
        if (folder / "_toc.yml").is_file() and (folder / "notebooks").is_dir():
            return folder
    raise FileNotFoundError(f"no book at or above {start}: a book has a _toc.yml and a folder notebooks/")


def load(root: Path) -> tuple[list[Chapter], list[str]]:
    """All chapters in the order of the table of contents, and what is wrong with those that are left out."""
    chapters, faults = [], []
    names = chapter_names(root)
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        if path.stem not in names:
            faults.append(f"{path.stem}: not named in _toc.yml, so no page would show it")
    for name in names:
        try:
            chapters.append(read_chapter(root, name))
        except SourceError as error:
            faults += [f"{name}: {fault}" for fault in error.faults]
    return chapters, faults


def chapter_names(root: Path) -> list[str]:
    """Names of the notebooks in ``_toc.yml``, in its order."""
    toc = read_yaml(root / "_toc.yml")
    files = [Path(name) for name in _toc_files(toc)]
    return [file.name.removesuffix(".ipynb") for file in files if file.parts[:1] == ("notebooks",)]


def _toc_files(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for item in node:
            yield from _toc_files(item)
    elif isinstance(node, dict):
        if "file" in node:
            yield node["file"]
        for key in ("parts", "chapters", "sections"):
            yield from _toc_files(node.get(key, []))


def read_chapter(root: Path, name: str) -> Chapter:
    """One chapter with its presets.

    Raises:
        SourceError: everything that is wrong with the notebook and its presets.
    """
    path = root / "notebooks" / f"{name}.ipynb"
    notebook = _read_notebook(path)
    faults = check_cells(notebook)
    if faults:
        raise SourceError(faults)
    settings = notebook.metadata.get("regimes", {})
    chapter = Chapter(
        name=name,
        path=path,
        title=_title(notebook) or name,
        budget=_positive(settings, "budget", BUDGET),
        memory_gb=_positive(settings, "memory_gb", MEMORY_GB),
        parameters=read_parameters(notebook),
        notebook=notebook,
    )
    chapter.presets.update(_read_presets(root, chapter))
    return chapter


def _read_notebook(path: Path) -> NotebookNode:
    if not path.is_file():
        raise SourceError([f"_toc.yml names it, but there is no {path.name} in notebooks/"])
    text = path.read_text(encoding="utf-8")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            notebook = nbformat.reads(text, as_version=4)
    except Exception as error:  # nbformat raises whatever its reader of that version raises
        raise SourceError([f"not a readable notebook: {error}"]) from error
    # nbformat gives new ids to cells whose id is taken; a source should say so instead.
    for cell, written in zip(notebook.cells, json.loads(text).get("cells", []), strict=False):
        if "id" in written:
            cell.id = written["id"]
    return notebook


def _title(notebook: NotebookNode) -> str | None:
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    found = re.search(r"^#\s+(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else None


def _positive(settings: Mapping[str, Any], name: str, default: float) -> float:
    value = settings.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise SourceError([f"notebook metadata regimes.{name} is {value!r}; a positive number is needed"])
    return float(value)


def _read_presets(root: Path, chapter: Chapter) -> dict[str, dict[str, Any]]:
    path = root / "notebooks" / "presets" / f"{chapter.name}.yml"
    if not path.is_file():
        return {}
    try:
        content = read_yaml(path) or {}
    except ValueError as error:
        raise SourceError([str(error)]) from error
    where, presets, faults = f"presets/{path.name}", {}, []
    if not isinstance(content, dict):
        raise SourceError([f"{where}: a mapping from preset names to parameters is needed"])
    for preset, given in content.items():
        if not isinstance(given, dict):
            faults.append(f"{where}: preset {preset!r} must map parameter names to values, not be {given!r}")
            continue
        try:
            presets[str(preset)] = chapter.changes(given)
        except ParameterError as error:
            faults.append(f"{where}: preset {preset!r}: {error}")
    if faults:
        raise SourceError(faults)
    return presets


class _Loader(yaml.SafeLoader):
    """Reads ``1e-3`` as the number that it is; YAML 1.1 asks for a dot and a sign."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def read_yaml(path: Path) -> Any:
    """The content of a YAML file.

    Raises:
        ValueError: the file is not YAML; names it.
    """
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except yaml.YAMLError as error:
        raise ValueError(f"{path.name} is not valid YAML: {error}") from error
