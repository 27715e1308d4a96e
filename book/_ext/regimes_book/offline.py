"""A site that asks no other host for anything, and whose pages always agree with each other."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment

_HERE = Path(__file__).parent
# The renderer, its fonts, and what it loads when a page first uses a rare command: 2 MB of the package's 24.
_MATHJAX = ("tex-chtml.js", "output/chtml/fonts", "input/tex/extensions")


def _add_static(app: Sphinx, config: Config) -> None:
    config.html_static_path.append(str(_HERE / "static"))


def _copy_mathjax(app: Sphinx, error: Exception | None) -> None:
    if error or app.builder.format != "html":
        return
    package = distribution("sphinx-mathjax-offline")
    source = Path(str(package.locate_file("sphinx-mathjax-offline/static/mathjax")))
    target = Path(app.outdir) / "_static" / "mathjax"
    for part in _MATHJAX:
        if (target / part).exists():
            continue
        (target / part).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (source / part).is_dir() else shutil.copy
        copy(source / part, target / part)


def _drop_thebe(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Live kernels from elsewhere are not offered; their script is declared twice and fails on each page."""
    context["script_files"] = [script for script in context["script_files"] if not _is_thebe(script)]


def _is_thebe(script: Any) -> bool:
    attributes = getattr(script, "attributes", {})
    return "thebe" in str(getattr(script, "filename", script)) or "THEBE" in str(attributes.get("body", ""))


def _write_every_page(app: Sphinx, env: BuildEnvironment) -> Iterable[str]:
    # Sphinx writes only pages whose source changed. A page that refers to another would then keep its old
    # numbers, titles and menus, and a reference that broke would go unnoticed.
    return env.all_docs


def setup(app: Sphinx) -> None:
    """Registers the parts."""
    app.connect("config-inited", _add_static)
    app.add_css_file("regimes.css")
    app.connect("html-page-context", _drop_thebe, priority=900)
    app.connect("env-updated", _write_every_page)
    app.connect("build-finished", _copy_mathjax)
