"""What the press reads in a source, and which faults it finds without running anything."""

from __future__ import annotations

import json

import pytest
from nbformat.v4 import new_code_cell

from gate.project import CHECK, PARAMETERS, Project, notebook
from regimes.parameters import ParameterError
from regimes.press.cells import bound_names, parse
from regimes.press.chapters import chapter_names, find_root, load
from regimes.press.sources import SourceError


def faults(tmp_path, **changes) -> str:
    """What is wrong with a chapter that differs from a good one in this."""
    project = Project(tmp_path)
    cells = changes.pop("cells", [])
    project.add_notebook("01_x", notebook("01_x", cells, **changes))
    with pytest.raises(SourceError) as caught:
        project.chapter("01_x")
    return str(caught.value)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (None, "no cell is tagged `parameters`"),
        ("alpha = 0.5  # scale", "`alpha = 0.5`: a parameter is written `name: type = value"),
        ("alpha: float = 0.5", "say in a comment on the line what alpha means"),
        ("alpha: float | None = 0.5  # scale", "the type float | None is not one of int, float"),
        ("alpha: float = 1 / 2  # scale", "the value must be a plain literal"),
        ("alpha: float = 1.5  # scale\nseed: int = 0  # s", "the default is refused: alpha = 1.5"),
        ("alpha: float = 'a'  # scale\nseed: int = 0  # s", "the default is refused: alpha = 'a'"),
        ("alpha: float = 0.5  # scale", "check_parameters names seed, which is not a parameter"),
        (f"{PARAMETERS}\nbeta: int = 1  # b", "check_parameters has no line for beta"),
        (f"{PARAMETERS}\nseed: int = 1  # again", "seed is set twice"),
    ],
)
def test_faults_of_the_parameters(tmp_path, parameters, message):
    assert message in faults(tmp_path, parameters=parameters)


def test_check_missing_or_not_literal(tmp_path):
    assert "cell 2 (`1 + 1`)" in faults(tmp_path / "a", check="1 + 1")
    assert "literal" in faults(tmp_path / "b", check=CHECK.replace("between(0, 1)", "between(0, top)"))


def test_two_tagged_cells_and_none_after(tmp_path):
    tagged = new_code_cell("x: int = 1  # x", metadata={"tags": ["parameters"]})
    assert "2 cells are tagged `parameters`" in faults(tmp_path, cells=[tagged])


def test_syntax_error_is_named_with_its_cell(tmp_path):
    assert "cell 4 (`def f(:`): syntax error in line 1" in faults(tmp_path, cells=["def f(:\n    pass"])


def test_cell_ids_given_twice(tmp_path):
    project = Project(tmp_path)
    book = notebook("01_x", ["1", "2"])
    book.cells[-1].id = book.cells[-2].id
    path = project.add("01_x")
    path.write_text(json.dumps(book))
    _, found = load(project.root)
    assert "the cell id 'cell-4' is used 2 times" in "\n".join(found)


def test_magics_are_no_syntax_errors():
    parse("%matplotlib inline\nx = 3\n!ls\nx?")
    parse("%%time\nanything goes")
    parse("await something()")
    parse("y = (7\n     % 3)")
    with pytest.raises(SyntaxError):
        parse("%matplotlib inline\nx = = 3")


def test_bound_names():
    source = "import a.b as c, d.e\nx, (y, z) = 1, (2, 3)\nfor i in []: pass\ndef f(): pass\nprint(w)"
    assert {"c", "d", "x", "y", "z", "i", "f"} <= bound_names(source)
    assert not {"w", "print"} & bound_names(source)


def test_a_chapter_as_read(tmp_path):
    project = Project(tmp_path)
    project.add("01_x", budget=5, memory_gb=0.5)
    project.write("notebooks/presets/01_x.yml", "quick: {alpha: 1e-1, seed: 3}\nsame: {alpha: 0.5}\n")
    chapter = project.chapter("01_x")
    assert (chapter.title, chapter.budget, chapter.memory_gb) == ("Chapter 01_x", 5.0, 0.5)
    alpha = chapter.parameters["alpha"]
    assert (alpha.annotation, alpha.default, alpha.help) == ("float", 0.5, "scale")
    # A number of YAML 1.2, and a value that is the default's is no change.
    assert chapter.presets == {"quick": {"alpha": 0.1, "seed": 3}, "same": {}}
    assert "in [0, 1]" in chapter.describe()[0]


@pytest.mark.parametrize(
    ("preset", "message"),
    [
        ("quick: {alhpa: 0.1}", "did you mean 'alpha'?"),
        ("quick: {alpha: 2}", "alpha = 2.0"),
        ("quick: {alpha: big}", "alpha: 'big' is not of type float"),
        ("quick: [1]", "must map parameter names to values"),
        ("- quick", "a mapping from preset names"),
        ("quick: {", "01_x.yml is not valid YAML"),
    ],
)
def test_faults_of_presets(tmp_path, preset, message):
    project = Project(tmp_path)
    project.add("01_x")
    project.write("notebooks/presets/01_x.yml", preset)
    chapters, found = load(project.root)
    assert not chapters
    assert message in "\n".join(found)
    assert found[0].startswith("01_x: ")


@pytest.mark.parametrize("budget", [0, -1, "60", True, float("nan")])
def test_faults_of_the_budget(tmp_path, budget):
    project = Project(tmp_path)
    project.add("01_x", budget=budget)
    _, found = load(project.root)
    assert "regimes.budget" in found[0]


def test_order_is_that_of_the_contents(tmp_path):
    project = Project(tmp_path)
    toc = """
format: jb-book
root: book/intro
parts:
  - caption: One
    chapters:
      - file: notebooks/02_b
        sections: [{file: notebooks/01_a.ipynb}, {file: book/notation}]
  - caption: Two
    chapters: [{file: notebooks/03_c}]
"""
    project.write("_toc.yml", toc)
    assert chapter_names(project.root) == ["02_b", "01_a", "03_c"]
    _, found = load(project.root)
    assert found[0] == "02_b: _toc.yml names it, but there is no 02_b.ipynb in notebooks/"


def test_root_is_found_from_below(tmp_path):
    project = Project(tmp_path)
    project.add("01_x")
    assert find_root(project.root / "notebooks" / "presets") == project.root


def test_changes_are_typed_and_all_faults_listed(tmp_path):
    project = Project(tmp_path)
    project.add("01_x")
    chapter = project.chapter("01_x")
    assert chapter.changes({"seed": "7", "alpha": "1e-3"}) == {"alpha": 0.001, "seed": 7}
    assert chapter.changes({"alpha": 1}) == {"alpha": 1.0}
    assert chapter.changes({"alpha": "0.5"}) == {}
    with pytest.raises(ParameterError) as caught:
        chapter.changes({"alpha": 3, "sed": 1, "seed": "one"})
    for fragment in (
        "alpha = 3.0",
        "did you mean 'seed'?",
        "seed: 'one'",
        "Parameters of 01_x:",
        "in [0, 1]",
    ):
        assert fragment in str(caught.value)
