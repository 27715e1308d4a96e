"""One claim as a record: what makes it well formed, and when it holds."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

_ID = re.compile(r"[ABCX]\d*\.[a-z0-9_-]+")


def make_claim(
    id: str,
    claim: str,
    relations: Mapping[str, Any],
    *,
    source: str,
    measured: Any,
    rtol: float,
    atol: float,
    because: str | None,
    falsified_by: tuple[str, Any] | None,
    kind: str,
    interval: tuple[float, float] | None,
) -> dict[str, Any]:
    """The record of a claim with its verdict; `relations` maps the given ones to their targets.

    Raises:
        ValueError: the claim is not well formed.
    """
    relation, target = _relation(_checked_id(id), relations)
    record = {
        "id": id,
        "claim": _sentence(id, "claim", claim),
        "source": _sentence(id, "source", source),
        "kind": _kind(id, kind),
        "measured": _measured(id, "measured", measured, relation),
        "relation": relation,
        "target": target,
        "tolerance": _tolerance(id, relation, rtol, atol),
        "because": because,
        "interval": None if interval is None else _pair(id, "interval", interval),
        "falsifier": _falsifier(id, falsified_by, relation),
    }
    _demand_evidence(record)
    verdict, fault = _verdict(record)
    return record | {"verdict": verdict, "fault": fault}


def holds(record: Mapping[str, Any], value: float | bool | str | None) -> bool:
    """Whether the value meets the record's relation; NaN and None never do. Stored numbers may be strings."""
    relation, target = record["relation"], record["target"]
    if value is None or relation == "true":
        return value is True
    if relation == "close_to":
        low, high = limits(record)
    else:
        low, high = {"at_most": (-math.inf, target), "at_least": (target, math.inf)}.get(relation, target)
    return low <= float(value) <= high


def limits(record: Mapping[str, Any]) -> tuple[float, float]:
    """The ends of the range that a claim with `close_to` allows."""
    target, tolerance = record["target"], record["tolerance"]
    width = tolerance["atol"] + tolerance["rtol"] * abs(target)
    return target - width, target + width


def _checked_id(id: str) -> str:
    if not (isinstance(id, str) and _ID.fullmatch(id)):
        raise ValueError(
            f"the id {id!r} is not a paper's letter (A, B, C, or X), a number and a word, as in A3.kkt"
        )
    return id


def _sentence(id: str, name: str, text: str) -> str:
    if not (isinstance(text, str) and text.strip()):
        raise ValueError(f"{id}: {name} is {text!r}; it must say something")
    return " ".join(text.split())


def _kind(id: str, kind: str) -> str:
    if kind not in ("established", "conjecture"):
        raise ValueError(f"{id}: kind {kind!r} is not 'established' or 'conjecture'")
    return kind


def _relation(id: str, given: Mapping[str, Any]) -> tuple[str, Any]:
    if len(given) != 1:
        found = ", ".join(given) or "none"
        raise ValueError(f"{id}: give one of at_most, at_least, close_to, between, true; got {found}")
    ((relation, target),) = given.items()
    if relation == "true":
        if target is not True:
            raise ValueError(f"{id}: true={target!r}; state the claim so that it is true=True")
        return relation, True
    target = _pair(id, relation, target) if relation == "between" else _number(id, relation, target)
    if not all(map(math.isfinite, target if isinstance(target, list) else [target])):
        raise ValueError(f"{id}: {relation}={target!r}; a bound must be finite")
    return relation, target


def _pair(id: str, name: str, pair: Any) -> list[float]:
    try:
        low, high = pair
    except (TypeError, ValueError):
        raise ValueError(f"{id}: {name}={pair!r}; a pair (low, high) is needed") from None
    low, high = _number(id, name, low), _number(id, name, high)
    if low > high:
        raise ValueError(f"{id}: {name}={pair!r}; low must not exceed high")
    return [low, high]


