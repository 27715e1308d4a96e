"""What may be set in a chapter: types and ranges, checked before any work starts.

The cell tagged `parameters` holds annotated literals; the next cell holds the check:

.. code-block:: python

    check_parameters(
        alpha=between(0, 1, open="low"),
        shapes=each(at_least(0)),
        activation=one_of("relu", "tanh"),
    )

The notebook runs the check; `read_check` reads the same line without running anything.
"""

from __future__ import annotations

import ast
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TYPES = {"int": int, "float": float, "str": str, "bool": bool, "list": list}


class ParameterError(ValueError):
    """A parameter, or the check of the parameters, is not as it must be."""


class Constraint(ABC):
    """The values that a parameter may take."""

    @abstractmethod
    def describe(self) -> str:
        """The allowed values in words that follow a name, such as `in (0, 1]`."""

    @abstractmethod
    def allows(self, value: Any) -> bool:
        """Whether the value is one of them; False, not an error, for a value of a foreign type."""

    def fault(self, value: Any) -> str | None:
        """What is wrong with the value, or None."""
        return None if self.allows(value) else f"{value!r} is not {self.describe()}"


@dataclass(frozen=True)
class _Between(Constraint):
    low: float
    high: float
    open: str

    def describe(self) -> str:
        left = "(" if self.open in ("low", "both") else "["
        right = ")" if self.open in ("high", "both") else "]"
        return f"in {left}{self.low}, {self.high}{right}"

    def allows(self, value: Any) -> bool:
        if not _is_number(value):
            return False
        above = value > self.low if self.open in ("low", "both") else value >= self.low
        below = value < self.high if self.open in ("high", "both") else value <= self.high
        return above and below


@dataclass(frozen=True)
class _AtLeast(Constraint):
    low: float

    def describe(self) -> str:
        return f"at least {self.low}"

    def allows(self, value: Any) -> bool:
        return _is_number(value) and value >= self.low


@dataclass(frozen=True)
class _OneOf(Constraint):
    values: tuple[Any, ...]

    def describe(self) -> str:
        return "one of " + ", ".join(map(repr, self.values))

    def allows(self, value: Any) -> bool:
        # True == 1 in Python, but not in a chapter.
        return any(
            value == known and isinstance(value, bool) == isinstance(known, bool) for known in self.values
        )


@dataclass(frozen=True)
class _Each(Constraint):
    constraint: Constraint
    at_least: int

    def describe(self) -> str:
        return f"a list of {self.at_least} or more values, each {self.constraint.describe()}"

    def allows(self, value: Any) -> bool:
        return self._is_long_enough(value) and all(map(self.constraint.allows, value))

    def _is_long_enough(self, value: Any) -> bool:
        return isinstance(value, list) and len(value) >= self.at_least

    def fault(self, value: Any) -> str | None:
        if self._is_long_enough(value):
            wrong = [item for item in value if not self.constraint.allows(item)]
            return self.constraint.fault(wrong[0]) if wrong else None
        return super().fault(value)


def between(low: float, high: float, open: str = "") -> Constraint:
    """Numbers from `low` to `high`; `open` ("low", "high" or "both") leaves ends out.

    Raises:
        ParameterError: an end is not a finite number, `low` is not below `high`, or `open` is something else.
    """
    if not (_is_number(low) and _is_number(high) and low < high):
        raise ParameterError(
            f"between({low!r}, {high!r}): two finite numbers are needed, the lower one first"
        )
    if open not in ("", "low", "high", "both"):
        raise ParameterError(f'between: open={open!r} is not one of "", "low", "high", "both"')
    return _Between(low, high, open)


def at_least(low: float) -> Constraint:
    """Finite numbers not below `low`.

    Raises:
        ParameterError: `low` is not a finite number.
    """
    if not _is_number(low):
        raise ParameterError(f"at_least({low!r}): a finite number is needed")
    return _AtLeast(low)


def one_of(*values: Any) -> Constraint:
    """Exactly these values; True and False for a switch.

    Raises:
        ParameterError: no value is given.
    """
    if not values:
        raise ParameterError("one_of(): name at least one value")
    return _OneOf(values)


def each(constraint: Constraint, at_least: int = 1) -> Constraint:
    """Lists with at least so many entries, each of which meets the constraint.

    Raises:
        ParameterError: the first argument is not a constraint, or `at_least` is not an int from 0.
    """
    if not isinstance(constraint, Constraint):
        raise ParameterError(f"each({constraint!r}): a constraint such as between(0, 1) is needed")
    if type(at_least) is not int or at_least < 0:
        raise ParameterError(f"each(..., at_least={at_least!r}): an int from 0 is needed")
    return _Each(constraint, at_least)


