"""What a run really read: files, modules and versions, noted inside the kernel while the chapter runs.

As a compiler writes down the headers that it opened, the kernel reports the files below the book's root that
it read, each with the hash of what was read, so that an edit made during a run cannot be taken for what ran.
Not seen: files opened by C code without Python's ``open``, and what worker processes read.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import sys
import threading
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
_OUTSIDE = "<regimes>/"
_IGNORED = {"_build", "__pycache__", "site-packages"}


def label(path: str | os.PathLike[str], root: Path) -> str | None:
    """The name under which a file is noted, or None for a file that is none of the run's business.

    Files below ``root`` go by their relative path, the library's modules by ``<regimes>/module.py`` where it
    is installed elsewhere. The press, notebooks, caches, hidden folders and environments do not count.
    """
    path = Path(os.path.abspath(path))
    if path.is_relative_to(PACKAGE / "press"):
        return None
    if path.is_relative_to(root):
        parts = path.relative_to(root).parts
        ignored = any(
            part in _IGNORED or part.startswith(".") or part.endswith(".egg-info") for part in parts
        )
        prefix = Path(sys.prefix)
        environment = prefix.is_relative_to(root) and prefix != root and path.is_relative_to(prefix)
        return None if ignored or environment or path.suffix in (".ipynb", ".pyc") else "/".join(parts)
    return _OUTSIDE + path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else None


def locate(name: str, root: Path) -> Path:
    """The file that ``label`` gave this name to."""
    return PACKAGE / name.removeprefix(_OUTSIDE) if name.startswith(_OUTSIDE) else root / name


def digest(path: Path) -> str:
    """SHA-256 of a file's content, in hex.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Trace:
    """Notes of one kernel: the hash of each file when it was first read."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: dict[str, str] = {}
        self._written: set[str] = set()
        # Each thread its own: opening a file in order to hash it raises the same event again.
        self._hashing = threading.local()

    def install(self) -> None:
        """Begin to listen; there is no end, since Python cannot remove an audit hook."""
        sys.addaudithook(self._on_event)
        self._read_modules_from_source()

    def _on_event(self, event: str, args: tuple[Any, ...]) -> None:
        if event != "open" or getattr(self._hashing, "now", False):
            return
        file, mode, flags = args
        if not isinstance(file, str | bytes | os.PathLike):
            return
        self._hashing.now = True
        try:
            self._note(Path(os.fsdecode(file)), _reads(mode, flags))
        finally:
            self._hashing.now = False

    def _note(self, path: Path, reads: bool) -> None:
        name = label(path, self.root)
        if name is None or name in self.files or name in self._written:
            return
        if not reads:
            # What the chapter itself wrote before it read it is no input.
            self._written.add(name)
        elif path.is_file():
            self.files[name] = digest(path)

    def _read_modules_from_source(self) -> None:
        # Bytecode caches go by second and size, so a quick edit can leave a stale one. Reading the source
        # here, what runs is what the audit hook has seen and hashed.
        usual, trace = SourceFileLoader.get_code, self

        def get_code(loader: SourceFileLoader, fullname: str) -> Any:
            path = loader.get_filename(fullname)
            if label(os.path.realpath(path), trace.root) is None:
                return usual(loader, fullname)
            return loader.source_to_code(loader.get_data(path), path)

        SourceFileLoader.get_code = get_code  # type: ignore[method-assign]

    def report(self) -> dict[str, Any]:
        """Files with hashes, versions of imported distributions, peak memory in MB, claims checked."""
        self._hashing.now = True
        for module in list(sys.modules.values()):
            # Modules that were there before the trace began, extension modules among them.
            path = getattr(module, "__file__", None)
            known = isinstance(path, str) and os.path.isabs(path)  # torch._ops calls itself `_ops.py`
            name = label(os.path.realpath(path), self.root) if known else None
            if name is not None and name not in self.files:
                self.files[name] = digest(locate(name, self.root))
        ledger = sys.modules.get("regimes.ledger")
        return {
            "files": dict(sorted(self.files.items())),
            "versions": _versions(),
            "peak_mb": _peak_mb(),
            "checked": sorted(ledger.CHECKED) if ledger else [],
        }


def _reads(mode: str | None, flags: int) -> bool:
    if mode is not None:
        return "r" in mode or "+" in mode
    return flags & (os.O_WRONLY | os.O_TRUNC) == 0


def _versions() -> dict[str, str]:
    loaded = {name.partition(".")[0] for name in sys.modules}
    known = importlib.metadata.packages_distributions()
    names = {dist for top in loaded for dist in known.get(top, []) if dist != "regimes"}
    return {name: importlib.metadata.version(name) for name in sorted(names, key=str.lower)}


def _peak_mb() -> float:
    try:
        import resource
    except ImportError:  # Windows
        import psutil

        return psutil.Process().memory_info().peak_wset / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


_current: Trace | None = None


def start(root: str) -> None:
    """First thing in the kernel: begin to note what is read."""
    global _current
    _current = Trace(Path(root))
    _current.install()
    _count_from_one()


def _count_from_one() -> None:
    """Let the chapter's first cell be number 1; the present one counts itself when it ends."""
    from IPython import get_ipython

    shell = get_ipython()

    def reset(_: object) -> None:
        shell.execution_count = 1
        shell.events.unregister("post_run_cell", reset)

    shell.events.register("post_run_cell", reset)


def stop(path: str) -> None:
    """Last thing in the kernel: write the report to ``path`` as JSON."""
    assert _current is not None, "trace.start comes first"
    Path(path).write_text(json.dumps(_current.report()), encoding="utf-8")
