"""Docstrings with plain mathematics and code in backticks, made safe for reStructuredText."""

from __future__ import annotations

import re

from sphinx.application import Sphinx

# `x` and ``x`` alike, but neither roles (:cite:`x`) nor links (`x <y>`_).
_CODE = re.compile(r"(?<![:`\w])(``?)((?:(?!\n\s*\n)[^`])+)\1(?![`_])")


def readable(text: str) -> str:
    """The text with code as literals that may touch other signs, as in |`s`|, and with bars as bars."""
    return "\n\n".join(map(_block, text.split("\n\n")))


def _block(text: str) -> str:
    if text.lstrip().startswith(">>>"):
        return text
    parts, end = [], 0
    for code in _CODE.finditer(text):
        # An escaped space is nothing but the border that a literal needs.
        parts += [_bars(text[end : code.start()]), rf"\ ``{code[2]}``\ "]
        end = code.end()
    return "".join([*parts, _bars(text[end:])])


def _bars(text: str) -> str:
    # |x| would be a substitution.
    return text.replace("|", r"\|")


def _shield(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    # Napoleon takes what stands before a colon in an attribute's first line for its type; this one is empty.
    if what in ("attribute", "data", "property"):
        lines.insert(0, "\\ ")


def _mend(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    lines[:] = readable("\n".join(lines)).split("\n")


def _factory(
    app: Sphinx, what: str, name: str, obj: object, options: object, signature: str | None, result: str | None
) -> tuple[str | None, str | None]:
    # A default made by a factory is no Python, and then Sphinx typesets the whole signature as one string.
    return (signature and signature.replace("<factory>", "...")), result


def setup(app: Sphinx) -> None:
    """Registers the steps, before and after napoleon."""
    app.connect("autodoc-process-docstring", _shield, priority=400)
    app.connect("autodoc-process-docstring", _mend, priority=600)
    app.connect("autodoc-process-signature", _factory)