def check_parameters(**constraints: Constraint) -> None:
    """Checks the parameters of the calling notebook or script against their annotations and constraints.

    Values and annotations are those of the caller's module, so the call belongs right after the parameters.
    Every annotated name there needs a constraint, and every constraint an annotated name.

    Raises:
        ParameterError: lists every fault, then every parameter with its type, value and allowed values.
    """
    scope = sys._getframe(1).f_globals
    types = {name: _type_name(hint) for name, hint in scope.get("__annotations__", {}).items()}
    faults = []
    for name, constraint in constraints.items():
        if not isinstance(constraint, Constraint):
            faults.append(f"{name}={constraint!r} is not a constraint such as between(0, 1)")
        elif name not in types or name not in scope:
            faults.append(f"{name} is not a parameter; write `{name}: type = value` in the cell before")
        elif fault := fault_of(name, scope[name], types[name], constraint):
            faults.append(fault)
    faults += [
        f"{name} has no constraint in check_parameters(...)" for name in types if name not in constraints
    ]
    if faults:
        raise ParameterError("\n".join([*faults, "Parameters:", *_listing(types, scope, constraints)]))


def _listing(types: Mapping[str, str], scope: Mapping[str, Any], constraints: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, hint in types.items():
        constraint = constraints.get(name)
        allowed = f"  ({constraint.describe()})" if isinstance(constraint, Constraint) else ""
        lines.append(f"  {name}: {hint} = {scope.get(name)!r}{allowed}")
    return lines


def fault_of(name: str, value: Any, annotation: str | type, constraint: Constraint) -> str | None:
    """What is wrong with a parameter's value, as a sentence with its name, or None.

    An int is a fine float, a bool is neither; NaN and the infinities are never allowed.

    Raises:
        ParameterError: the annotation is not int, float, str, bool or list.
    """
    kind = _kind(annotation)
    if not (type(value) is kind or (kind is float and type(value) is int)):
        found = type(value).__name__
        return f"{name} = {value!r} is of type {found}; needed is {kind.__name__}, {constraint.describe()}"
    items = value if isinstance(value, list) else [value]
    if any(isinstance(item, float) and not math.isfinite(item) for item in items):
        return f"{name} = {value!r}: only finite numbers are allowed, {constraint.describe()}"
    fault = constraint.fault(value)
    return f"{name} = {value!r}: {fault}" if fault else None


def parse_value(text: str, annotation: str | type) -> Any:
    """The value that a command line's or a YAML file's text stands for: `1e-3`, `[0, 0.5]`, `true`.

    Raises:
        ParameterError: the text is no such value, or the annotation is not int, float, str, bool or list.
    """
    kind = _kind(annotation)
    try:
        return _READERS[kind](text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        example = {int: "20", float: "1e-3", bool: "true", list: "[0, 0.5]"}[kind]
        raise ParameterError(f"{text!r} is not of type {kind.__name__} (written like {example})") from None


def _read_bool(text: str) -> bool:
    # index raises ValueError for any other word
    return bool(("false", "true").index(text.strip().lower()))


def _read_list(text: str) -> list[Any]:
    value = ast.literal_eval(text.strip())
    if not isinstance(value, list):
        raise ValueError
    return value


_READERS = {int: int, float: float, str: str, bool: _read_bool, list: _read_list}


def read_check(source: str) -> dict[str, Constraint]:
    """The constraints in a cell's call of `check_parameters`, read without running the cell.

    Raises:
        ParameterError: not exactly one call, or an argument that is not a constraint with literal arguments.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise ParameterError(
            f"the cell with check_parameters(...) is not Python: line {error.lineno}"
        ) from error
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and _called(n) == "check_parameters"]
    if len(calls) != 1:
        raise ParameterError(f"the cell must call check_parameters(...) once; it does so {len(calls)} times")
    (call,) = calls
    if call.args or any(keyword.arg is None for keyword in call.keywords):
        raise ParameterError(
            "check_parameters(...) takes one name=constraint for each parameter, nothing else"
        )
    return {str(keyword.arg): _read_constraint(str(keyword.arg), keyword.value) for keyword in call.keywords}


_CONSTRUCTORS = {"between": between, "at_least": at_least, "one_of": one_of, "each": each}


def _read_constraint(name: str, node: ast.expr) -> Constraint:
    text = ast.unparse(node)
    make = _CONSTRUCTORS.get(_called(node) or "")
    if make is None or not isinstance(node, ast.Call):
        raise ParameterError(f"{name}={text} is not one of {', '.join(_CONSTRUCTORS)}")
    try:
        # each(...) holds another constraint in the first place, all else is literal.
        first = [_read_constraint(name, arg) for arg in node.args[:1]] if make is each else []
        args = [ast.literal_eval(arg) for arg in node.args[len(first) :]]
        options = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords}
        return make(*first, *args, **options)
    except ParameterError as error:
        raise ParameterError(f"{name}={text}: {error}") from error
    except (ValueError, TypeError) as error:
        raise ParameterError(f"{name}={text}: literal arguments are needed, as in between(0, 1)") from error


def _called(node: ast.AST) -> str | None:
    function = getattr(node, "func", None)
    return getattr(function, "id", None) or getattr(function, "attr", None)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _type_name(annotation: str | type) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _kind(annotation: str | type) -> type:
    name = _type_name(annotation)
    if name not in TYPES:
        raise ParameterError(f"the type {name} is not one of {', '.join(TYPES)}")
    return TYPES[name]
