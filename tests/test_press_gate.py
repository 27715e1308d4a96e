"""The gate itself: each planted fault turns a build red and is named; what is good passes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from gate.project import Project

CLAIM = (
    "claims.check({id!r}, 'a residual', source='A, Theorem 1', measured={measured},\n"
    "             at_most=1e-10, falsified_by=('the wrong potential', {wrong}))"
)


def claim(id_: str, measured: str = "1e-12", wrong: str = "0.3") -> str:
    return CLAIM.format(id=id_, measured=measured, wrong=wrong)


@pytest.fixture(scope="module")
def red(tmp_path_factory):
    """One build with a good chapter and one for each fault; they are independent of each other."""
    project = Project(tmp_path_factory.mktemp("red"))
    project.add("01_good", claim("A1.good"), "print(alpha)")
    project.add("02_raises", "def inverse(x):\n    return 1 / x", "inverse(seed)", "print('unreached')")
    project.add("03_order", "print(late + 1)", "late = 3")
    project.add("04_fails", claim("A4.fails", measured="1e-3"))
    project.add("05_nan", claim("A5.nan", measured="float('nan')"))
    project.add("06_falsifier", claim("A6.falsifier", wrong="1e-13"))
    project.add("07_slow", "import time\ntime.sleep(60)", budget=0.5)
    project.add("08_twice", claim("A1.good"))
    project.add("09_memory", "x = bytearray(600_000_000)\nimport time\ntime.sleep(60)", memory_gb=0.5)
    project.add("10_died", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    project.add("11_left", "import sys\nsys.exit(0)", claim("A11.left", measured="1"))
    return project, project.regimes("build")


@pytest.mark.parametrize(
    "fragments",
    [
        pytest.param(
            ["02_raises: cell 5 (`inverse(seed)`) raised ZeroDivisionError", "return 1 / x"], id="raises"
        ),
        pytest.param(
            ["03_order: cell 4 (`print(late + 1)`) raised NameError", "out of order", "cell 5 (`late = 3`)"],
            id="order",
        ),
        pytest.param(["04_fails: claim A4.fails does not hold", "0.001"], id="claim-fails"),
        pytest.param(["05_nan: claim A5.nan does not hold", "not a number (NaN)"], id="claim-nan"),
        pytest.param(
            ["06_falsifier: claim A6.falsifier proves nothing", "the falsifier does not break it"],
            id="falsifier",
        ),
        pytest.param(
            ["07_slow: stopped after 1.5 s, three times its budget of 0.5 s", "cell 4"], id="budget"
        ),
        pytest.param(["08_twice: claim A1.good is already made by 01_good"], id="duplicate"),
        pytest.param(
            ["09_memory: stopped at 0.", "GB of memory in cell 4", "its limit is 0.5 GB"], id="memory"
        ),
        pytest.param(["10_died: the kernel died in cell 4"], id="died"),
        pytest.param(["11_left: cell 4 (`import sys`) ended the run"], id="left"),
    ],
)
def test_each_fault_is_named(red, fragments):
    _, result = red
    assert result.exit_code == 1
    for fragment in fragments:
        assert fragment in result.output


def test_others_still_finish_and_no_site_is_made(red):
    project, result = red
    finished = {"01_good", "04_fails", "05_nan", "06_falsifier", "08_twice"}
    assert {entry.parents[1].name for entry in project.entries()} == finished
    assert "01_good: claim" not in result.output
    assert not (project.root / "_build" / "html").exists()
    assert not list((project.root / "_build" / "runs").glob(".tmp-*"))


def test_the_report_has_neither_noise_nor_colours(red):
    _, result = red
    assert "\x1b[" not in result.output
    for noise in ("frozen modules", "without encryption", "Exception in callback"):
        assert noise not in result.output


def test_a_second_build_is_red_without_executing_what_finished(red):
    project, _ = red
    result = project.regimes("build", "01", "04", "--no-site")
    assert result.exit_code == 1
    assert "claim A4.fails does not hold" in result.output
    assert "running" not in result.output
    assert project.ran("04_fails") == 1


def test_check_is_red_and_names_the_claims(red):
    project, _ = red
    result = project.regimes("check")
    assert result.exit_code == 1
    for fragment in ("A4.fails", "A5.nan", "A6.falsifier", "02_raises has no run"):
        assert fragment in result.output


def test_faults_of_sources_are_named_before_anything_runs(tmp_path):
    project = Project(tmp_path)
    project.add("01_good", "1 + 1")
    book = project.add("02_bare", "1 + 1")
    text = book.read_text().replace('"parameters"\n', '"parametres"\n')
    book.write_text(text)
    result = project.regimes("build")
    assert result.exit_code == 1
    assert "02_bare: no cell is tagged `parameters`" in result.output
    assert not project.entries()


SLOW = """
import pathlib, time
ran = pathlib.Path({log!r})
ran.open('a').write('x')
while not pathlib.Path({release!r}).exists():
    time.sleep(0.05)
