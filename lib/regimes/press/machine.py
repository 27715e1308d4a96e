"""What the press must know of the machine and the checkout that it runs in."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def commit_of(root: Path) -> str | None:
    """The commit of a checkout, with `-dirty` when its files differ from it; None where git knows none."""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
