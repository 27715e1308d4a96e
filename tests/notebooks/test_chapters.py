"""Each chapter executed with its quick preset, as a person would: `regimes run CHAPTER --preset quick`."""

from pathlib import Path

import nbformat
import pytest
from click.testing import CliRunner

from regimes.ledger import claims_of
from regimes.press.chapters import chapter_names
from regimes.press.cli import main

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", chapter_names(ROOT))
def test_the_quick_preset_runs_and_its_claims_hold(name, tmp_path):
    out = tmp_path / "quick.ipynb"
    command = ["--root", str(ROOT), "run", name, "--preset", "quick", "-o", str(out)]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    claims = claims_of(nbformat.read(out, as_version=4))
    assert claims, "a chapter makes claims"
    failing = [claim["text"] for claim in claims if claim["verdict"] in ("fails", "error")]
    assert not failing