def _tolerance(id: str, relation: str, rtol: Any, atol: Any) -> dict[str, float] | None:
    sizes = {"rtol": _number(id, "rtol", rtol), "atol": _number(id, "atol", atol)}
    if not all(math.isfinite(size) and size >= 0 for size in sizes.values()):
        raise ValueError(f"{id}: rtol={rtol!r}, atol={atol!r}; tolerances are finite and not negative")
    if (relation == "close_to") != any(sizes.values()):
        raise ValueError(
            f"{id}: rtol or atol belong to close_to and to nothing else; the relation is {relation}"
        )
    return sizes if relation == "close_to" else None


def _falsifier(id: str, falsified_by: Any, relation: str) -> dict[str, Any] | None:
    if falsified_by is None:
        return None
    try:
        what, value = falsified_by
    except (TypeError, ValueError):
        raise ValueError(
            f"{id}: falsified_by={falsified_by!r}; (what was changed, value) is needed"
        ) from None
    return {
        "what": _sentence(id, "falsified_by", what),
        "measured": _measured(id, "falsified_by", value, relation),
    }


def _measured(id: str, name: str, value: Any, relation: str) -> float | bool | None:
    value = _scalar(id, name, value)
    if value is not None and isinstance(value, bool) != (relation == "true"):
        raise ValueError(
            f"{id}: {name} is {value!r}; {'a bool' if relation == 'true' else 'a number'} is needed"
        )
    return value


def _number(id: str, name: str, value: Any) -> float:
    value = _scalar(id, name, value)
    if value is None or isinstance(value, bool):
        raise ValueError(f"{id}: {name} is {value!r}; a number is needed")
    return value


def _scalar(id: str, name: str, value: Any) -> float | bool | None:
    shape = getattr(value, "shape", ())
    if len(shape):
        raise ValueError(f"{id}: {name} is an array of shape {tuple(shape)}; reduce it to one number first")
    if getattr(value, "mask", False):
        raise ValueError(f"{id}: {name} is masked; there is no value to check")
    if hasattr(value, "item"):
        value = value.item()  # numpy's and torch's scalars
    if value is None or isinstance(value, bool):
        return value
    if not isinstance(value, Real):
        raise ValueError(f"{id}: {name} is {value!r}, a {type(value).__name__}; a number or a bool is needed")
    return int(value) if isinstance(value, Integral) else float(value)


def _demand_evidence(record: Mapping[str, Any]) -> None:
    id, numeric = record["id"], record["relation"] != "true"
    if record["kind"] == "established" and record["falsifier"] is None:
        raise ValueError(f"{id}: an established claim needs falsified_by=(what was changed, the value then)")
    if record["kind"] == "conjecture" and numeric and record["interval"] is None:
        raise ValueError(f"{id}: a conjecture about a number needs interval=(low, high)")


def _verdict(record: Mapping[str, Any]) -> tuple[str, str | None]:
    passed, fault = holds(record, record["measured"]), _fault(record)
    if record["kind"] == "conjecture":
        return ("supported" if passed and not fault else "not supported"), fault
    if fault:
        return "error", fault
    return ("holds" if passed else "fails"), _unmeasured("the measured value", record["measured"])


def _fault(record: Mapping[str, Any]) -> str | None:
    """Why the claim proves nothing whatever was measured, or None."""
    target, tolerance, falsifier = record["target"], record["tolerance"], record["falsifier"]
    if tolerance and target and holds(record, 0.0):
        return "the tolerance is so wide that 0 would pass"
    if falsifier is None:
        return None
    if holds(record, falsifier["measured"]):
        return "the falsifier does not break it"
    return _unmeasured("the falsifier's value", falsifier["measured"])


def _unmeasured(what: str, value: float | bool | None) -> str | None:
    if value is None:
        return f"{what} is missing"
    return f"{what} is not a number (NaN)" if math.isnan(value) else None