"""


def _wait_for(condition, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def test_killed_build_resumes(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    project = Project(tmp_path / "book")
    quick, slow, release = (str(outside / name) for name in ("quick", "slow", "release"))
    # The budget decides who goes first.
    project.add("01_slow", SLOW.format(log=slow, release=release), budget=50)
    project.add("02_quick", SLOW.format(log=quick, release=str(outside)), budget=60)
    command = [sys.executable, "-c", "from regimes.press.cli import main; main()"]
    command += ["--root", str(project.root), "build", "--no-site", "--jobs", "1"]
    build = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _wait_for(Path(slow).exists)
    family = psutil.Process(build.pid).children(recursive=True)
    assert len(family) >= 2
    os.kill(build.pid, signal.SIGKILL)
    build.wait()
    _wait_for(lambda: not any(p.is_running() and p.status() != "zombie" for p in family), 10)
    assert [entry.parents[1].name for entry in project.entries()] == ["02_quick"]

    Path(release).touch()
    result = project.regimes("build", "--no-site")
    assert result.exit_code == 0, result.output
    assert Path(quick).read_text() == "x"
    assert Path(slow).read_text() == "xx"
    assert not list((project.root / "_build" / "runs").glob(".tmp-*"))


def test_a_half_written_entry_is_not_used(tmp_path):
    project = Project(tmp_path)
    project.add("01_good", "1 + 1")
    store, chapter = project.store, project.chapter("01_good")
    entry = store.folder / "01_good" / store.key(chapter, {}) / "default-20200101T000000.000000-abcd"
    entry.mkdir(parents=True)
    (entry / "run.json").write_text('{"chapter": "01_go')
    assert store.find(chapter) is None
    assert store.latest("01_good") is None


@pytest.mark.parametrize("spoil", ["notebook.ipynb", "run.json", "seal"])
def test_a_damaged_entry_is_made_anew(tmp_path, spoil):
    project = Project(tmp_path)
    project.add("01_good", "1 + 1")
    assert project.regimes("build", "--no-site").exit_code == 0
    (entry,) = project.entries()
    file = entry / spoil
    file.write_text(file.read_text(encoding="utf-8") + " ", encoding="utf-8")
    assert project.store.latest("01_good") is None
    assert project.regimes("build", "--no-site").exit_code == 0
    assert project.ran("01_good") == 2


def test_a_claim_whose_output_was_cleared_is_missed(tmp_path):
    project = Project(tmp_path)
    failing = "claims.check('A1.gone', 'c', source='s', measured=2, at_most=1, falsified_by=('f', 3))"
    project.add("01_cleared", f"{failing}\nfrom IPython.display import clear_output\nclear_output()")
    result = project.regimes("build", "--no-site")
    assert result.exit_code == 1
    assert "A1.gone was checked, but no output shows it" in result.output


def test_much_output_without_a_space_is_written_down_at_once(tmp_path):
    project = Project(tmp_path)
    project.add("01_loud", "print('x' * 2_000_000)", budget=5)
    result = project.regimes("build", "--no-site")
    assert result.exit_code == 0, result.output


def test_a_notebook_that_no_page_shows_is_named(tmp_path):
    project = Project(tmp_path)
    project.add("01_good", "1 + 1")
    shutil.copy(project.root / "notebooks" / "01_good.ipynb", project.root / "notebooks" / "02_lost.ipynb")
    result = project.regimes("build", "--no-site")
    assert result.exit_code == 1
    assert "02_lost: not named in _toc.yml" in result.output


def test_only_one_build_at_a_time(tmp_path):
    from filelock import FileLock

    project = Project(tmp_path)
    project.add("01_good", "1 + 1")
    (project.root / "_build").mkdir()
    with FileLock(project.root / "_build" / ".lock"):
        result = project.regimes("build")
    assert result.exit_code == 1
    assert "another build is under way" in result.output
