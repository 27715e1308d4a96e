"""The last steps of the gate: what only the site builder can find, and the site that stays when it is red."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from nbformat.v4 import new_markdown_cell

from gate.project import Project

REPO = Path(__file__).resolve().parents[1]
CLAIM = (
    "claims.check('A1.good', 'a residual', source='A, Theorem 1', measured=alpha, at_most=0.6,\n"
    "             falsified_by=('the wrong potential', 3.0))"
)
CITED = new_markdown_cell("The residual is {claim}`A1.good`.")
BARE_IMAGE = "from IPython.display import SVG\nSVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>')"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A good book with the real extension, built."""
    project = Project(tmp_path_factory.mktemp("site"))
    shutil.copy(REPO / "_config.yml", project.root)
    for folder in ("_ext", "_static"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPO / "book" / folder, project.root / "book" / folder, ignore=ignored)
    shutil.copy(REPO / "book" / "references.bib", project.root / "book")
    project.add("01_good", CITED, CLAIM)
    result = project.regimes("build")
    assert result.exit_code == 0, result.output
    assert "Ledger: claims: 1 holds" in result.output
    assert str(index(project)) in result.output
    return project


def index(project: Project) -> Path:
    return project.root / "_build" / "html" / "index.html"


def words(html: str) -> str:
    return re.sub("<[^>]+>", "", html)


def page(project: Project) -> str:
    return (index(project).parent / "notebooks" / "01_good.html").read_text(encoding="utf-8")


def test_a_good_book_is_published(project):
    assert "The residual is 0.5" in words(page(project))
    (claim,) = json.loads((index(project).parent / "ledger.json").read_text())
    assert (claim["id"], claim["verdict"], claim["parameters"]["alpha"]) == ("A1.good", "holds", 0.5)


def test_a_preset_makes_a_site_of_its_own(project):
    project.write("notebooks/presets/01_good.yml", "small:\n  alpha: 0.25\n")
    result = project.regimes("build", "--preset", "small")
    assert result.exit_code == 0, result.output
    small = project.root / "_build" / "presets" / "small" / "html"
    assert "The residual is 0.25" in words((small / "notebooks" / "01_good.html").read_text(encoding="utf-8"))
    assert "The residual is 0.5" in words(page(project))
    refused = project.regimes("build", "--preset", "smal")
    assert refused.exit_code == 1
    assert "no chapter has a preset 'smal'" in refused.output


def test_nothing_changed_nothing_done(project):
    before = index(project).stat().st_mtime_ns
    result = project.regimes("build")
    assert result.exit_code == 0
    assert "running" not in result.output
    assert "nothing has changed" in result.output
    assert index(project).stat().st_mtime_ns == before


def test_broken_citations_and_references_are_named_and_the_site_stays(project):
    intro = project.root / "book" / "intro.md"
    good, before = intro.read_text(), page(project)
    intro.write_text("# Gate\n\nSee {claim}`A9.nowhere` and {ref}`no-such-label`.\n")
    result = project.regimes("build")
    intro.write_text(good)
    assert result.exit_code == 1
    assert "The site was not built" in result.output
    assert "A9.nowhere" in result.output
    assert "no-such-label" in result.output
    assert page(project) == before


def test_a_figure_without_alt_text_is_named_and_the_site_stays(project):
    before = page(project)
    project.add("01_good", CITED, CLAIM, BARE_IMAGE)
    result = project.regimes("build")
    assert result.exit_code == 1
    assert "01_good, cell 5 (`from IPython.display import SVG`)" in result.output
    assert "alt text" in result.output
    assert page(project) == before


def test_a_chosen_chapter_does_not_publish_beside_missing_ones(project):
    project.add("01_good", CITED, CLAIM)
    project.add("02_other", "1 + 1")
    before = page(project)
    result = project.regimes("build", "01")
    assert result.exit_code == 1
    assert "The site was not built: no fresh run of 02_other" in result.output
    assert page(project) == before


def test_one_run_as_a_page_of_its_own(project, tmp_path):
    out = tmp_path / "mine.ipynb"
    result = project.regimes("run", "01", "-p", "alpha", "0.25", "-o", str(out), "--html")
    assert result.exit_code == 0, result.output
    html = (tmp_path / "mine_html" / "notebooks" / "01_good.html").read_text(encoding="utf-8")
    assert "# Parameters\nalpha = 0.25" in words(html)
    assert "The residual is 0.25" in words(html)
    assert 'src="http' not in html
