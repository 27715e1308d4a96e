"""What can be wrong with a chapter's notebook, found without running it."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from dataclasses import dataclass

from nbformat import NotebookNode

from regimes.parameters import Constraint, ParameterError, fault_of, read_check
from regimes.press.cells import cell_name, parse, tags

TYPES = ("int", "float", "str", "bool", "list")


class SourceError(ValueError):
    """One or more faults of a source, each a sentence."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


@dataclass(frozen=True)
class Parameter:
    """One line of the parameters cell with its line of the check."""

    name: str
    annotation: str
    default: object
    help: str
    constraint: Constraint


def check_cells(notebook: NotebookNode) -> list[str]:
    """Faults that any notebook can have: cells that are not Python, cell ids given twice."""
    faults = []
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            try:
                parse(cell.source)
            except SyntaxError as error:
                faults.append(
                    f"{cell_name(notebook, index)}: syntax error in line {error.lineno}: {error.msg}"
                )
    ids = Counter(cell.get("id") for cell in notebook.cells if cell.get("id"))
    for index, cell in enumerate(notebook.cells):
        if ids.get(cell.get("id"), 0) > 1:
            faults.append(
                f"{cell_name(notebook, index)}: the cell id {cell.id!r} is used {ids[cell.id]} times"
            )
    return faults


def read_parameters(notebook: NotebookNode) -> dict[str, Parameter]:
    """The parameters of a chapter, from the cell tagged ``parameters`` and the check after it.

    Raises:
        SourceError: no such cell or several, a line that is not an annotated literal with a help comment, no
            check in the next code cell, or a default that the check refuses.
    """
    tagged = [i for i, cell in enumerate(notebook.cells) if "parameters" in tags(cell)]
    if len(tagged) != 1:
        found = "no cell is" if not tagged else f"{len(tagged)} cells are"
        raise SourceError([f"{found} tagged `parameters`; a chapter has exactly one"])
    index = tagged[0]
    if notebook.cells[index].cell_type != "code":
        raise SourceError([f"{cell_name(notebook, index)}: the tag `parameters` belongs to a code cell"])
    lines = _read_lines(notebook, index)
    constraints = _read_constraints(notebook, index)
    return _join(notebook, index, lines, constraints)


def _read_lines(notebook: NotebookNode, index: int) -> dict[str, tuple[str, object, str]]:
    where, source = cell_name(notebook, index), notebook.cells[index].source
    comments = _comments(source)
    lines, faults = {}, []
    for statement in ast.parse(source).body:
        text = ast.get_source_segment(source, statement)
        try:
            name, annotation, value = _read_line(statement)
        except ValueError as error:
            faults.append(f"{where}: `{text}`: {error}")
            continue
        rows = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
        told = next((comments[row] for row in rows if comments.get(row)), None)
        if told is None:
            faults.append(f"{where}: `{text}`: say in a comment on the line what {name} means")
        if name in lines:
            faults.append(f"{where}: {name} is set twice")
        lines[name] = (annotation, value, told or "")
    if faults:
        raise SourceError(faults)
    return lines


def _read_line(statement: ast.stmt) -> tuple[str, str, object]:
    if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)):
        raise ValueError("a parameter is written `name: type = value  # what it means`")
    annotation = ast.unparse(statement.annotation)
    if annotation not in TYPES:
        raise ValueError(f"the type {annotation} is not one of {', '.join(TYPES)}")
    try:
        value = ast.literal_eval(statement.value) if statement.value else None
    except ValueError:
        value = None
    if value is None:
        raise ValueError("the value must be a plain literal")
    return statement.target.id, annotation, value


def _comments(source: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {t.start[0]: t.string.lstrip("# ").strip() for t in tokens if t.type == tokenize.COMMENT}


def _read_constraints(notebook: NotebookNode, index: int) -> dict[str, Constraint]:
    following = [i for i in range(index + 1, len(notebook.cells)) if notebook.cells[i].cell_type == "code"]
    if not following:
        raise SourceError(
            ["the code cell after the parameters must call check_parameters(...); there is none"]
        )
    try:
        return read_check(notebook.cells[following[0]].source)
    except ParameterError as error:
        raise SourceError([f"{cell_name(notebook, following[0])}: {error}"]) from error


def _join(
    notebook: NotebookNode,
    index: int,
    lines: dict[str, tuple[str, object, str]],
    constraints: dict[str, Constraint],
) -> dict[str, Parameter]:
    where = cell_name(notebook, index)
    faults = [
        f"{where}: check_parameters has no line for {name}" for name in lines if name not in constraints
    ]
    faults += [
        f"{where}: check_parameters names {name}, which is not a parameter"
        for name in constraints
        if name not in lines
    ]
    parameters = {}
    for name in lines.keys() & constraints.keys():
        annotation, value, told = lines[name]
        fault = fault_of(name, value, annotation, constraints[name])
        if fault:
            faults.append(f"{where}: the default is refused: {fault}")
        # 1 and 1.0 are the same setting, hence the same run.
        default = float(value) if annotation == "float" and isinstance(value, int) else value
        parameters[name] = Parameter(name, annotation, default, told, constraints[name])
    if faults:
        raise SourceError(faults)
    return {name: parameters[name] for name in lines}
