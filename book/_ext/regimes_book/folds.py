"""Folded proofs: `{prf:proof}` with `:class: dropdown` becomes the browser's own `<details>`."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx_proof.nodes import proof_node


def _fold(app: Sphinx, doctree: nodes.document) -> None:
    # The script that folds admonitions stops at one without a title, and a proof has none.
    for proof in list(doctree.findall(proof_node)):
        body = proof.children[0]
        if "dropdown" not in body["classes"]:
            continue
        opening = nodes.raw("", '<details class="regimes-proof"><summary>Proof</summary>', format="html")
        closing = nodes.raw("", "</details>", format="html")
        _drop_word(body)
        proof.replace_self([opening, *body.children, closing])


def _drop_word(body: nodes.Element) -> None:
    """sphinx-proof writes "Proof. " before the first word; the fold's own title says it."""
    text = next(iter(body.findall(nodes.Text)), None)
    if text is not None and text.startswith("Proof. "):
        text.parent.replace(text, nodes.Text(text[len("Proof. ") :]))


def setup(app: Sphinx) -> None:
    """Registers the fold."""
    app.connect("doctree-read", _fold)
