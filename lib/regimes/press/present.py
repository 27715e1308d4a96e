"""From an executed notebook to a page: what the book builder needs, and nothing about this machine."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from regimes.press.cells import cell_name, without_cell_files

WIDGET = "application/vnd.jupyter.widget-view+json"
IMG_WITHOUT_ALT = re.compile(r"<img\b(?![^>]*\salt\s*=\s*([\"'])\s*[^\s\"'])[^>]*>", re.IGNORECASE)
FROM_ELSEWHERE = re.compile(
    r"<(?:script|img|link|iframe|object|source)\b[^>]*\b(?:src|href|data)\s*=\s*[\"']?(?:https?:)?//",
    re.IGNORECASE,
)


class SiteError(RuntimeError):
    """The site can't be published as it stands; the message lists every reason found."""


def page(notebook: NotebookNode, chapter: str, root: Path) -> NotebookNode:
    """The notebook as the book builder takes it; the argument is left alone.

    Figures get their name, caption and alt text where MyST-NB looks for them, explorers keep the face that
    works without a kernel, and a cell with the stamp follows the last one.

    Raises:
        SiteError: an image has no alt text, or a display is nothing that a page can show; names chapter and
            cell.
    """
    result = copy.deepcopy(notebook)
    for extra in ("papermill", "widgets"):
        result.metadata.pop(extra, None)
    faults, cells = [], []
    for index, cell in enumerate(result.cells):
        for extra in ("papermill", "execution"):
            cell.metadata.pop(extra, None)
        if cell.cell_type != "code":
            cells.append(cell)
            continue
        cell.outputs = [_clean(output, root) for output in cell.outputs if not _is_live_caption(output)]
        found = [fault for output in cell.outputs for fault in _faults(output)]
        faults += [f"{chapter}, {cell_name(notebook, index)}: {fault}" for fault in found]
        cells += _one_figure_a_cell(cell)
    if faults:
        raise SiteError("\n".join(faults))
    # A fixed id: two builds of the same run give the same bytes.
    stamp = new_markdown_cell("```{stamp}\n```", id="stamp")
    result.cells = [*cells, stamp]
    return result


def _regimes(output: NotebookNode) -> dict[str, Any]:
    return output.get("metadata", {}).get("regimes", {})


def _is_live_caption(output: NotebookNode) -> bool:
    return "caption_of" in _regimes(output)


def _clean(output: NotebookNode, root: Path) -> NotebookNode:
    data = output.get("data", {})
    if "text/html" in data:
        data.pop(WIDGET, None)
    return NotebookNode(_without_paths(output, root))


def _without_paths(value: Any, root: Path) -> Any:
    if isinstance(value, str):
        value = value.replace(f"{root}/", "").replace(str(root), ".").replace(f"{Path.home()}/", "~/")
        return without_cell_files(value, "<cell>")
    if isinstance(value, dict):
        return NotebookNode({key: _without_paths(item, root) for key, item in value.items()})
    if isinstance(value, list):
        return [_without_paths(item, root) for item in value]
    return value


def _faults(output: NotebookNode) -> Iterator[str]:
    data, told = output.get("data", {}), _regimes(output)
    if any(kind.startswith("image/") for kind in data) and not str(told.get("alt", "")).strip():
        name = f"the figure {told['name']!r}" if told.get("name") else "an image"
        yield f"{name} has no alt text; draw it with regimes.figures.show(fig, name, caption=..., alt=...)"
    if IMG_WITHOUT_ALT.search(data.get("text/html", "")):
        yield "its HTML holds an <img> without alt text"
    if FROM_ELSEWHERE.search(data.get("text/html", "")):
        yield "its HTML loads something from another host; a page must work without a network"
    if WIDGET in data:
        yield "a widget alone shows nothing without a kernel; use regimes.explorer.Explorer"


def _one_figure_a_cell(cell: NotebookNode) -> list[NotebookNode]:
    """A cell for each figure: MyST-NB gives the name in a cell's metadata to every display of the cell."""
    groups: list[list[NotebookNode]] = [[]]
    for output in cell.outputs:
        if groups[-1] and (_is_figure(output) or _is_figure(groups[-1][-1])):
            groups.append([])
        groups[-1].append(output)
    cell.outputs = groups[0]
    cells = [cell]
    for number, outputs in enumerate(groups[1:], start=2):
        metadata = {"tags": ["remove-input"]}
        # MyST-NB passes over cells without source.
        source = "# More of what the cell above shows"
        cells.append(new_code_cell(source, id=f"{cell.id}-{number}", metadata=metadata, outputs=outputs))
    for each in cells:
        for output in filter(_is_figure, each.outputs):
            each.metadata["mystnb"] = _figure_metadata(_regimes(output))
    return cells


def _is_figure(output: NotebookNode) -> bool:
    return "name" in _regimes(output)


def _figure_metadata(told: dict[str, Any]) -> dict[str, Any]:
    return {
        "figure": {"name": told["name"], "caption": told.get("caption", "")},
        "image": {"alt": told["alt"], "width": "100%"},
    }
