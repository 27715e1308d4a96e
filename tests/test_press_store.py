"""The run store: what makes a run stale, what does not, and what an entry holds."""

from __future__ import annotations

import json
import os
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_markdown_cell

from gate.project import Project
from regimes.press import store as stores
from regimes.press.store import compose
from regimes.press.trace import PACKAGE, label, locate

READS = """
import os, warnings
import helper
table = open("../book/data/table.csv").read()
with open("scratch.txt", "w") as file:
    file.write("mine")
mine = open("scratch.txt").read()
warnings.warn("a warning from here")
print(os.getcwd(), helper.VALUE, table, alpha)
"""


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """A chapter that imports a module and reads a file, executed once."""
    project = Project(tmp_path_factory.mktemp("store"))
    project.write("notebooks/helper.py", "VALUE = 1\n")
    project.write("notebooks/unrelated.py", "VALUE = 1\n")
    project.write("book/data/table.csv", "10")
    project.add("01_x", new_markdown_cell("Old prose."), READS, "42")
    result = project.regimes("build", "--no-site")
    assert result.exit_code == 0, result.output
    return project, project.store.find(project.chapter("01_x"))


def text(run) -> str:
    return (run.path / "notebook.ipynb").read_text()


def test_the_record_says_what_was_read(executed):
    _, run = executed
    assert {"notebooks/helper.py", "book/data/table.csv"} <= run.files.keys()
    assert "<regimes>/parameters.py" in run.files
    assert not [name for name in run.files if "press" in name or name.endswith((".ipynb", ".txt"))]
    assert not {"notebooks/unrelated.py"} & run.files.keys()
    assert run.versions["ipykernel"]
    assert run.parameters == {"alpha": 0.5, "seed": 0}
    assert (run.changed, run.preset) == ({}, None)
    assert 0 < run.seconds < 30
    assert 20 < run.peak_mb < 1000
    assert run == stores.Run.read(run.path)


def test_the_copy_speaks_of_no_machine(executed):
    project, run = executed
    for word in (str(project.root), "papermill", "ipykernel_", str(Path.home()) + "/", ".tmp-", "trace"):
        assert word not in text(run)
    assert "./notebooks 1 10 0.5" in text(run)
    assert ": UserWarning: a warning from here" in text(run)


def test_cells_are_those_of_the_source_counted_from_one(executed):
    project, run = executed
    cells = run.notebook().cells
    assert [c.source for c in cells] == [c.source for c in project.chapter("01_x").notebook.cells]
    counts = [c.execution_count for c in cells if c.cell_type == "code"]
    assert counts == [1, 2, 3, 4, 5]
    assert cells[-1].outputs[0].execution_count == 5


def test_the_sockets_left_nothing(executed):
    project, _ = executed
    names = {path.name for path in (project.root / "notebooks").iterdir()}
    assert names <= {"01_x.ipynb", "presets", "helper.py", "unrelated.py", "scratch.txt", "__pycache__"}


@pytest.mark.parametrize("path", ["notebooks/helper.py", "book/data/table.csv"])
def test_a_change_of_what_was_read_makes_it_stale(executed, path):
    project, run = executed
    file, chapter = project.root / path, project.chapter("01_x")
    old = file.read_text()
    file.write_text(old + "\n")
    assert project.store.find(chapter) is None
    file.unlink()
    assert project.store.find(chapter) is None
    file.write_text(old)
    assert project.store.find(chapter) == run


def test_changes_elsewhere_do_not(executed):
    project, run = executed
    project.write("notebooks/unrelated.py", "VALUE = 2\n")
    project.write("book/data/other.csv", "2")
    assert project.store.find(project.chapter("01_x")) == run


def test_code_parameters_and_versions_make_it_stale(executed, monkeypatch):
    project, run = executed
    chapter = project.chapter("01_x")
    assert project.store.find(chapter, {"alpha": 0.25}) is None
    monkeypatch.setattr(stores, "_version", lambda name: "0" if name == "ipykernel" else run.versions[name])
    assert project.store.find(chapter) is None
    monkeypatch.undo()
    assert project.store.find(chapter) == run
    chapter.notebook.cells[-1].source = "43"
    assert project.store.find(chapter) is None


