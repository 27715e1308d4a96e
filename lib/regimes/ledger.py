"""The ledger: what a chapter claims, what it measured, and what would have shown the claim wrong.

A claim is checked in the cell that measures it, and its record travels in that cell's output. `claims_of`
reads the records of an executed notebook.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

from nbformat import NotebookNode

from regimes import _claim_text as words
from regimes._claim import make_claim
from regimes._claim_text import anchor, format_value
from regimes._display import show_bundle

__all__ = [
    "CLAIM_MIME",
    "RECORD_MIME",
    "ClaimTable",
    "Ledger",
    "anchor",
    "claims_of",
    "format_value",
    "records_of",
]

CLAIM_MIME = "application/vnd.regimes.claim+json"
RECORD_MIME = "application/vnd.regimes.record+json"

CHECKED: set[str] = set()
"""Ids of all claims checked in this process, so that the press misses one whose output was cleared."""


class Ledger:
    """The claims of one chapter.

    `records` holds the claims in the order in which they were first checked, as dicts ready for JSON;
    `ledger["A3.kkt"]` is one of them.

    Example:
        >>> claims = Ledger("03_diagonal_networks")
        >>> claims.check(
        ...     "A3.kkt",
        ...     "Gradient flow's limit satisfies the KKT conditions of $Q_k$",
        ...     source="A, Theorem 1",
        ...     measured=4.4e-15,
        ...     at_most=1e-10,
        ...     falsified_by=("the tied network's potential", 0.31),
        ... )
        ✓ A3.kkt  Gradient flow's limit satisfies the KKT conditions of Q_k: 4.4e-15 ≤ 1e-10 (A, Theorem 1;
        broken by the tied network's potential: 0.31)
    """

    def __init__(self, chapter: str) -> None:
        self.chapter = chapter
        self._claims: dict[str, dict[str, Any]] = {}
        self._checked = time.perf_counter()

    @property
    def records(self) -> list[dict[str, Any]]:
        """The claims checked so far."""
        return list(self._claims.values())

    def __getitem__(self, id: str) -> dict[str, Any]:
        return self._claims[id]

    def check(
        self,
        id: str,
        claim: str,
        *,
        source: str,
        measured: Any,
        at_most: float | None = None,
        at_least: float | None = None,
        close_to: float | None = None,
        between: tuple[float, float] | None = None,
        true: bool | None = None,
        rtol: float = 0,
        atol: float = 0,
        because: str | None = None,
        falsified_by: tuple[str, Any] | None = None,
        kind: str = "established",
        interval: tuple[float, float] | None = None,
    ) -> None:
        """Checks one claim, shows the verdict in a line and keeps the record.

        Exactly one of the relations is given. `close_to` allows a distance of atol + rtol times the target's
        size; `true=True` wants a bool. NaN and None never hold. `measured` may be a scalar of numpy or torch.
        `falsified_by` says what was changed and the value that the same measurement gave then: the relation
        must fail on it, or the verdict is "error". An established claim needs it; a conjecture about a number
        needs an `interval` instead (the spread or a confidence interval of the measured value). `because` is
        the reason for the tolerance. The record's `seconds` run from the check before, or from the ledger's
        start.

        A claim that does not hold raises nothing. A second check of the same id replaces the first.

        Raises:
            ValueError: the claim is not well formed; says what is missing.
        """
        given = {
            "at_most": at_most,
            "at_least": at_least,
            "close_to": close_to,
            "between": between,
            "true": true,
        }
        record = make_claim(
            id,
            claim,
            {relation: target for relation, target in given.items() if target is not None},
            source=source,
            measured=measured,
            rtol=rtol,
            atol=atol,
            because=because,
            falsified_by=falsified_by,
            kind=kind,
            interval=interval,
        )
        now = time.perf_counter()
        record["seconds"], self._checked = round(now - self._checked, 3), now
        record = _for_json({**record, "chapter": self.chapter, "text": words.line(record)})
        self._claims[id] = record
        CHECKED.add(id)
        show_bundle({CLAIM_MIME: record, "text/html": words.line_html(record), "text/plain": record["text"]})

    def record(self, name: str, value: Any) -> None:
        """Keeps a named result (number, text, bool, list, dict, small array) in the cell's output.

        Raises:
            ValueError: an empty name, or a value that JSON can't hold.
        """
        if not (isinstance(name, str) and name.strip()):
            raise ValueError(f"a record needs a name; got {name!r}")
        value = _for_json(value)
        text = f"recorded {name} = {format_value(value)}"
        show_bundle(
            {RECORD_MIME: {"name": name, "value": value}, "text/html": words.muted(text), "text/plain": text}
        )

    def table(self) -> ClaimTable:
        """All claims of the chapter so far, as a table to display."""
        return ClaimTable(self.records)


class ClaimTable:
    """Claim records, shown as a table in a notebook and as lines in a terminal."""

    def __init__(self, records: Sequence[Mapping[str, Any]]) -> None:
        self._records = records

    def __repr__(self) -> str:
        return "\n".join(record["text"] for record in self._records) or "no claims yet"

    def _repr_html_(self) -> str:
        return words.table_html(self._records)


def claims_of(notebook: NotebookNode) -> list[dict[str, Any]]:
    """The claim records in an executed notebook, in order.

    Raises:
        ValueError: an id occurs twice.
    """
    claims = list(_outputs(notebook, CLAIM_MIME))
    _demand_unique("claim", [claim["id"] for claim in claims])
    return claims


def records_of(notebook: NotebookNode) -> dict[str, Any]:
    """The named results in an executed notebook.

    Raises:
        ValueError: a name occurs twice.
    """
    records = list(_outputs(notebook, RECORD_MIME))
    _demand_unique("record", [record["name"] for record in records])
    return {record["name"]: record["value"] for record in records}


def _outputs(notebook: NotebookNode, mime: str) -> Iterator[dict[str, Any]]:
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if mime in output.get("data", {}):
                yield dict(output["data"][mime])


def _demand_unique(what: str, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"the {what} {twice[0]} is made twice in this notebook; every {what} has its own id")


def _for_json(value: Any) -> Any:
    """The value as JSON holds it; NaN and infinities become strings, arrays become lists."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _for_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_for_json(item) for item in value]
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else str(float(value))
    raise ValueError(
        f"{value!r} is a {type(value).__name__}; a record holds numbers, text, bools, lists and dicts"
    )
