"""The claims of all chapters together: what is wrong with them, and how they read on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from regimes.press.store import Run

_RED = {"fails": "does not hold", "error": "proves nothing"}
_ORDER = ("holds", "fails", "error", "supported", "not supported")


def faults(runs: Mapping[str, Run]) -> list[str]:
    """A line for each established claim that does not hold and each id that two chapters use."""
    told: list[str] = []
    first: dict[str, str] = {}
    for name, run in runs.items():
        for claim in run.claims:
            if claim["kind"] == "established" and claim["verdict"] in _RED:
                told.append(f"{name}: claim {claim['id']} {_RED[claim['verdict']]}\n  {claim['text']}")
            other = first.setdefault(claim["id"], name)
            if other != name:
                told.append(
                    f"{name}: claim {claim['id']} is already made by {other}; ids are unique in the book"
                )
    return told


def counts(runs: Iterable[Run]) -> str:
    """How many claims have which verdict, in one line."""
    total = Counter(claim["verdict"] for run in runs for claim in run.claims)
    return "claims: " + (", ".join(f"{total[v]} {v}" for v in _ORDER if total[v]) or "none")


def cost(run: Run) -> str:
    """Time and memory of a run, and whether it kept its budget."""
    over = f", over its budget of {run.budget:g} s" if run.seconds > run.budget else ""
    return f"{run.seconds:.1f} s{over}, {run.peak_mb:.0f} MB"


def lines(run: Run) -> str:
    """The claims of one run, a line each."""
    return "\n".join(f"  {claim['text']}" for claim in run.claims) or "  no claims"
