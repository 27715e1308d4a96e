"""Shows a bundle of MIME types where IPython runs, and its plain text where it does not."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any


def show_bundle(data: Mapping[str, Any], metadata: Mapping[str, Any] | None = None) -> None:
    """Displays one output; `data` maps MIME types to contents and holds `text/plain`."""
    if in_ipython():
        from IPython.display import display

        display(dict(data), raw=True, metadata=dict(metadata or {}))
    else:
        print(data["text/plain"])


def in_ipython() -> bool:
    """Whether this is a session of IPython, which then is already imported."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and ipython.get_ipython() is not None
