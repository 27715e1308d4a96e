"""Code cells as Python: their name in a message, their syntax, the names they bind, their temporary files."""

from __future__ import annotations

import ast
import re
import warnings

from nbformat import NotebookNode

_CELL_FILE = re.compile(r"[^\s'\"]{0,200}ipykernel_\d+[/\\]\d+\.py")
_MAGIC = re.compile(r"^(\s*)(?:[%!?].*|.*\?\s*)$", re.MULTILINE)


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """All code cells, in order."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tags(cell: NotebookNode) -> list[str]:
    """The cell's tags; an empty list where it has none."""
    return list(cell.metadata.get("tags", []))


def without_cell_files(text: str, name: str) -> str:
    """``text`` with ``name`` in place of the temporary files that a kernel calls its cells by."""
    # Asked first, and bounded: in a megabyte without a space the pattern alone takes seconds.
    return _CELL_FILE.sub(name, text) if "ipykernel_" in text else text


def first_line(source: str, width: int = 60) -> str:
    """The first line that says something, cut to ``width`` characters."""
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith("#")] or lines or ["(empty)"]
    return told[0] if len(told[0]) <= width else told[0][: width - 1] + "…"


def cell_name(notebook: NotebookNode, index: int) -> str:
    """How messages call a cell: a code cell by the number that Jupyter shows after a run from the top."""
    cell = notebook.cells[index]
    if cell.cell_type != "code":
        return f"{cell.cell_type} cell (`{first_line(cell.source)}`)"
    before = notebook.cells[: index + 1]
    number = sum(other.cell_type == "code" and bool(other.source.strip()) for other in before)
    return f"cell {number} (`{first_line(cell.source)}`)"


def parse(source: str) -> ast.Module:
    """The cell's syntax tree, IPython's magics and shell lines left out.

    Raises:
        SyntaxError: the cell is not Python.
    """
    if source.lstrip().startswith("%%"):
        return ast.Module(body=[], type_ignores=[])
    try:
        return _compile(source)
    except SyntaxError:
        # Only for a cell that is not plain Python: there a line may start with the operator %.
        plain = _MAGIC.sub(r"\1pass", source)
        if plain == source:
            raise
        return _compile(plain)


def _compile(source: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(source)
        compile(tree, "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return tree


def bound_names(source: str) -> set[str]:
    """Names that the cell binds: assignments, imports, functions, classes."""
    names: set[str] = set()
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
    return names


def assigned_later(notebook: NotebookNode, index: int, name: str) -> int | None:
    """The first code cell after ``index`` that binds ``name`` (which then ran too late), or None."""
    for later in range(index + 1, len(notebook.cells)):
        cell = notebook.cells[later]
        if cell.cell_type == "code" and name in bound_names(cell.source):
            return later
    return None
