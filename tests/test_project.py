"""The project's own files agree with each other."""

import re
import subprocess
import sys
import tomllib
import zipfile
from itertools import chain
from pathlib import Path

import nbformat
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONDA_TO_PIP = {
    "pytorch": "torch",
    "jupyter_client": "jupyter-client",
    "matplotlib-base": "matplotlib",
    "seaborn-base": "seaborn",
    "cvxpy-base": "cvxpy",
    "playwright-python": "playwright",
}
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def requirements_of_project() -> dict[str, SpecifierSet]:
    project = PYPROJECT["project"]
    lines = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    return {r.name: r.specifier for r in map(Requirement, lines)}


def test_environment_yml_states_the_same_requirements():
    entries = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    (pip,) = [e["pip"] for e in entries if isinstance(e, dict)]
    lines = [e for e in entries if isinstance(e, str)] + [p for p in pip if not p.startswith("-")]
    conda = {r.name: r.specifier for r in map(Requirement, lines)}
    assert conda.pop("python") == SpecifierSet(PYPROJECT["project"]["requires-python"])
    conda.pop("pip")
    assert {CONDA_TO_PIP.get(n, n): s for n, s in conda.items()} == requirements_of_project()
    assert "-e ." in pip


def test_the_lock_pins_every_requirement_within_its_range():
    text = "".join((ROOT / "requirements" / name).read_text() for name in ("lock.txt", "torch.txt"))
    pinned = re.findall(r"^([a-z0-9._-]+)==([^\s;]+)", text, re.MULTILINE | re.IGNORECASE)
    versions = {}
    for name, version in pinned:
        versions.setdefault(name.lower(), []).append(version)
    for name, specifier in requirements_of_project().items():
        assert name in versions, f"{name} is not pinned: run make lock"
        assert all(v in specifier for v in versions[name]), f"{name}: {versions[name]} against {specifier}"


def test_the_lock_carries_hashes_for_all_but_torch():
    blocks = re.split(r"\n(?=[a-z0-9])", (ROOT / "requirements/lock.txt").read_text(), flags=re.IGNORECASE)
    unhashed = [b.split("==")[0] for b in blocks if "==" in b and "--hash=sha256:" not in b]
    assert not unhashed
    assert "torch==" not in (ROOT / "requirements/lock.txt").read_text()


def test_each_dependency_is_named_in_contributing_with_its_reason():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^\| `([A-Za-z0-9_-]+)` \| (.+?) \|$", text, re.MULTILINE)
    named = [name for name, _ in rows]
    assert sorted(named) == sorted(requirements_of_project()), "one row each in the table of dependencies"
    assert all(len(reason.split()) >= 3 for _, reason in rows)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebooks_are_committed_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [c for c in notebook.cells if c.cell_type == "code"]
    assert not any(c.outputs or c.execution_count for c in code)
    assert "widgets" not in notebook.metadata and "papermill" not in notebook.metadata


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook_cells_are_short(path):
    for number, cell in enumerate(nbformat.read(path, as_version=4).cells, 1):
        if cell.cell_type == "code":
            # The words of a caption are not code.
            lines = [line for line in map(str.strip, cell.source.splitlines()) if line and line[0] != '"']
            assert len(lines) <= 30, f"cell {number} of {path.name} has {len(lines)} lines"


def test_the_wheel_carries_what_the_package_needs(tmp_path):
    command = ["pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", tmp_path, ROOT]
    subprocess.run([sys.executable, "-m", *command], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    carried = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("regimes/")}
    source = ROOT / "lib"
    wanted = {
        str(p.relative_to(source)) for p in source.rglob("*") if p.suffix in {".py", ".typed", ".js", ".css"}
    }
    assert carried == wanted


SCIENCE = ["data", "tasks", "models", "potentials", "interpolate", "flow", "multitask", "train", "measures"]
SCIENCE += ["transfer", "logistic"]
HOUSE = ["press", "ledger", "parameters", "figures", "explorer"]


def imported_by(module: str) -> set[str]:
    """The public modules of regimes that importing this one loads, seen from a fresh interpreter."""
    probe = f"import sys, regimes.{module}; print(*[m for m in sys.modules if m.startswith('regimes.')])"
    run = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[1] for name in run.stdout.split()} - {module}
    return {name for name in loaded if not name.startswith("_")}


@pytest.mark.parametrize("module", SCIENCE)
def test_science_modules_import_one_way_and_nothing_of_the_house(module):
    loaded = imported_by(module)
    assert not loaded & set(HOUSE)
    assert loaded <= set(SCIENCE[: SCIENCE.index(module)])
