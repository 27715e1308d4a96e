"""How a claim reads: as a line of text, as HTML in a cell's output, as a row of a table."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from regimes._claim import holds, limits

MARKS = {"holds": "✓", "supported": "✓", "fails": "✗", "not supported": "✗", "error": "✗"}
_MATH = re.compile(r"\$([^$]+)\$")
_POWER = re.compile(r"(-?[\d.]+)e(-?\d+)")
_MINUS = re.compile(r"(?<![\w.])-(?=\d)")
# Mixed with the text's own colour they keep a contrast of 4.5 in light and dark.
_STYLE = {
    True: "font-weight:600;color:var(--regimes-good,color-mix(in srgb,#2e9e5b 60%,currentColor))",
    False: "font-weight:600;color:var(--regimes-bad,color-mix(in srgb,#d0383b 60%,currentColor))",
}


def anchor(id: str) -> str:
    """The HTML id of a claim on its page."""
    return "claim-" + re.sub("[^a-z0-9]+", "-", id.lower())


def format_value(value: Any, digits: int = 3) -> str:
    """A measured value as text: `0.173`, `4.4e-15`, `12345`, `true`, `nan`.

    Floats from 1e-3 to 1e5 get `digits` significant digits (all before the point), others one less.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(format_value(item, digits) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {format_value(item, digits)}" for key, item in value.items()) + "}"
    if not isinstance(value, float) or not math.isfinite(value):
        return "none" if value is None else str(value)
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e5:
        before = math.floor(math.log10(abs(value))) + 1
        text = f"{value:.{max(digits - before, 0)}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, power = f"{value:.{digits - 2}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa}e{int(power)}"


def line(record: Mapping[str, Any]) -> str:
    """The one readable line; the formulas' dollar signs are left out."""
    verdict = record["verdict"]
    told = f"conjecture {verdict}: " if record["kind"] == "conjecture" else f"{verdict}: "
    sentence = f"{'' if verdict == 'holds' else told}{_plain(record['claim'])}"
    return f"{MARKS[verdict]} {record['id']}  {sentence}: {_finding(record)} ({_plain(_about(record))})"


def line_html(record: Mapping[str, Any]) -> str:
    """The same line for a page, with the claim's anchor and the verdict as a coloured word."""
    return (
        f'<div class="regimes-claim" style="margin:.25em 0;overflow-wrap:anywhere">'
        f'<span id="{anchor(record["id"])}"></span>{_badge(record)} <code>{record["id"]}</code> '
        f"{_rich(record['claim'])}: <strong>{_powers(_finding(record))}</strong> "
        f'<span style="opacity:.8">({_powers(_rich(_about(record)))})</span></div>'
    )


def muted(text: str) -> str:
    """A line of small print."""
    return f'<div style="opacity:.8;font-size:.9em;overflow-wrap:anywhere">{html.escape(text)}</div>'


def table_html(records: Sequence[Mapping[str, Any]]) -> str:
    """Claims as a table; the book's style sheet stacks its cells where the page is narrow."""
    if not records:
        return muted("no claims yet")
    heads = "".join(f'<th scope="col">{head}</th>' for head in ("Claim", "Measured", "Required", "Falsifier"))
    return (
        '<table class="regimes-table regimes-ledger" style="text-align:left">'
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(map(_row, records))}</tbody></table>"
    )


def _row(record: Mapping[str, Any]) -> str:
    measured, required = _values(record)
    falsifier = record["falsifier"]
    broken = (
        f"{_rich(falsifier['what'])} → {_powers(format_value(falsifier['measured']))}" if falsifier else "–"
    )
    link = f'<a href="#{anchor(record["id"])}"><code>{record["id"]}</code></a>'
    small = f'<span style="opacity:.8">{_rich(record["source"])} · {record["kind"]}</span>'
    cells = (
        f"{link} {_rich(record['claim'])}<br>{small}",
        f"{_powers(measured)}<br>{_badge(record)}",
        _powers(required),
        broken,
    )
    style = "text-align:left;vertical-align:top;white-space:normal"
    return "<tr>" + "".join(f'<td style="{style}">{cell}</td>' for cell in cells) + "</tr>"


def _badge(record: Mapping[str, Any]) -> str:
    verdict = record["verdict"]
    return f'<span style="{_STYLE[MARKS[verdict] == "✓"]}">{MARKS[verdict]} {verdict}</span>'


def _finding(record: Mapping[str, Any]) -> str:
    measured, required = _values(record)
    if record["relation"] == "true":
        return measured
    return f"{measured} {required}" if holds(record, record["measured"]) else f"{measured}, not {required}"


def _values(record: Mapping[str, Any]) -> tuple[str, str]:
    """The measured value and the requirement, with digits enough to see on which side of its bounds it is."""
    relation, target = record["relation"], record["target"]
    if relation == "true":
        return format_value(record["measured"]), "true"
    bounds = target if relation == "between" else limits(record) if relation == "close_to" else [target]
    measured = float("nan") if record["measured"] is None else float(record["measured"])
    digits = _digits(measured, bounds)
    value = format_value(record["measured"], digits)
    if relation == "between":
        return value, f"in {format_value(target, digits)}"
    if relation == "close_to":
        return value, f"≈ {format_value(target, digits)} ± {format_value(bounds[1] - target, 3)}"
    return value, f"{'≤' if relation == 'at_most' else '≥'} {format_value(target, digits)}"


def _digits(measured: float, bounds: Sequence[float]) -> int:
    for digits in range(3, 17):
        text = format_value(measured, digits)
        if all(measured == bound or text != format_value(float(bound), digits) for bound in bounds):
            return digits
    return 17


def _about(record: Mapping[str, Any]) -> str:
    parts = [record["source"]]
    if record["interval"]:
        parts.append(f"interval {format_value(record['interval'])}")
    if record["fault"]:
        parts.append(record["fault"])
    if falsifier := record["falsifier"]:
        role = "falsifier" if record["fault"] else "broken by"
        parts.append(f"{role} {falsifier['what']}: {format_value(falsifier['measured'])}")
    return "; ".join(parts)


def _plain(text: str) -> str:
    return _MATH.sub(r"\1", text)


def _rich(text: str) -> str:
    """Escaped for HTML, with formulas where MathJax looks for them."""
    return _MATH.sub(r'<span class="math notranslate nohighlight">\\(\1\\)</span>', html.escape(text))


def _powers(text: str) -> str:
    """`4.4e-15` as people write it, on one line, with a proper minus sign."""

    def written(found: re.Match[str]) -> str:
        factor = "" if found[1] == "1" else f"{found[1]}\u00a0×\u00a0"
        power = f"{factor}10<sup style='line-height:0'>{found[2]}</sup>"
        return f"<span style='white-space:nowrap'>{power}</span>"

    return _MINUS.sub("−", _POWER.sub(written, text))