def test_new_prose_goes_with_old_outputs(executed):
    project, run = executed
    chapter = project.chapter("01_x")
    prose = next(cell for cell in chapter.notebook.cells if cell.source == "Old prose.")
    prose.source = "New prose."
    chapter.notebook.cells.insert(1, new_markdown_cell("More."))
    chapter.notebook.cells[-1].metadata["tags"] = ["hide-input"]
    assert project.store.find(chapter) == run
    page = compose(chapter.notebook, run)
    nbformat.validate(page)
    assert [cell.source for cell in page.cells if cell.cell_type == "markdown"][1:] == ["More.", "New prose."]
    assert page.cells[-1].outputs[0].data["text/plain"] == "42"
    assert page.cells[-1].metadata["tags"] == ["hide-input"]
    assert page.metadata["regimes"]["run"]["parameters"] == run.parameters
    assert "outputs" not in chapter.notebook.metadata
    assert chapter.notebook.cells[-1].outputs == []


def test_compose_refuses_another_number_of_cells(executed):
    project, run = executed
    chapter = project.chapter("01_x")
    del chapter.notebook.cells[-1]
    with pytest.raises(ValueError, match="has 4 code cells, its stored run 5"):
        compose(chapter.notebook, run)


def test_an_edit_during_the_run_makes_no_wrong_entry(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    project = Project(tmp_path)
    helper = project.write("notebooks/helper.py", "VALUE = 1\n")
    edit = "import helper\nopen('helper.py', 'w').write('VALUE = 2\\n')\nprint(helper.VALUE)"
    project.add("01_x", edit)
    assert project.regimes("build", "--no-site").exit_code == 0
    assert project.store.find(project.chapter("01_x")) is None
    project.add("01_x", "import helper\nprint(helper.VALUE)")
    assert project.regimes("build", "--no-site").exit_code == 0
    run = project.store.find(project.chapter("01_x"))
    assert run.notebook().cells[-1].outputs[0].text == "2\n"
    # An edit of the same size within a second, which a bytecode cache does not notice.
    before = helper.stat()
    helper.write_text("VALUE = 3\n")
    os.utime(helper, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert project.regimes("build", "--no-site").exit_code == 0
    run = project.store.find(project.chapter("01_x"))
    assert run.notebook().cells[-1].outputs[0].text == "3\n"


def fake(project: Project, seed: int) -> None:
    """Store a run without executing anything."""
    chapter = project.chapter("01_x")
    temporary = project.store.temporary()
    nbformat.write(chapter.notebook, temporary / "notebook.ipynb")
    changed = {"seed": seed} if seed else {}
    names = stores.Run.__dataclass_fields__.keys() - {"path"}
    run = dict.fromkeys(names) | {
        "chapter": "01_x",
        "key": project.store.key(chapter, changed),
        "parameters": chapter.values(changed),
        "changed": changed,
        "files": {},
        "versions": {},
        "claims": [],
    }
    project.store.keep(temporary, run)


def test_old_entries_go_setting_by_setting(tmp_path):
    project = Project(tmp_path)
    project.add("01_x")
    for _ in range(stores.KEEP + 3):
        fake(project, seed=0)
    fake(project, seed=1)
    settings = [json.loads((entry / "run.json").read_text())["changed"] for entry in project.entries()]
    assert settings.count({}) == stores.KEEP
    assert settings.count({"seed": 1}) == 1
    assert project.store.latest("01_x").changed == {}


def test_only_leftovers_of_the_dead_are_removed(tmp_path):
    project = Project(tmp_path)
    store = project.store
    mine = store.temporary()
    dead = store.folder / ".tmp-999999999-0"
    dead.mkdir()
    store.clean()
    assert mine.exists()
    assert not dead.exists()


def test_labels(tmp_path):
    root = tmp_path.resolve()
    for path in ("lib/a.py", "notebooks/helper.py", "book/data/x.npz"):
        assert label(root / path, root) == path
    ignored = (
        "_build/x",
        ".git/HEAD",
        "lib/__pycache__/a.pyc",
        "notebooks/01.ipynb",
        "lib/a.egg-info/RECORD",
    )
    for path in (*ignored, "../outside", "env/lib/site-packages/numpy.py"):
        assert label(root / path, root) is None
    assert label(PACKAGE / "press" / "store.py", root) is None
    assert label(PACKAGE / "ledger.py", root) == "<regimes>/ledger.py"
    assert locate("<regimes>/ledger.py", root) == PACKAGE / "ledger.py"
    assert locate("lib/a.py", root) == root / "lib/a.py"
