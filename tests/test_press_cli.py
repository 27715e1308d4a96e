"""The command: chapters by name, parameters that are refused, one run, the list, the retry."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
import pytest
from click.testing import CliRunner

from gate.project import Project
from regimes.press.child import OwnKernel
from regimes.press.cli import main

CLAIM = (
    "claims.check('A1.good', 'a residual', source='A, Theorem 1', measured=alpha, at_most=0.6,\n"
    "             falsified_by=('the wrong potential', 3.0))"
)


@pytest.fixture
def project(tmp_path, monkeypatch):
    project = Project(tmp_path / "book")
    project.add("01_good", CLAIM, "print('alpha is', alpha)")
    project.add("02_other", "1 + 1")
    project.write("notebooks/presets/01_good.yml", "quick: {alpha: 0.25}\n")
    monkeypatch.chdir(tmp_path)
    return project


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-p", "alhpa", "1"], "01_good has no parameter 'alhpa'; did you mean 'alpha'?"),
        (["-p", "alpha", "1.5"], "alpha = 1.5"),
        (["-p", "alpha", "much"], "alpha: 'much' is not of type float"),
        (["-p", "seed", "1.5"], "seed: '1.5' is not of type int"),
        (["-p", "alpha", "nan"], "only finite numbers"),
        (["--preset", "fast"], "no preset 'fast'; there is: quick"),
        (["-o", "book/notebooks/01_good.ipynb"], "lies among the book's sources"),
        (["-o", "out.html"], "must end in .ipynb"),
        (["-f", "wrong.yml"], "alpha = 7.0"),
        (["-f", "list.yml"], "must map parameter names to values"),
    ],
)
def test_what_is_refused_is_refused_at_once(project, arguments, message):
    Path("wrong.yml").write_text("alpha: 7\n")
    Path("list.yml").write_text("[alpha]\n")
    result = project.regimes("run", "01", *arguments)
    assert result.exit_code == 2, result.output
    assert message in result.output
    assert not (project.root / "_build").exists()


def test_refusal_lists_what_exists(project):
    output = project.regimes("run", "01", "-p", "beta", "1").output
    for fragment in ("alpha", "float", "0.5", "in [0, 1]", "scale", "seed", "at least 0"):
        assert fragment in output


@pytest.mark.parametrize("name", ["01", "01_good", "01_good.ipynb", "notebooks/01_good.ipynb"])
def test_a_chapter_goes_by_several_names(project, name):
    assert "01_good has no parameter" in project.regimes("run", name, "-p", "x", "1").output


def test_an_unknown_chapter_is_refused(project):
    result = project.regimes("build", "09")
    assert result.exit_code == 2
    assert "'09' is not a chapter; chapters: 01_good, 02_other" in result.output


def test_a_run_with_parameters_of_ones_own(project):
    Path("mine.yml").write_text("alpha: 0.75\nseed: 5\n")
    result = project.regimes("run", "01", "--preset", "quick", "-f", "mine.yml", "-p", "seed", "9")
    # With other parameters a claim that fails is information.
    assert result.exit_code == 0, result.output
    assert "1 fails" in result.output
    out = nbformat.read("01_good.run.ipynb", as_version=4)
    injected = next(cell for cell in out.cells if "injected-parameters" in cell.metadata.get("tags", []))
    assert injected.source.splitlines()[1:] == ["alpha = 0.75", "seed = 9"]
    assert out.cells[-1].outputs[0].text == "alpha is 0.75\n"
    assert out.metadata["regimes"]["run"]["changed"] == {"alpha": 0.75, "seed": 9}
    assert out.metadata["regimes"]["run"]["preset"] == "quick"

    again = project.regimes("run", "01", "-f", "mine.yml", "-p", "seed", "9", "-o", "other.ipynb")
    assert "running" not in again.output
    assert nbformat.read("other.ipynb", as_version=4).cells == out.cells


def test_a_failing_run_names_the_cell_of_the_source_and_keeps_the_old_file(project):
    project.add("01_good", "print(1 / seed)")
    Path("01_good.run.ipynb").write_text("old")
    result = project.regimes("run", "01", "-p", "alpha", "0.25")
    assert result.exit_code == 1
    assert "cell 4 (`print(1 / seed)`) raised ZeroDivisionError" in result.output
    assert Path("01_good.run.ipynb").read_text() == "old"


def test_list(project):
    project.add("03_bad", "def f(:")
    result = project.regimes("list", "--parameters")
    assert result.exit_code == 1
    for fragment in (
        "01_good  Chapter 01_good",
        "budget 60 s; never run",
        "presets: quick",
        "alpha  float  0.5  in [0, 1]",
        "03_bad: cell 4 (`def f(:`): syntax error",
    ):
        assert fragment in result.output


def test_check_says_what_is_stale_and_what_never_ran(project):
    assert project.regimes("build", "01", "--no-site").exit_code == 0
    result = project.regimes("check")
    assert result.exit_code == 1
    assert "A1.good  a residual" in result.output
    assert "02_other has no run" in result.output
    assert "stale" not in result.output
    project.add("01_good", CLAIM, "print('changed')")
    assert "01_good: stale run of" in project.regimes("check").output


def test_no_book_here(tmp_path):
    result = CliRunner().invoke(main, ["--root", str(tmp_path), "list"])
    assert result.exit_code == 2
    assert "_toc.yml" in result.output


def test_each_kernel_has_sockets_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    kernel = OwnKernel(kernel_name="python3")
    assert (kernel.transport, Path(kernel.ip).parent) == ("ipc", tmp_path)
    assert kernel.format_kernel_cmd()[0] == sys.executable


FLAKY = """#!/bin/sh
folder=$(dirname "$3")
echo x >> {count}
if [ $(wc -l < {count}) -le {failures} ]; then
  echo '{{"kind": "start", "message": "port taken"}}' > "$folder/failure.json"
  exit 1
fi
exec {python} "$@"
"""


@pytest.mark.parametrize(("failures", "status"), [(1, 0), (2, 1)])
def test_a_kernel_that_does_not_start_gets_a_second_chance(project, monkeypatch, failures, status):
    count, flaky = Path("count").resolve(), Path("python").resolve()
    flaky.write_text(FLAKY.format(count=count, failures=failures, python=sys.executable))
    flaky.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(flaky))
    result = project.regimes("build", "02", "--no-site")
    assert result.exit_code == status, result.output
    assert len(count.read_text().split()) == 2
    assert ("no kernel came up, twice: port taken" in result.output) == bool(status)
