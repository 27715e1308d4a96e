"""The book's own Sphinx extension: claims in the text, the ledger's page, the stamps, and an offline site."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

from . import checks, claims, docstrings, folds, offline, pages


def setup(app: Sphinx) -> dict[str, Any]:
    """Registers everything with Sphinx."""
    for part in (claims, pages, folds, checks, docstrings, offline):
        part.setup(app)
    return {"version": "1", "env_version": 1, "parallel_read_safe": True, "parallel_write_safe": True}
