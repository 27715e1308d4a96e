"""The role `{claim}`: a measured value with its verdict, linked to the cell that measured it."""

from __future__ import annotations

import difflib
import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole

from regimes.ledger import anchor, format_value

from . import data

logger = logging.getLogger(__name__)

MARKS = {"holds": "✓", "supported": "✓", "fails": "✗", "error": "✗", "not supported": "✗"}
_NUMBER = re.compile(r"(-?[\d.]+)(?:e([+-]?\d+))?")


class claim_node(nodes.Inline, nodes.TextElement):
    """A citation of a claim, its id in the attribute `claim`, until the page's own address is known."""


class ClaimRole(SphinxRole):
    """Reads `` {claim}`ID` ``."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        data.depend(self.env, data.LEDGER)
        known, node = data.ledger(self.env), claim_node(self.text, self.text, claim=self.text)
        self.set_source_info(node)
        if known is not None and self.text not in known:
            close = difflib.get_close_matches(self.text, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            logger.warning("no chapter makes the claim %r%s", self.text, hint, location=node)
        return [node], []


class ResolveClaims(SphinxPostTransform):
    """Puts value, verdict and link where the claim is cited."""

    default_priority = 5

    def run(self, **kwargs: Any) -> None:
        known = data.ledger(self.env) or {}
        for node in list(self.document.findall(claim_node)):
            record = known.get(node["claim"])
            node.replace_self(_citation(self, record) if record else nodes.literal("", node["claim"]))


def _citation(transform: ResolveClaims, record: dict[str, Any]) -> nodes.Node:
    link = claim_link(transform.app, transform.env.docname, record)
    if not isinstance(record["measured"], bool):
        link += [*number(format_value(record["measured"])), nodes.Text("\u00a0")]
    verdict = record["verdict"]
    told = MARKS[verdict] if verdict in ("holds", "supported") else f"{MARKS[verdict]} {verdict}"
    if isinstance(record["measured"], bool) and record["measured"]:
        told = f"{verdict} {MARKS[verdict]}"
    link += nodes.inline("", told, classes=["claim-mark"])
    link["classes"] += ["claim", verdict_class(verdict)]
    return link


def claim_link(app: Sphinx, docname: str, record: dict[str, Any]) -> nodes.reference:
    """An empty link from a page to the cell that checked the claim, which says the claim when pointed at."""
    address = app.builder.get_relative_uri(docname, record["docname"]) + f"#{anchor(record['id'])}"
    title = f"{record['id']}: {record['claim'].replace('$', '')} ({record['verdict']})"
    return nodes.reference("", "", refuri=address, internal=True, reftitle=title)


def verdict_class(verdict: str) -> str:
    """The class by which the style sheet knows a verdict."""
    return f"claim-{verdict.replace(' ', '-')}"


def number(text: str) -> list[nodes.Node]:
    """`4.4e-15` as people write it, 4.4 × 10⁻¹⁵; `1e-6` as 10⁻⁶; anything that is no number as it is."""
    found = _NUMBER.fullmatch(text)
    if not found:
        return [nodes.Text(text)]
    digits, power = found[1].replace("-", "−"), found[2]
    if power is None:
        return [nodes.Text(digits)]
    factor = "" if digits == "1" else f"{digits}\u00a0×\u00a0"
    return [nodes.Text(f"{factor}10"), nodes.superscript("", str(int(power)).replace("-", "−"))]


def setup(app: Sphinx) -> None:
    """Registers the role."""
    ignore = (lambda *_: None, lambda *_: None)
    app.add_node(claim_node, html=ignore, latex=ignore, text=ignore)
    app.add_role("claim", ClaimRole())
    app.add_post_transform(ResolveClaims)
