"""What the press hands to the book builder, and what it makes of the builder's answers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from regimes.press import stage
from regimes.press.present import WIDGET, SiteError, page
from small_book import NAME, REPO, SmallBook, claim, figure


def present(*outputs, root: Path = REPO, source: str = "draw()"):
    notebook = new_notebook(cells=[new_code_cell(source, id="draw", outputs=list(outputs))])
    return page(notebook, NAME, root)


def html(text: str, **more):
    return new_output("display_data", data={"text/html": text, **more})


def test_figure_metadata_moves_to_where_the_builder_looks():
    cell = present(figure(caption="Caption")).cells[0]
    assert cell.metadata.mystnb == {
        "figure": {"name": "fig-line", "caption": "Caption"},
        "image": {"alt": "A rising line", "width": "100%"},
    }


def test_figure_gets_a_cell_of_its_own_and_the_order_stays():
    stream = new_output("stream", text="before")
    cells = present(stream, figure(), html("after")).cells[:-1]
    kinds = [next(iter(cell.outputs[0].get("data", {"text": ""}))) for cell in cells]
    assert kinds == ["text", "image/svg+xml", "text/html"]
    assert ["mystnb" in cell.metadata for cell in cells] == [False, True, False]
    assert [cell.metadata.get("tags") for cell in cells] == [None, ["remove-input"], ["remove-input"]]
    assert len({cell.id for cell in cells}) == 3


def test_caption_for_live_kernels_is_dropped():
    told = {"regimes": {"caption_of": "fig-line"}}
    live = new_output("display_data", data={"text/markdown": "C"}, metadata=told)
    assert len(present(figure(), live).cells) == 2


def test_explorer_keeps_the_face_without_a_kernel():
    output = present(html("<div>slider</div>", **{WIDGET: {"model_id": "1"}})).cells[0].outputs[0]
    assert list(output.data) == ["text/html"]


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (figure(alt=" "), "the figure 'fig-line' has no alt text"),
        (new_output("display_data", data={"image/png": "AAAA"}), "an image has no alt text"),
        (html("<p><img src='a.png'></p>"), "<img> without alt"),
        (html("<img alt='' src='a.png'>"), "<img> without alt"),
        (html("<img alt=' ' src='a.png'>"), "<img> without alt"),
        (html("<img data-alt='words' src='a.png'>"), "<img> without alt"),
        (html("<script src='https://example.org/a.js'></script>"), "from another host"),
        (html("<img alt='words' src='//example.org/a.png'>"), "from another host"),
        (new_output("display_data", data={WIDGET: {"model_id": "1"}}), "a widget alone"),
    ],
)
def test_what_a_page_cannot_show_is_refused_with_chapter_and_cell(output, said):
    with pytest.raises(SiteError, match=re.escape(said)) as refused:
        present(output, source="ax.plot(x)")
    assert f"{NAME}, cell 1 (`ax.plot(x)`)" in str(refused.value)


def test_nothing_of_this_machine_is_published(tmp_path):
    said = f"read {tmp_path}/data/x.csv\n{Path.home()}/y\n/tmp/ipykernel_12/345.py:3: UserWarning"
    result = present(new_output("stream", text=said), root=tmp_path)
    assert result.cells[0].outputs[0].text == "read data/x.csv\n~/y\n<cell>:3: UserWarning"
    notebook = new_notebook(cells=[new_code_cell("1", metadata={"papermill": {"duration": 1}})])
    notebook.metadata.update({"papermill": {"input_path": "/x"}, "widgets": {"state": {}}})
    cleaned = page(notebook, NAME, tmp_path)
    assert "papermill" not in json.dumps(cleaned) and "widgets" not in cleaned.metadata
    assert "papermill" in notebook.metadata  # the stored run is left alone


def test_the_stamp_comes_last():
    assert present().cells[-1].source == "```{stamp}\n```"


def stage_tree(book: SmallBook) -> bool:
    sources = stage.book_files(book.root)
    content = stage.staged(book.root, sources, [book.chapter()], {NAME: book.run()})
    return stage.write_tree(book.root / "_build" / "src", content)


def test_staged_tree_changes_only_where_its_sources_do(tmp_path):
    book, src = SmallBook(tmp_path), tmp_path / "_build" / "src"
    assert stage_tree(book) is False
    before = {path: path.stat().st_mtime_ns for path in src.rglob("*") if path.is_file()}
    assert "'off'" in (src / "_config.yml").read_text()
    book.write("book/intro.md", "# Other")
    (tmp_path / "book" / "ledger.md").unlink()
    assert stage_tree(book) is True
    after = {path: path.stat().st_mtime_ns for path in src.rglob("*") if path.is_file()}
    assert before.keys() - after.keys() == {src / "book" / "ledger.md"}
    assert {path for path in after if after[path] != before[path]} == {src / "book" / "intro.md"}


def test_staged_ledger_says_page_and_parameters(tmp_path):
    book, data = SmallBook(tmp_path), tmp_path / "_build/src/book/_data"
    stage_tree(book)
    (record,) = json.loads((data / "ledger.json").read_text())
    assert record == {**claim("A3.kkt"), "parameters": {"N": 10}, "docname": f"notebooks/{NAME}"}
    (run,) = json.loads((data / "runs.json").read_text()).values()
    assert run["seconds"] == 2.5 and "claims" not in run and str(tmp_path) not in json.dumps(run)


def test_fingerprint_covers_sources_runs_and_docstrings(tmp_path):
    book = SmallBook(tmp_path)

    def fingerprint():
        sources, run = stage.book_files(tmp_path), book.run()
        return stage._fingerprint(tmp_path, sources, [book.chapter()], {NAME: run})

    seen = [fingerprint()]
    assert fingerprint() == seen[0]
    book.write("book/intro.md", "# Other")
    seen.append(fingerprint())
    book.write("lib/module.py", '"""A docstring."""')
    seen.append(fingerprint())
    book.seconds = 3.0
    seen.append(fingerprint())
    book.notebook.cells[0].source += " More."
    seen.append(fingerprint())
    assert len(set(seen)) == len(seen)


def test_a_site_that_was_being_swapped_comes_back(tmp_path):
    (tmp_path / "html.old").mkdir()
    stage._recover(tmp_path)
    assert (tmp_path / "html").exists() and not (tmp_path / "html.old").exists()
    (tmp_path / "html.old").mkdir()
    stage._recover(tmp_path)
    assert (tmp_path / "html").exists() and (tmp_path / "html.old").exists()


def test_missing_runs_and_claims_made_twice_are_refused(tmp_path):
    book = SmallBook(tmp_path)
    with pytest.raises(SiteError, match="no stored run to publish of: 01_small"):
        stage.build_site(tmp_path, [book.chapter()], {})
    book.claims *= 2
    with pytest.raises(SiteError, match=r"A3\.kkt is made twice: in 01_small and 01_small"):
        book.build()


def test_warnings_are_read_from_the_builder(tmp_path):
    book = SmallBook(tmp_path)
    stage_tree(book)
    src = tmp_path / "_build" / "src"
    stderr = (
        f"\x1b[91m{src}/book/intro.md:7: WARNING: undefined label: 'x' [ref.ref]\x1b[39;49;00m\n"
        f"{src}/notebooks/{NAME}.ipynb:20005: WARNING: no claim\n  more of it\n"
        "Traceback (most recent call last):\n  WARNING: not this\n"
    )
    assert stage._warnings(stderr, src) == [
        "book/intro.md:7: undefined label: 'x' [ref.ref]",
        f"notebooks/{NAME}.ipynb, markdown cell (`Theory`), line 4: no claim\n  more of it",
    ]
