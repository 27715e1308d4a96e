"""A small book of its own, with chapters made from short lists of cells, to try the press on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
import yaml
from click.testing import CliRunner, Result
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from regimes.press.chapters import Chapter, read_chapter
from regimes.press.cli import main
from regimes.press.store import Store

PARAMETERS = "alpha: float = 0.5  # scale\nseed: int = 0  # of everything random"
CHECK = (
    "from regimes.parameters import at_least, between, check_parameters\n"
    "check_parameters(alpha=between(0, 1), seed=at_least(0))"
)
LEDGER = "from regimes.ledger import Ledger\nclaims = Ledger({name!r})"


def notebook(
    name: str, cells: Sequence[str | NotebookNode], parameters: str | None = PARAMETERS, check: str = CHECK
) -> NotebookNode:
    """A chapter: title, parameters, their check, a ledger, then `cells`; strings are code."""
    book = new_notebook(cells=[new_markdown_cell(f"# Chapter {name}")])
    if parameters is not None:
        book.cells.append(new_code_cell(parameters, metadata={"tags": ["parameters"]}))
    book.cells += [new_code_cell(check), new_code_cell(LEDGER.format(name=name))]
    book.cells += [new_code_cell(cell) if isinstance(cell, str) else cell for cell in cells]
    for number, cell in enumerate(book.cells):
        cell.id = f"cell-{number}"
    return book


class Project:
    """The book's folder, and the command run on it."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        (self.root / "notebooks" / "presets").mkdir(parents=True)
        (self.root / "book").mkdir()
        self._names: list[str] = []
        self.write("_config.yml", "title: Gate\n")
        self.write("book/intro.md", "# Gate\n")

    def write(self, path: str, text: str) -> Path:
        """Write a file of the book."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def add(self, name: str, *cells: str | NotebookNode, **metadata: Any) -> Path:
        """Add or replace a chapter; `metadata` is the notebook's `regimes`, such as budget."""
        return self.add_notebook(name, notebook(name, cells), **metadata)

    def add_notebook(self, name: str, book: NotebookNode, **metadata: Any) -> Path:
        """Add or replace a chapter by a notebook."""
        if metadata:
            book.metadata["regimes"] = metadata
        path = self.root / "notebooks" / f"{name}.ipynb"
        nbformat.write(book, path)
        if name not in self._names:
            self._names.append(name)
        files = [{"file": f"notebooks/{name}"} for name in self._names]
        self.write("_toc.yml", yaml.safe_dump({"format": "jb-book", "root": "book/intro", "chapters": files}))
        return path

    def chapter(self, name: str) -> Chapter:
        """A chapter as the press reads it."""
        return read_chapter(self.root, name)

    @property
    def store(self) -> Store:
        """The book's run store."""
        return Store(self.root)

    def regimes(self, *arguments: str) -> Result:
        """Run the command; `output` is what it printed, `exit_code` its status."""
        return CliRunner().invoke(main, ["--root", str(self.root), *arguments])

    def entries(self) -> list[Path]:
        """All entries of the store."""
        return sorted(path.parent for path in (self.root / "_build" / "runs").glob("*/*/*/run.json"))

    def ran(self, name: str) -> int:
        """How often a chapter was executed to its end."""
        return sum(
            json.loads((entry / "run.json").read_text())["chapter"] == name for entry in self.entries()
        )
