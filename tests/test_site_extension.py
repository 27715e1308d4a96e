"""The book's Sphinx extension, in whole builds of a small book: what it shows, and what it refuses."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from docutils.core import publish_doctree

from regimes.press.stage import SiteError
from small_book import NAME, REPO, SmallBook, claim, figure

sys.path.insert(0, str(REPO / "book" / "_ext"))
from regimes_book.docstrings import readable

CHAPTER = f"notebooks/{NAME}"


def text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", html)).replace("\u00a0", " ")


@pytest.fixture(scope="module")
def book(tmp_path_factory) -> SmallBook:
    book = SmallBook(tmp_path_factory.mktemp("book") / "root")
    book.claims += [
        claim("A3.all", True, relation="true", target=True),
        claim(
            "X.guess", 0.5, kind="conjecture", verdict="not supported", falsifier=None, interval=[0.4, 0.6]
        ),
    ]
    book.notebook.cells[0].source += "\n\nAll: {claim}`A3.all`; {claim}`X.guess`."
    assert book.build().built
    return book


def test_a_claim_shows_value_and_verdict_and_leads_to_its_cell(book):
    link = re.search(r'<a class="claim claim-holds[^>]*>.*?</a>', book.page("book/intro"))[0]
    assert text(link) == "4.4 × 10−15 ✓"
    address = re.search(r'href="\.\./([^"#]+)#([^"]+)"', link)
    assert address[1] == f"{CHAPTER}.html"
    assert f'id="{address[2]}"' in book.page(CHAPTER)
    assert 'title="A3.kkt: The residual of Q_k vanishes (holds)"' in link


def test_other_verdicts(book):
    assert "All: holds ✓; 0.5 ✗ not supported." in text(book.page(CHAPTER))


def test_figure_has_number_caption_claim_and_alt_text(book):
    page = book.page(CHAPTER)
    assert re.search(r'<img alt="A rising line"[^>]*src="\.\./_images/\w+\.svg"', page)
    assert re.search(r"Fig\. 1 A line; 4\.4 × 10−15 ✓\.", text(page))
    assert "Fig. 1" in text(book.page("book/intro"))


def test_stamp_says_how_the_page_was_made_and_how_much_is_claimed(book):
    stamp = re.search(r'<details class="regimes-stamp">.*?</details>', book.page(CHAPTER), re.DOTALL)[0]
    assert "3 claims: 2 established (all hold), 1 conjecture (0 supported)." in text(stamp)
    assert "2 of 3 labelled statements and figures of this page carry a claim." in text(stamp)
    assert "Executed on 2026-12-01 in 2.5 s of a budget of 60 s, with at most 321 MB" in text(stamp)
    assert "commit 0123456789" in stamp and "N = 10" in stamp and "numpy 2.4.6" in stamp


def test_ledger_and_runs(book):
    page = text(book.page("book/ledger"))
    assert "3 claims: 2 established (all hold), 1 conjecture (0 supported)." in page
    row = r"A3\.kkt The residual of .* ✓ holds ≤ 10−10 rounding .* doubled → 0\.5"
    assert re.search(row, page)
    assert "2.5 s of 60 s 321 MB 2026-12-01" in page
    published = json.loads((book.root / "_build/html/ledger.json").read_text())
    assert [record["id"] for record in published] == ["A3.kkt", "A3.all", "X.guess"]


def test_proofs_fold_without_a_script(book):
    assert re.search(r"<summary>Proof</summary>\s*<p>By looking", book.page(CHAPTER))


def test_no_page_names_another_host_and_none_this_machine(book):
    html = book.root / "_build" / "html"
    for path in html.rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="((?:https?:)?//[^"]*)"', page)
        assert not loaded, f"{path.name} loads {loaded}"
        assert "unpkg" not in page and str(book.root) not in page
    assert (html / "_static/mathjax/tex-chtml.js").exists()
    assert not list(html.rglob("*.map"))


def test_faults_are_named_and_stay_red_until_mended(tmp_path):
    book = SmallBook(tmp_path)
    assert book.build().built
    good = book.page("book/intro")
    book.claims.append(claim("A3.nobody"))
    book.figures.append(figure(caption="Again"))
    book.figures[-1].metadata["regimes"]["name"] = "fig-other"
    images = "![](_static/favicon.svg)\n\n{ref}`nowhere`\n\n<img src='x.png'>"
    book.write("book/intro.md", f"# Small\n\n{{claim}}`A3.kt` and {{claim}}`A3.kkt`.\n\n{images}\n")
    for _ in range(2):  # Sphinx alone would forget, the second time
        with pytest.raises(SiteError) as refused:
            book.build()
        told = str(refused.value)
        assert "book/intro.md:3: no chapter makes the claim 'A3.kt'; did you mean A3.kkt?" in told
        assert "no page cites the established claim A3.nobody; cite it with {claim}`A3.nobody`" in told
        assert "book/intro.md:5: the image favicon.svg has no alt text" in told
        assert "book/intro.md:9: an <img> has no alt text" in told
        assert "book/intro.md:7: undefined label: 'nowhere'" in told
        assert "\x1b" not in told and str(tmp_path) not in told
        assert book.page("book/intro") == good  # the last good site stays
    book.write("book/intro.md", "# Small\n\n{claim}`A3.kkt` {claim}`A3.nobody`\n")
    assert book.build().built


def test_an_incremental_build_is_as_good_as_a_new_one(tmp_path):
    book = SmallBook(tmp_path)
    book.write("book/extra.md", "# Extra\n\nSee {doc}`ledger`.\n")
    book.toc("book/ledger", "book/extra")
    assert book.build().built
    assert not book.build().built

    book.claims = [claim("A3.kkt", 7.0e-12)]
    book.write("book/ledger.md", "# Renamed\n\n```{ledger}\n```\n")
    assert book.build().built
    assert "7 × 10−12 ✓" in text(book.page("book/intro"))
    assert "7 × 10−12" in text(book.page("book/ledger"))
    assert "See Renamed." in text(book.page("book/extra"))

    (tmp_path / "book/extra.md").unlink()
    book.toc("book/ledger")
    assert book.build().built
    assert not list((tmp_path / "_build/html").rglob("extra.html"))

    book.claims = [claim("A3.other")]
    with pytest.raises(SiteError, match=r"book/intro\.md:3: no chapter makes the claim 'A3\.kkt'"):
        book.build()


def test_a_plain_jupyter_book_build_shows_ids_without_warnings(tmp_path):
    book = SmallBook(tmp_path)
    book.chapter()
    config = (tmp_path / "_config.yml").read_text()
    book.write("_config.yml", config.replace("execute_notebooks: cache", "execute_notebooks: 'off'"))
    book.write("book/intro.md", "# Small\n\nSee {claim}`A3.kkt`.\n")
    command = [
        sys.executable,
        "-c",
        "from jupyter_book.cli.main import main; main()",
        "build",
        "-W",
        "-n",
        ".",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "See A3.kkt." in text(book.page("book/intro"))
    assert "No chapter has been run." in text(book.page("book/ledger"))


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("scale α = |u||v|, (|v| − |u|)/(|v| + |u|)", "scale α = |u||v|, (|v| − |u|)/(|v| + |u|)"),
        ("`alpha`² > 0 and |``s``| < 1", "alpha² > 0 and |s| < 1"),
        ("a span of `two\nlines` and `None | int`", "a span of two lines and None | int"),
    ],
)
def test_docstrings_may_hold_mathematics_and_code(written, read):
    tree = publish_doctree(readable(written), settings_overrides={"halt_level": 2})
    assert tree.astext().replace("\n", " ") == read
    assert "\n\n>>> f(1) | g(2)\n3" in readable("Example.\n\n>>> f(1) | g(2)\n3")
    assert readable(":cite:`a` and `text <url>`_") == ":cite:`a` and `text <url>`_"


def test_every_module_is_in_the_reference():
    pages = "".join((REPO / "book" / name).read_text() for name in ("api.md", "api_press.md"))
    listed = set(re.findall(r"automodule:: (\S+)", pages))
    library = REPO / "lib" / "regimes"
    names = [path.relative_to(library.parent).with_suffix("") for path in library.rglob("*.py")]
    assert listed == {".".join(name.parts) for name in names if not name.name.startswith("_")}
