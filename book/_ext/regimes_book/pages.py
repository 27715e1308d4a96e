"""Directives: `{ledger}` (every claim), `{runs}` (every run), `{stamp}` (how this page was made)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from regimes.ledger import format_value

from . import data
from .claims import MARKS, claim_link, number, verdict_class

_FILTER = Path(__file__).parent / "filter.html"
# Headings with their share of the width; the style sheet repeats the headings for narrow screens.
_LEDGER_COLUMNS = {"Claim": 40, "Measured": 18, "Required": 22, "Falsifier": 20}
_RUNS_COLUMNS = {"Chapter": 26, "Run time of budget": 20, "Peak memory": 13, "Run on": 16, "Claims": 25}


class coverage_node(nodes.Inline, nodes.TextElement):
    """Stands for the sentence on how much of the page is claimed, until the page is read to its end."""


class LedgerDirective(SphinxDirective):
    """All claims of all chapters, a table a chapter."""

    def run(self) -> list[nodes.Node]:
        data.depend(self.env, data.LEDGER, data.RUNS)
        records, runs = data.ledger(self.env), data.runs(self.env)
        if not records or not runs:
            return [nodes.paragraph("", "No chapter has been run.")]
        result: list[nodes.Node] = [
            nodes.paragraph("", _sentence(data.tally(records.values())), classes=["ledger-total"]),
            nodes.raw("", _FILTER.read_text(encoding="utf-8"), format="html"),
        ]
        for chapter, run in runs.items():
            own = [record for record in records.values() if record["chapter"] == chapter]
            if own:
                heading = nodes.rubric("", "", page_link(self, run["docname"], run["title"]))
                rows = [_claim_row(self, record) for record in own]
                result += [heading, table("ledger", _LEDGER_COLUMNS, rows)]
        return result


def _claim_row(directive: SphinxDirective, record: dict[str, Any]) -> list[list[nodes.Node]]:
    link = claim_link(directive.env.app, directive.env.docname, record)
    link += nodes.literal("", record["id"])
    sentence, _ = directive.parse_inline(record["claim"])
    about = f"{record['source']} · {record['kind']}"
    claim = [nodes.paragraph("", "", link), nodes.paragraph("", "", *sentence), _small(about)]
    verdict = record["verdict"]
    classes = ["claim-mark", verdict_class(verdict)]
    mark = nodes.inline("", f"{MARKS[verdict]} {verdict}", classes=classes)
    measured = [nodes.paragraph("", "", *_value(record["measured"])), nodes.paragraph("", "", mark)]
    required = [nodes.paragraph("", "", *_requirement(record))]
    if record.get("because"):
        reason, _ = directive.parse_inline(record["because"])
        required.append(nodes.paragraph("", "", *reason, classes=["small"]))
    return [claim, measured, required, _falsifier(directive, record)]


def _falsifier(directive: SphinxDirective, record: dict[str, Any]) -> list[nodes.Node]:
    falsifier = record.get("falsifier")
    if not falsifier:
        return [nodes.paragraph("", "–")]
    what, _ = directive.parse_inline(falsifier["what"])
    outcome = [nodes.Text("→ "), *_value(falsifier["measured"])]
    return [nodes.paragraph("", "", *what), nodes.paragraph("", "", *outcome)]


def _requirement(record: dict[str, Any]) -> list[nodes.Node]:
    relation, target = record["relation"], record["target"]
    if relation == "true":
        return [nodes.Text("true")]
    if relation == "between":
        return [nodes.Text("from "), *_value(target[0]), nodes.Text(" to "), *_value(target[1])]
    signs = {"at_most": "≤\u00a0", "at_least": "≥\u00a0", "close_to": ""}
    result = [nodes.Text(signs[relation]), *_value(target)]
    for name, size in (record.get("tolerance") or {}).items():
        if size and relation == "close_to":
            result += [nodes.Text(" ±\u00a0"), *_value(size)]
            result += [nodes.Text(" of it")] if name == "rtol" else []
    return result


def _value(value: Any) -> list[nodes.Node]:
    return [nodes.Text("–")] if value is None else number(format_value(value))


class RunsDirective(SphinxDirective):
    """Run time against budget, memory and date of every chapter, and the versions behind them."""

    def run(self) -> list[nodes.Node]:
        data.depend(self.env, data.LEDGER, data.RUNS)
        runs, records = data.runs(self.env), data.ledger(self.env) or {}
        if not runs:
            return [nodes.paragraph("", "No chapter has been run.")]
        rows = []
        for chapter, run in runs.items():
            own = [record for record in records.values() if record["chapter"] == chapter]
            late = " (over)" if run["seconds"] > run["budget"] else ""
            cells = [f"{run['seconds']:.1f} s of {run['budget']:.0f} s{late}", f"{run['peak_mb']:.0f} MB"]
            cells += [_day(run), data.tally(own)]
            first = nodes.paragraph("", "", page_link(self, run["docname"], run["title"]))
            rows.append([[first], *([nodes.paragraph("", cell)] for cell in cells)])
        return [table("runs", _RUNS_COLUMNS, rows)]


class StampDirective(SphinxDirective):
    """How this page was made; the press puts it at the end of each chapter."""

    def run(self) -> list[nodes.Node]:
        data.depend(self.env, data.LEDGER, data.RUNS)
        runs, docname = data.runs(self.env) or {}, self.env.docname
        run = next((run for run in runs.values() if run["docname"] == docname), None)
        if run is None:
            return []
        own = [record for record in (data.ledger(self.env) or {}).values() if record["docname"] == docname]
        versions = ", ".join(f"{name} {version}" for name, version in sorted(run["versions"].items()))
        lines = [
            [nodes.Text(_sentence(data.tally(own)) + " "), coverage_node()],
            [nodes.Text(_made(run))],
            [nodes.Text(f"Parameters: {_assignments(run['parameters'])}.")],
            [nodes.Text(f"Versions: {versions}.")],
        ]
        items = [nodes.list_item("", nodes.paragraph("", "", *line)) for line in lines]
        opening = '<details class="regimes-stamp"><summary>How this page was made</summary>'
        return [
            nodes.raw("", opening, format="html"),
            nodes.bullet_list("", *items),
            nodes.raw("", "</details>", format="html"),
        ]


def _made(run: dict[str, Any]) -> str:
    commit = f", commit {run['commit'][:10]}" if run["commit"] else ""
    preset = f" (preset {run['preset']})" if run["preset"] else ""
    return (
        f"Executed on {_day(run)} in {run['seconds']:.1f} s of a budget of {run['budget']:.0f} s, "
        f"with at most {run['peak_mb']:.0f} MB of memory, "
        f"by Python {run['python']} on {run['platform']}{commit}{preset}."
    )


def _day(run: dict[str, Any]) -> str:
    return run["started"][:10]


def _assignments(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {value!r}" for name, value in values.items()) or "none"


def _sentence(phrase: str) -> str:
    return phrase[0].upper() + phrase[1:] + "."


def _small(text: str) -> nodes.paragraph:
    return nodes.paragraph("", text, classes=["small"])


def page_link(directive: SphinxDirective, docname: str, title: str) -> nodes.Node:
    """A link to another page under the given title."""
    reference = addnodes.pending_xref(
        "", nodes.inline("", title), refdomain="std", reftype="doc", reftarget=f"/{docname}", refexplicit=True
    )
    reference["refdoc"] = directive.env.docname
    return reference


def table(kind: str, columns: dict[str, int], rows: Sequence[Sequence[list[nodes.Node]]]) -> nodes.table:
    """A table whose class tells the style sheet how to stack its cells on a narrow screen."""
    group = nodes.tgroup(
        "", *(nodes.colspec(colwidth=width) for width in columns.values()), cols=len(columns)
    )
    header = nodes.row("", *(nodes.entry("", nodes.paragraph("", heading)) for heading in columns))
    body = [nodes.row("", *(nodes.entry("", *cell) for cell in row)) for row in rows]
    group += [nodes.thead("", header), nodes.tbody("", *body)]
    return nodes.table("", group, classes=["regimes-table", f"regimes-{kind}", "colwidths-given"])


def setup(app: Sphinx) -> None:
    """Registers the directives."""
    ignore = (lambda *_: None, lambda *_: None)
    app.add_node(coverage_node, html=ignore, latex=ignore, text=ignore)
    app.add_directive("ledger", LedgerDirective)
    app.add_directive("runs", RunsDirective)
    app.add_directive("stamp", StampDirective)
