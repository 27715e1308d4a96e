"""The tables that the book ships are read as they are, and what is not there is named."""

from pathlib import Path

import numpy as np
import pytest

from regimes.data import published

ROOT = Path(__file__).resolve().parents[1]


def test_a_published_table_comes_as_typed_columns():
    table = published("lippl2024_diagonal", start=ROOT / "notebooks")
    assert {len(column) for column in table.values()} == {900}
    assert set(table["study"]) == {"overlap", "active", "rescaling"}
    assert table["n"].dtype.kind == "i" and table["mean"].dtype == float
    row = (table["study"] == "overlap") & (table["procedure"] == "PT+FT") & (table["shared"] == 40)
    np.testing.assert_array_equal(table["n"][row], [16, 32, 64, 128, 256, 512])
    assert table["mean"][row][1] == 0.3081


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder book/data/published"):
        published("lippl2024_diagonal", start=tmp_path)
    with pytest.raises(FileNotFoundError, match="lippl2024_diagonal"):
        published("nothing", start=ROOT)
