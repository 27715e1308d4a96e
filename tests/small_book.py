"""A book of one chapter and a few pages, with stored runs made by hand, for the tests of the site."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from regimes.press.chapters import Chapter
from regimes.press.stage import SiteResult, build_site
from regimes.press.store import Run

REPO = Path(__file__).resolve().parents[1]
NAME = "01_small"
SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10"><path d="M0 0L9 9"/></svg>'
THEORY = """\
## Theory

```{prf:theorem} Limit
:label: thm-limit
The limit solves $X^\\top w = y$: {claim}`A3.kkt`.
```

```{prf:theorem} Another
:label: thm-other
Nothing was measured here.
```

```{prf:proof}
:class: dropdown
By looking.
```
"""


def claim(name: str, measured: Any = 4.4e-15, **more: Any) -> dict[str, Any]:
    """A record as the ledger stores it."""
    return {
        "id": name,
        "chapter": NAME,
        "claim": "The residual of $Q_k$ vanishes",
        "source": "A, Theorem 1",
        "kind": "established",
        "measured": measured,
        "relation": "at_most",
        "target": 1e-10,
        "tolerance": None,
        "because": "rounding",
        "interval": None,
        "falsifier": {"what": "$k$ doubled", "measured": 0.5},
        "verdict": "holds",
        "fault": None,
        "seconds": 0.25,
        "text": "holds",
        **more,
    }


def figure(alt: str = "A rising line", caption: str = "A line; {claim}`A3.kkt`.") -> nbformat.NotebookNode:
    """A figure's output as `figures.show` leaves it."""
    told = {"regimes": {"name": "fig-line", "caption": caption, "alt": alt}}
    return new_output("display_data", data={"image/svg+xml": SVG, "text/plain": alt}, metadata=told)


def shown(record: dict[str, Any]) -> nbformat.NotebookNode:
    """A claim's output as the ledger leaves it."""
    html = f'<div><span id="claim-{record["id"].lower().replace(".", "-")}"></span>{record["text"]}</div>'
    kind = "application/vnd.regimes.claim+json"
    return new_output("display_data", data={kind: record, "text/html": html, "text/plain": record["text"]})


class SmallBook:
    """A book in a folder; `claims`, `outputs` and the notebook's cells can be changed between builds."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "notebooks").mkdir(parents=True)
        (root / "lib").mkdir()
        shutil.copy(REPO / "_config.yml", root)
        ignore = shutil.ignore_patterns("__pycache__")
        for folder in ("_ext", "_static"):
            shutil.copytree(REPO / "book" / folder, root / "book" / folder, ignore=ignore)
        shutil.copy(REPO / "book" / "references.bib", root / "book")
        self.write("book/intro.md", "# Small\n\nSee {claim}`A3.kkt` and {numref}`fig-line`.\n")
        self.write("book/ledger.md", "# Ledger\n\n```{ledger}\n```\n\n## Runs\n\n```{runs}\n```\n")
        self.toc("book/ledger")
        self.claims = [claim("A3.kkt")]
        self.figures = [figure()]
        self.seconds = 2.5
        self.notebook = new_notebook(
            cells=[
                new_markdown_cell("# A small chapter\n\nWords, and {prf:ref}`thm-limit`.", id="title"),
                new_markdown_cell(THEORY, id="theory"),
                new_code_cell("draw()", id="draw"),
                new_code_cell("claims.check()", id="check"),
            ],
            metadata={"language_info": {"name": "python"}},
        )

    def write(self, name: str, text: str) -> None:
        """Write a page."""
        (self.root / name).write_text(text, encoding="utf-8")

    def toc(self, *pages: str) -> None:
        """Set the table of contents: the chapter, then these pages."""
        files = "".join(f"  - file: {page}\n" for page in (f"notebooks/{NAME}", *pages))
        self.write("_toc.yml", f"format: jb-book\nroot: book/intro\nchapters:\n{files}")

    def run(self) -> Run:
        """Store the executed chapter as it stands."""
        executed = copy.deepcopy(self.notebook)
        by_id = {cell.id: cell for cell in executed.cells}
        by_id["draw"].outputs = [*self.figures]
        by_id["check"].outputs = [shown(record) for record in self.claims]
        entry = self.root / "_build" / "runs" / NAME / "key" / "entry"
        entry.mkdir(parents=True, exist_ok=True)
        nbformat.write(executed, entry / "notebook.ipynb")
        told = {
            "chapter": NAME,
            "key": "key",
            "parameters": {"N": 10},
            "changed": {},
            "preset": None,
            "seconds": self.seconds,
            "budget": 60.0,
            "peak_mb": 321.0,
            "started": "2026-12-01T10:00:00+00:00",
            "commit": "0123456789abcdef",
            "python": "3.11.7",
            "platform": "Linux x86_64, 2 cores",
            "versions": {"numpy": "2.4.6"},
            "files": {},
            "claims": self.claims,
            "records": {},
        }
        (entry / "run.json").write_text(json.dumps(told), encoding="utf-8")
        return Run.read(entry)

    def chapter(self) -> Chapter:
        """The chapter as the press knows it."""
        path = self.root / "notebooks" / f"{NAME}.ipynb"
        nbformat.write(self.notebook, path)
        return Chapter(NAME, path, "A small chapter", 60.0, 3.0, {}, self.notebook)

    def build(self) -> SiteResult:
        """Publish it."""
        run = self.run()
        return build_site(self.root, [self.chapter()], {NAME: run})

    def page(self, name: str) -> str:
        """A published page's HTML."""
        return (self.root / "_build" / "html" / f"{name}.html").read_text(encoding="utf-8")
