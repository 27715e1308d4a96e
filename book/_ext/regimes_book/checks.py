"""What every page is checked for: alt texts, claims that nobody cites, and how much of it is claimed."""

from __future__ import annotations

import re
from typing import NamedTuple

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.environment.collectors import EnvironmentCollector
from sphinx.util import logging
from sphinx_proof.nodes import NODE_TYPES

from regimes.press.present import IMG_WITHOUT_ALT

from . import data
from .claims import claim_node
from .pages import coverage_node

logger = logging.getLogger(__name__)

# Definitions, assumptions, notation, examples and remarks claim nothing that a run could check.
_SILENT = {"definition", "assumption", "axiom", "notation", "example", "remark", "algorithm"}
_STATEMENTS = tuple(node for kind, node in NODE_TYPES.items() if kind not in _SILENT)


class Page(NamedTuple):
    """Ids that a page cites, and how many of its labelled statements and figures cite one."""

    cited: frozenset[str]
    labelled: int
    claimed: int


class Collector(EnvironmentCollector):
    """Keeps a `Page` for each document."""

    def clear_doc(self, app: Sphinx, env: BuildEnvironment, docname: str) -> None:
        _pages(env).pop(docname, None)

    def merge_other(
        self, app: Sphinx, env: BuildEnvironment, docnames: set[str], other: BuildEnvironment
    ) -> None:
        _pages(env).update({name: _pages(other)[name] for name in docnames if name in _pages(other)})

    def process_doc(self, app: Sphinx, doctree: nodes.document) -> None:
        labelled = list(doctree.findall(_is_labelled))
        page = Page(
            cited=frozenset(node["claim"] for node in doctree.findall(claim_node)),
            labelled=len(labelled),
            claimed=sum(any(node.findall(claim_node)) for node in labelled),
        )
        _pages(app.env)[app.env.docname] = page
        for node in list(doctree.findall(coverage_node)):
            node.replace_self(nodes.Text(_coverage(page)))
        _check_alt_texts(doctree)


def _pages(env: BuildEnvironment) -> dict[str, Page]:
    if not hasattr(env, "regimes_pages"):
        env.regimes_pages = {}
    return env.regimes_pages


def _is_labelled(node: nodes.Node) -> bool:
    if isinstance(node, nodes.figure):
        return bool(node["names"])
    # sphinx-proof names a statement without a label after its kind and a serial number.
    return isinstance(node, _STATEMENTS) and not re.fullmatch(rf"{node['realtype']}-\d+", node["label"])


def _coverage(page: Page) -> str:
    if not page.labelled:
        return "This page has no labelled statement or figure."
    return f"{page.claimed} of {page.labelled} labelled statements and figures of this page carry a claim."


def _check_alt_texts(doctree: nodes.document) -> None:
    for image in doctree.findall(nodes.image):
        if not image.get("alt", "").strip():
            name = image.get("uri", "").rsplit("/")[-1]
            logger.warning("the image %s has no alt text", name, location=_placed(image))
    for raw in doctree.findall(nodes.raw):
        if IMG_WITHOUT_ALT.search(raw.astext()):
            logger.warning("an <img> has no alt text", location=_placed(raw))


def _placed(node: nodes.Node) -> nodes.Node:
    """The node or its nearest ancestor whose line is known."""
    while not node.line and node.parent is not None:
        node = node.parent
    return node


def _check_citations(app: Sphinx, env: BuildEnvironment) -> None:
    cited = frozenset[str]().union(*(page.cited for page in _pages(env).values()))
    for name, record in (data.ledger(env) or {}).items():
        if record["kind"] == "established" and name not in cited:
            message = "no page cites the established claim %s; cite it with {claim}`%s`"
            logger.warning(message, name, name, location=record["docname"])


def setup(app: Sphinx) -> None:
    """Registers the checks."""
    app.add_env_collector(Collector)
    app.connect("env-check-consistency", _check_citations)
