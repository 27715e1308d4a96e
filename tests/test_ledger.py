"""Claims: verdicts, what is refused, how a claim reads, how it is read back from a notebook."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import nbformat
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import RichOutput, capture_output
from nbformat.v4 import new_code_cell, new_notebook, new_output

from regimes.ledger import CLAIM_MIME, RECORD_MIME, Ledger, anchor, claims_of, format_value, records_of

BROKEN = ("the tied network's potential", 0.31)


def check(
    id: str = "A3.kkt", claim: str = "The limit satisfies the KKT conditions of $Q_k$", **given: Any
) -> dict:
    """The record of one claim; the rest of a good claim is filled in."""
    ledger = Ledger("03_diagonal_networks")
    relations = {"at_most", "at_least", "close_to", "between", "true"}
    defaults = {"source": "A, Theorem 1", "measured": 4.4e-15, "falsified_by": BROKEN}
    if not relations & given.keys():
        defaults["at_most"] = 1e-10
    ledger.check(id, claim, **(defaults | given))
    return ledger[id]


@pytest.mark.parametrize(
    ("relation", "good", "bad"),
    [
        ({"at_most": 1.0}, [1, 0.5, -math.inf], [1 + 1e-12, math.inf]),
        ({"at_least": 1.0}, [1, 2, math.inf], [1 - 1e-12, -math.inf]),
        ({"close_to": 2, "atol": 0.5}, [1.5, 2.5], [1.4999, 2.5001, math.inf]),
        ({"close_to": -2, "rtol": 0.25}, [-1.5, -2.5], [-1.4999, 2]),
        ({"close_to": 2, "rtol": 0.25, "atol": 0.5}, [1, 3], [0.99, 3.01]),
        ({"between": (1, 2)}, [1, 2], [0.999, 2.001]),
    ],
)
def test_relations(relation: dict, good: list[float], bad: list[float]) -> None:
    for value in good:
        assert check(measured=value, falsified_by=("change", bad[0]), **relation)["verdict"] == "holds"
    for value in [*bad, math.nan, None]:
        assert check(measured=value, falsified_by=("change", bad[0]), **relation)["verdict"] == "fails"
    for value in [*good, math.nan, None]:
        assert check(measured=good[0], falsified_by=("change", value), **relation)["verdict"] == "error"


def test_truth_wants_a_bool() -> None:
    given = {"true": True, "falsified_by": ("change", False)}
    assert check(measured=np.bool_(True), **given)["verdict"] == "holds"
    assert check(measured=torch.tensor(False), **given)["verdict"] == "fails"
    assert check(measured=True, true=True, falsified_by=("change", True))["verdict"] == "error"
    with pytest.raises(ValueError, match="a bool is needed"):
        check(measured=1, **given)


@given(st.floats(allow_nan=True), st.floats(-1e300, 1e300), st.floats(0, 1e100))
def test_a_claim_never_holds_on_its_falsifier(value: float, target: float, atol: float) -> None:
    for relation in ({"at_most": target}, {"at_least": target}, {"close_to": target, "atol": atol or 1.0}):
        assert check(measured=value, falsified_by=("nothing", value), **relation)["verdict"] in (
            "error",
            "fails",
        )


@pytest.mark.parametrize(
    "value", [np.float32(0.5), np.array(0.5), torch.tensor(0.5, requires_grad=True), 0.5]
)
def test_scalars_of_any_library(value: Any) -> None:
    record = check(measured=value, at_most=np.float64(1), falsified_by=("change", torch.tensor(2)))
    assert (record["measured"], record["target"], record["verdict"]) == (0.5, 1, "holds")
    assert type(record["measured"]) is float
    assert type(record["falsifier"]["measured"]) is int


def test_a_tolerance_that_zero_would_pass_is_an_error() -> None:
    given = {"measured": 1e-12, "falsified_by": ("change", 5)}
    assert check(close_to=1e-12, atol=1e-10, **given)["verdict"] == "error"
    assert check(close_to=1e-12, atol=1e-13, **given)["verdict"] == "holds"
    assert check(close_to=0, atol=1e-10, **given)["verdict"] == "holds"


def test_conjectures_never_turn_red() -> None:
    given = {"kind": "conjecture", "interval": (0.1, 0.3), "falsified_by": None, "at_least": 0.15}
    assert check(measured=0.2, **given)["verdict"] == "supported"
    assert check(measured=0.1, **given)["verdict"] == "not supported"
    assert check(measured=math.nan, **given)["verdict"] == "not supported"
    assert check(measured=0.2, **(given | {"falsified_by": ("change", 0.4)}))["verdict"] == "not supported"
    truth = {"kind": "conjecture", "falsified_by": None, "true": True}
    assert check(measured=True, **truth)["verdict"] == "supported"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"id": "D3.kkt"}, "D3.kkt"),
        ({"id": "A3.KKT"}, "A3.KKT"),
        ({"id": "A3"}, "id 'A3'"),
        ({"claim": " "}, "claim"),
        ({"source": ""}, "source"),
        ({"at_most": 1, "at_least": 0}, "at_most, at_least"),
        ({"at_most": None}, "got none"),
        ({"at_most": math.inf}, "finite"),
        ({"at_most": math.nan}, "finite"),
        ({"at_most": True}, "a number"),
        ({"true": False, "measured": True}, "true=False"),
        ({"between": (2, 1)}, "low must not exceed high"),
        ({"between": 3}, "pair"),
        ({"close_to": 1}, "rtol or atol"),
        ({"close_to": 1, "rtol": -0.1}, "not negative"),
        ({"close_to": 1, "atol": math.nan}, "not negative"),
        ({"at_most": 1, "atol": 0.1}, "rtol or atol"),
        ({"kind": "guess"}, "guess"),
        ({"falsified_by": None}, "needs falsified_by"),
        ({"falsified_by": 0.3}, "what was changed, value"),
        ({"falsified_by": ("", 0.3)}, "falsified_by"),
        ({"falsified_by": ("change", np.ones(2))}, "shape .2,."),
        ({"kind": "conjecture"}, "needs interval"),
        ({"measured": np.zeros(3)}, "measured is an array of shape .3,.; reduce it"),
        ({"measured": torch.zeros(1)}, "array of shape .1,."),
        ({"measured": [1.0]}, "a list"),
        ({"measured": "0.3"}, "a str"),
        ({"measured": 1j}, "a complex"),
        ({"measured": True}, "a number is needed"),
    ],
)
def test_misuse_is_refused_at_once(given: dict, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        check(**given)


def test_the_record_is_strict_json_with_all_it_should_hold() -> None:
    record = check(measured=math.inf, falsified_by=("change", math.nan), because="the dual's round-off")
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert (record["measured"], record["falsifier"]["measured"], record["verdict"]) == ("inf", "nan", "error")
    assert set(record) == {
        *(
            "id",
            "chapter",
            "claim",
            "source",
            "kind",
            "measured",
            "relation",
            "target",
            "tolerance",
            "because",
        ),
        *("interval", "falsifier", "verdict", "fault", "seconds", "text"),
    }
    assert record["chapter"] == "03_diagonal_networks"
    assert check(close_to=1, rtol=0.1)["tolerance"] == {"rtol": 0.1, "atol": 0}


def test_the_line_reads_well(capsys: pytest.CaptureFixture[str]) -> None:
    check(claim="Gradient flow's limit satisfies the KKT conditions of $Q_k$")
    assert capsys.readouterr().out == (
        "✓ A3.kkt  Gradient flow's limit satisfies the KKT conditions of Q_k: 4.4e-15 ≤ 1e-10 "
        "(A, Theorem 1; broken by the tied network's potential: 0.31)\n"
    )
    faulty = "is not a number (NaN); falsifier F: 0.31"
    lines = {
        "✗ A3.kkt  fails: C: 0.3, not ≤ 1e-10 (S; broken by F: 0.31)": {"measured": 0.3},
        f"✗ A3.kkt  fails: C: nan, not ≤ 1e-10 (S; the measured value {faulty})": {"measured": math.nan},
        "✗ A3.kkt  fails: C: none, not ≤ 1e-10 (S; the measured value is missing; falsifier F: 0.31)": {
            "measured": None
        },
        "✗ A3.kkt  error: C: 4.4e-15 ≤ 1 (S; the falsifier does not break it; falsifier F: 0.31)": {
            "at_most": 1
        },
        "✓ A3.kkt  C: 0.9999998 ≈ 1 ± 1e-6 (S; broken by F: 0.31)": {
            "measured": 0.9999998,
            "close_to": 1,
            "atol": 1e-6,
        },
        "✓ A3.kkt  C: 1.5 in [1, 2] (S; broken by F: 0.31)": {"measured": 1.5, "between": (1, 2)},
        "✓ A3.kkt  conjecture supported: C: 0.2 ≥ 0.1 (S; interval [0.1, 0.3])": {
            **{
                "measured": 0.2,
                "at_least": 0.1,
                "kind": "conjecture",
                "interval": (0.1, 0.3),
                "falsified_by": None,
            }
        },
        "✓ A3.kkt  C: true (S; broken by F: false)": {
            "measured": True,
            "true": True,
            "falsified_by": ("F", False),
        },
    }
    for text, options in lines.items():
        assert check(**({"claim": "C", "source": "S", "falsified_by": ("F", 0.31)} | options))["text"] == text


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_the_line_shows_on_which_side_the_value_is(measured: float, bound: float) -> None:
    text = check(measured=measured, at_most=bound, falsified_by=("change", math.inf))["text"]
    value, sign, limit = re.search(r": (\S+?)(, not)? ≤ (\S+) \(A", text).groups()
    assert (float(value) <= float(limit)) == (measured <= bound) == (sign is None)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (4.44e-15, "4.4e-15"),
        (1e-10, "1e-10"),
        (0.1734, "0.173"),
        (0.5, "0.5"),
        (-0.00123, "-0.00123"),
        (12.345, "12.3"),
        (1234.5, "1234"),
        (2.5e7, "2.5e7"),
        (0.0, "0"),
        (123456, "123456"),
        (True, "true"),
        (None, "none"),
        (math.nan, "nan"),
        ("inf", "inf"),
        ([1, 0.25], "[1, 0.25]"),
        ({"a": 1.0}, "{a: 1}"),
    ],
)
def test_format_value(value: Any, text: str) -> None:
    assert format_value(value) == text


def test_checking_again_replaces_in_place() -> None:
    ledger = Ledger("x")
    for id, value in (("A1.a", 1), ("A1.b", 1), ("A1.a", 0)):
        ledger.check(id, "C", source="S", measured=value, at_most=0.5, falsified_by=("F", 2))
    assert [(record["id"], record["verdict"]) for record in ledger.records] == [
        ("A1.a", "holds"),
        ("A1.b", "fails"),
    ]
    assert repr(ledger.table()).splitlines() == [record["text"] for record in ledger.records]
    with pytest.raises(KeyError):
        ledger["A1.c"]


def run_cells(*sources: str) -> nbformat.NotebookNode:
    """The cells as an executed notebook, their displays taken from a real IPython."""
    shell, cells = InteractiveShell.instance(), []
    try:
        for source in sources:
            with capture_output() as captured:
                shell.run_cell(source).raise_error()
            cells.append(new_code_cell(source, outputs=[_output(rich) for rich in captured.outputs]))
    finally:
        InteractiveShell.clear_instance()
    notebook = new_notebook(cells=cells)
    return nbformat.reads(nbformat.writes(notebook), as_version=4)


def _output(rich: RichOutput) -> nbformat.NotebookNode:
    return new_output("display_data", data=rich.data, metadata=rich.metadata or {})


SETUP = "from regimes.ledger import Ledger\nclaims = Ledger('03')"
CHECK = "claims.check('A3.a', 'a < b & $x<y$', source='S', measured=1, at_most=2, falsified_by=('<i>F', 3))"


def test_records_travel_in_the_notebook() -> None:
    named = "claims.record('sizes', {'n': 3, 'norm': float('nan')})"
    array = "import numpy as np\nclaims.record('table', np.eye(2))"
    notebook = run_cells(SETUP, CHECK, named, array)
    (claim,) = claims_of(notebook)
    assert (claim["id"], claim["verdict"], claim["chapter"]) == ("A3.a", "holds", "03")
    assert records_of(notebook) == {"sizes": {"n": 3, "norm": "nan"}, "table": [[1, 0], [0, 1]]}
    (output,) = notebook.cells[1].outputs
    assert output.data["text/plain"] == claim["text"]
    assert set(output.data) == {CLAIM_MIME, "text/html", "text/plain"}
    assert {RECORD_MIME, "text/plain", "text/html"} == set(notebook.cells[2].outputs[0].data)


def test_the_html_is_escaped_anchored_and_typeset() -> None:
    page = run_cells(SETUP, CHECK).cells[1].outputs[0].data["text/html"]
    assert f'<span id="{anchor("A3.a")}">' in page
    assert "a &lt; b &amp; " in page and "&lt;i&gt;F" in page and "<i>" not in page
    assert r'<span class="math notranslate nohighlight">\(x&lt;y\)</span>' in page
    assert "✓ holds" in page


def test_the_table_links_every_claim() -> None:
    ledger = Ledger("x")
    assert "no claims yet" in ledger.table()._repr_html_()
    ledger.check("B2.a-b", "C", source="S", measured=3e-9, at_most=0.5, falsified_by=("F", 2), because="r")
    page = ledger.table()._repr_html_()
    assert 'href="#claim-b2-a-b"' in page and "3\u00a0×\u00a010<sup" in page and page.count("<td") == 4


def test_a_claim_made_twice_in_a_notebook_is_refused() -> None:
    with pytest.raises(ValueError, match=r"claim A3\.a is made twice"):
        claims_of(run_cells(SETUP, CHECK, CHECK))
    with pytest.raises(ValueError, match="record n is made twice"):
        records_of(run_cells(SETUP, "claims.record('n', 1)", "claims.record('n', 1)"))


def test_records_hold_what_json_holds() -> None:
    with pytest.raises(ValueError, match="a set"):
        Ledger("x").record("n", {1})
    with pytest.raises(ValueError, match="needs a name"):
        Ledger("x").record(" ", 1)
