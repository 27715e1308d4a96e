"""Readers for files: the small tables that the book ships."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

PUBLISHED = Path("book", "data", "published")


def published(name: str, *, start: str | Path = ".") -> dict[str, np.ndarray]:
    """The columns of the table ``name`` of published numbers, in the book that holds the folder ``start``.

    Columns of whole numbers come as integers, of other numbers as floats, all else as text; the README beside
    the tables says what they mean. Raises FileNotFoundError where no book or no such table is found.
    """
    start = Path(start).resolve()
    for folder in (start, *start.parents):
        if (folder / PUBLISHED).is_dir():
            break
    else:
        raise FileNotFoundError(f"no folder {PUBLISHED} at or above {start}: published tables are the book's")
    path = folder / PUBLISHED / f"{name}.csv"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.csv")))
        raise FileNotFoundError(f"no published table {name!r}; there is {known}")
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    return {key: _typed(column) for key, column in zip(header, zip(*rows, strict=True), strict=True)}


def _typed(column: tuple[str, ...]) -> np.ndarray:
    for kind in (int, float):
        try:
            return np.array([kind(value) for value in column])
        except ValueError:
            continue
    return np.array(column)
