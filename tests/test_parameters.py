"""Types and ranges of parameters, executed and read from source."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regimes.parameters import (
    ParameterError,
    at_least,
    between,
    check_parameters,
    each,
    fault_of,
    one_of,
    parse_value,
    read_check,
)

SOURCE = """
alpha: float = 0.1
steps: int = 20
shapes: list = [0.0, 0.5]
activation: str = "relu"
biased: bool = False
"""
CHECK = """
check_parameters(
    alpha=between(0, 1, open="low"), steps=at_least(1), shapes=each(between(-1, 1), at_least=2),
    activation=one_of("relu", "tanh"), biased=one_of(True, False),
)
"""


def run(source: str) -> dict[str, Any]:
    """Executes cells in one scope, as a kernel does."""
    scope: dict[str, Any] = {
        "check_parameters": check_parameters,
        "between": between,
        "at_least": at_least,
        "one_of": one_of,
        "each": each,
    }
    exec(compile(source, "cell", "exec", dont_inherit=True), scope)
    return scope


@pytest.mark.parametrize(
    ("open", "inside", "outside"),
    [
        ("", [0, 0.5, 1], [-1e-9, 1 + 1e-9]),
        ("low", [1e-300, 1], [0, 1.1]),
        ("high", [0], [1]),
        ("both", [0.5], [0, 1]),
    ],
)
def test_between_takes_its_ends_as_told(open: str, inside: list[float], outside: list[float]) -> None:
    constraint = between(0, 1, open)
    assert [constraint.fault(x) for x in inside] == [None] * len(inside)
    assert all(constraint.fault(x) for x in outside)


def test_constraints_describe_themselves() -> None:
    assert between(0, 1, open="low").describe() == "in (0, 1]"
    assert between(0, 1, open="high").describe() == "in [0, 1)"
    assert at_least(3).describe() == "at least 3"
    assert one_of("relu", 2).describe() == "one of 'relu', 2"
    assert each(at_least(0), at_least=2).describe() == "a list of 2 or more values, each at least 0"


def test_one_of_does_not_take_true_for_one() -> None:
    assert one_of(0, 1).fault(True)
    assert one_of(True, False).fault(1)
    assert one_of(1).fault(1.0) is None


def test_each_names_the_wrong_entry() -> None:
    assert each(between(0, 1)).fault([0.5, 7]) == "7 is not in [0, 1]"
    assert each(at_least(0)).fault([])
    assert each(at_least(0), at_least=0).fault([]) is None
    assert each(at_least(0)).fault(["1e-3"])
    assert each(at_least(0)).fault([True])


@pytest.mark.parametrize(
    "make",
    [
        lambda: between(1, 0),
        lambda: between(0, math.inf),
        lambda: between(0, 1, open="left"),
        lambda: between("0", 1),
        lambda: at_least(math.nan),
        lambda: one_of(),
        lambda: each(3),
        lambda: each(at_least(0), at_least=-1),
    ],
)
def test_ill_posed_constraints_are_refused(make: Any) -> None:
    with pytest.raises(ParameterError):
        make()


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (True, "float"),
        (True, "int"),
        (1.0, "int"),
        ("1", "int"),
        (1, "str"),
        (0, "bool"),
        ((1, 2), "list"),
        (None, "float"),
        (math.nan, "float"),
        (math.inf, "float"),
        ([math.nan], "list"),
    ],
)
def test_wrong_types_and_numbers_that_are_none_are_refused(value: Any, annotation: str) -> None:
    fault = fault_of("alpha", value, annotation, one_of(value))
    assert fault is not None
    assert repr(value) in fault and "alpha" in fault


def test_an_int_is_a_fine_float_and_annotations_may_be_types() -> None:
    assert fault_of("alpha", 1, float, between(0, 1)) is None
    assert fault_of("alpha", 1, "float", between(0, 1)) is None
    assert fault_of("alpha", 2, "float", between(0, 1)) == "alpha = 2: 2 is not in [0, 1]"
    with pytest.raises(ParameterError, match="complex"):
        fault_of("alpha", 1j, complex, at_least(0))


def test_good_parameters_pass_in_the_callers_scope() -> None:
    run(SOURCE + CHECK)


def test_papermills_values_are_seen() -> None:
    with pytest.raises(ParameterError) as caught:
        run(SOURCE + "alpha = 3\nsteps = 1.5\nactivation = 'relo'\n" + CHECK)
    message = str(caught.value)
    for told in (
        "alpha = 3: 3 is not in (0, 1]",
        "steps = 1.5 is of type float",
        "'relo' is not one of 'relu', 'tanh'",
    ):
        assert told in message
    assert "  shapes: list = [0.0, 0.5]  (a list of 2 or more values, each in [-1, 1])" in message


def test_names_must_agree_with_the_parameters() -> None:
    with pytest.raises(ParameterError, match="alhpa is not a parameter"):
        run("alpha: float = 1.0\ncheck_parameters(alpha=at_least(0), alhpa=at_least(0))")
    with pytest.raises(ParameterError, match="alpha has no constraint"):
        run("alpha: float = 1.0\ncheck_parameters()")
    with pytest.raises(ParameterError, match="alpha is not a parameter"):
        run("alpha = 1.0\ncheck_parameters(alpha=at_least(0))")
    with pytest.raises(ParameterError, match="alpha=3 is not a constraint"):
        run("alpha: float = 1.0\ncheck_parameters(alpha=3)")


def test_the_check_reads_the_same_from_source() -> None:
    read = read_check("import numpy as np\nfrom regimes import parameters\n" + CHECK)
    assert read == {
        "alpha": between(0, 1, open="low"),
        "steps": at_least(1),
        "shapes": each(between(-1, 1), at_least=2),
        "activation": one_of("relu", "tanh"),
        "biased": one_of(True, False),
    }
    assert read_check("parameters.check_parameters(a=parameters.at_least(-1))") == {"a": at_least(-1)}


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("x = 1", "0 times"),
        ("check_parameters(a=at_least(0))\ncheck_parameters()", "2 times"),
        ("check_parameters(a=at_least(n))", "literal"),
        ("check_parameters(a=at_least())", "literal"),
        ("check_parameters(a=near(0))", "a=near.0. is not one of between"),
        ("check_parameters(a=3)", "a=3"),
        ("check_parameters(a=each(3))", "a=3"),
        ("check_parameters(a=between(1, 0))", "the lower one first"),
        ("check_parameters(**limits)", "nothing else"),
        ("check_parameters(at_least(0))", "nothing else"),
        ("check_parameters(a=", "not Python"),
    ],
)
def test_a_check_that_cannot_be_read_is_refused(source: str, told: str) -> None:
    with pytest.raises(ParameterError, match=told):
        read_check(source)


def test_text_becomes_values() -> None:
    assert parse_value("1e-3", "float") == 0.001
    assert parse_value("20", int) == 20
    assert parse_value("[0, 0.5]", "list") == [0, 0.5]
    assert parse_value("True", "bool") is True
    assert parse_value("false", bool) is False
    assert parse_value("1e-3", "str") == "1e-3"


@pytest.mark.parametrize(
    ("text", "annotation"),
    [
        ("1.5", "int"),
        ("1e3", "int"),
        ("x", "float"),
        ("1", "bool"),
        ("0, 1", "list"),
        ("[x]", "list"),
        ("[", "list"),
    ],
)
def test_text_of_another_type_is_refused(text: str, annotation: str) -> None:
    with pytest.raises(ParameterError, match="is not of type " + annotation):
        parse_value(text, annotation)


@given(st.floats(allow_nan=False) | st.integers(-(10**6), 10**6) | st.booleans() | st.lists(st.integers()))
def test_reading_undoes_writing(value: Any) -> None:
    assert parse_value(repr(value), type(value)) == value
