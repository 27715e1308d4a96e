"""Why a chapter did not run to its end, in words that name the cell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regimes.press.cells import assigned_later, cell_name
from regimes.press.chapters import Chapter

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_NAME = re.compile(r"name '(\w+)' is not defined")
_NOISE = re.compile(
    r"TCP without encryption|frozen modules|PYDEVD_DISABLE|-Xfrozen_modules|Debugging will proceed"
)
_FRAMES = 3
_LOG_LINES = 15


@dataclass(frozen=True)
class Failure:
    """A chapter, what happened, and the traceback as the kernel gave it (with colours)."""

    chapter: str
    message: str
    traceback: tuple[str, ...] = ()

    def text(self, colour: bool) -> str:
        """The whole report; colours of the traceback only where they show."""
        lines = [f"{self.chapter}: {self.message}", *self.traceback]
        text = "\n".join(lines)
        return text if colour else _ANSI.sub("", text)


def explain(chapter: Chapter, told: Mapping[str, Any]) -> Failure:
    """The report of what a child told (its ``failure.json``, or a limit that it broke)."""
    message = _MESSAGES[told["kind"]](chapter, told)
    return Failure(chapter.name, message, tuple(_traceback(told.get("traceback") or [])))


def _where(chapter: Chapter, told: Mapping[str, Any]) -> str:
    index, cells = told["cell"], chapter.notebook.cells
    if 0 <= index < len(cells):
        return cell_name(chapter.notebook, index)
    return "the press's own first cell" if index < 0 else "the press's own last cell"


def _raised(chapter: Chapter, told: Mapping[str, Any]) -> str:
    message = f"{_where(chapter, told)} raised {told['ename']}: {_ANSI.sub('', told['evalue'])}"
    missing = _NAME.search(told["evalue"]) if told["ename"] == "NameError" else None
    later = (
        assigned_later(chapter.notebook, told["cell"], missing[1]) if missing and told["cell"] >= 0 else None
    )
    if later is not None:
        place = cell_name(chapter.notebook, later)
        message += f"\nThe cells are out of order: `{missing[1]}` is set later, in {place}."
    return message


def _budget(chapter: Chapter, told: Mapping[str, Any]) -> str:
    return (
        f"stopped after {told['limit']:g} s, three times its budget of {chapter.budget:g} s"
        f" (notebook metadata regimes.budget), in {_where(chapter, told)}"
    )


def _memory(chapter: Chapter, told: Mapping[str, Any]) -> str:
    return (
        f"stopped at {told['used'] / 1e9:.2f} GB of memory in {_where(chapter, told)};"
        f" its limit is {chapter.memory_gb:g} GB (notebook metadata regimes.memory_gb)"
    )


def _died(chapter: Chapter, told: Mapping[str, Any]) -> str:
    return f"the kernel died in {_where(chapter, told)}; a crash in compiled code, or no memory left"


def _left(chapter: Chapter, told: Mapping[str, Any]) -> str:
    return f"{_where(chapter, told)} ended the run (sys.exit?); the cells after it did not run"


def _start(chapter: Chapter, told: Mapping[str, Any]) -> str:
    return f"no kernel came up, twice: {told['message']}"


def _ledger(chapter: Chapter, told: Mapping[str, Any]) -> str:
    return told["message"]


def _press(chapter: Chapter, told: Mapping[str, Any]) -> str:
    lines = [line for line in told["log"].splitlines() if line.strip() and not _NOISE.search(line)]
    tail = "\n".join(lines[-_LOG_LINES:])
    return f"its process ended with status {told['status']} in {_where(chapter, told)}\n{tail}"


_MESSAGES = {
    "raised": _raised,
    "budget": _budget,
    "memory": _memory,
    "died": _died,
    "left": _left,
    "start": _start,
    "ledger": _ledger,
    "press": _press,
}


def _traceback(frames: list[str]) -> list[str]:
    """The first and last frames; what a person needs is where the chapter called and where it broke."""
    frames = [frame for frame in frames if not _NOISE.search(frame)]
    if len(frames) <= 2 * _FRAMES + 2:
        return frames
    left_out = len(frames) - 2 * _FRAMES - 1
    return [*frames[: _FRAMES + 1], f"… {left_out} frames left out …", *frames[-_FRAMES:]]
