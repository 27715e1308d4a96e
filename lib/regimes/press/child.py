"""One execution in a process of its own: ``python -m regimes.press.child JOB.json``.

Writes into the folder of the job: ``steps`` while it runs (a line for each cell begun), then
``notebook.ipynb`` and ``outcome.json``, or ``failure.json``. Dies with the process that started it, and takes
its kernel along.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any

import nbformat
import psutil
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpec
from nbformat import NotebookNode

from regimes.press.cells import tags, without_cell_files

PRELUDE = "__import__('regimes.press.trace', fromlist=['start']).start({root!r})"
EPILOGUE = "__import__('regimes.press.trace', fromlist=['stop']).stop({report!r})"
_PLAIN = ("text/plain", "text/html", "text/markdown", "text/latex", "image/svg+xml")


def _runtime() -> Path:
    """The folder of this process alone, made and named by the parent."""
    return Path(os.environ["JUPYTER_RUNTIME_DIR"])


class OwnKernel(AsyncKernelManager):
    """A kernel of the Python that runs the press, whatever kernels the user has registered as ``python3``.

    Over IPC there are no ports, so kernels that start together cannot take each other's; the sockets need a
    place of their own for the same reason (the default is a fixed name in the working directory).
    """

    def __init__(self, **traits: Any) -> None:
        sockets = {} if os.name == "nt" else {"transport": "ipc", "ip": str(_runtime() / "kernel")}
        super().__init__(connection_file=str(_runtime() / "kernel.json"), **sockets, **traits)

    @property
    def kernel_spec(self) -> KernelSpec:
        """This interpreter."""
        launch = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=launch, display_name="Python 3", language="python")


class Execution:
    """Papermill on one notebook, watched through nbclient's hook."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        self.folder = Path(job["folder"])
        self.failure: dict[str, Any] | None = None
        self.times: dict[int, float] = {}
        self.source = nbformat.read(self.folder / "source.ipynb", as_version=4)
        self.end = len(self.source.cells)

    def run(self) -> NotebookNode | None:
        """The executed notebook, or None with ``failure`` set."""
        import papermill
        from nbclient.exceptions import DeadKernelError

        try:
            executed = papermill.execute_notebook(
                self._with_trace(),
                None,
                parameters=self.job["changed"],
                kernel_name="python3",
                language="python",
                progress_bar=False,
                start_timeout=self.job["start_timeout"],
                cwd=self.job["cwd"],
                store_widget_state=False,
                kernel_manager_class=OwnKernel,
                on_cell_start=self._on_start,
            )
        except papermill.exceptions.PapermillExecutionError as error:
            told = {"ename": error.ename, "evalue": error.evalue, "traceback": error.traceback}
            self.failure = {"kind": "raised", "cell": self._in_source(error.cell_index)} | told
        except DeadKernelError:
            self.failure = {"kind": "died", "cell": max(self.times, default=-1)}
        except Exception as error:
            if self.times:
                raise
            self.failure = {"kind": "start", "message": f"{type(error).__name__}: {error}"}
        else:
            if self.end in self.times:
                return executed
            # Papermill lets sys.exit() pass, and with it all cells that follow.
            self.failure = {"kind": "left", "cell": max(self.times)}
        return None

    def seconds(self) -> float:
        """Wall time of the chapter's own cells."""
        return self.times[self.end] - min(self.times.values())

    def _with_trace(self) -> NotebookNode:
        notebook = copy.deepcopy(self.source)
        prelude = nbformat.v4.new_code_cell(PRELUDE.format(root=self.job["root"]))
        epilogue = nbformat.v4.new_code_cell(EPILOGUE.format(report=str(self.folder / "trace.json")))
        notebook.cells = [prelude, *notebook.cells, epilogue]
        return notebook

    def _in_source(self, index: int) -> int:
        """Where an executed cell stands in the source; -1 for the press's first, ``end`` for its last."""
        index -= 1
        if self.job["changed"]:
            injected_after = next(i for i, c in enumerate(self.source.cells) if "parameters" in tags(c))
            index -= index > injected_after
        return index

    def _on_start(self, cell: NotebookNode, cell_index: int) -> None:
        index = self._in_source(cell_index)
        if index >= 0:
            self.times.setdefault(index, time.monotonic())
            with (self.folder / "steps").open("a") as steps:
                steps.write(f"{index}\n")


def tidy(notebook: NotebookNode, root: str) -> NotebookNode:
    """The notebook as it may be published: no cells of the press, no timings, no paths of this machine."""
    notebook.cells = notebook.cells[1:-1]
    notebook.metadata.pop("papermill", None)
    notebook.metadata.pop("widgets", None)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    for cell in notebook.cells:
        for name in ("papermill", "execution"):
            cell.metadata.pop(name, None)
        if not cell.metadata.get("tags", True):
            del cell.metadata["tags"]
        for output in cell.get("outputs", []):
            _tidy_output(output, root)
    return notebook


def _tidy_output(output: NotebookNode, root: str) -> None:
    if "text" in output:
        output.text = _without_paths(output.text, root)
    for kind in _PLAIN:
        if isinstance(output.get("data", {}).get(kind), str):
            output.data[kind] = _without_paths(output.data[kind], root)


def _without_paths(text: str, root: str) -> str:
    text = without_cell_files(text, "cell")
    for path, name in (
        (sys.prefix, "python"),
        (sys.base_prefix, "python"),
        (root, "."),
        (str(Path.home()), "~"),
    ):
        if len(path) > 1:
            text = text.replace(path + os.sep, name + "/")
    return text


def findings(notebook: NotebookNode, checked: list[str]) -> dict[str, Any]:
    """The claims and records in the notebook's outputs.

    Raises:
        ValueError: one is there twice, or a claim that was checked is not there.
    """
    from regimes.ledger import claims_of, records_of

    claims = claims_of(notebook)
    lost = sorted(set(checked) - {claim["id"] for claim in claims})
    if lost:
        raise ValueError(f"{', '.join(lost)} was checked, but no output shows it (cleared or captured?)")
    return {"claims": claims, "records": records_of(notebook)}


def work(job: dict[str, Any]) -> int:
    """Execute the job; the exit status."""
    folder = Path(job["folder"])
    execution = Execution(job)
    executed = execution.run()
    if executed is not None:
        notebook = tidy(executed, job["root"])
        report = json.loads((folder / "trace.json").read_text(encoding="utf-8"))
        try:
            told = findings(notebook, report.pop("checked"))
        except ValueError as error:
            execution.failure = {"kind": "ledger", "message": str(error)}
        else:
            nbformat.write(notebook, folder / "notebook.ipynb")
            outcome = {"seconds": round(execution.seconds(), 3), **report, **told}
            (folder / "outcome.json").write_text(json.dumps(outcome), encoding="utf-8")
            return 0
    (folder / "failure.json").write_text(json.dumps(execution.failure), encoding="utf-8")
    return 1


def die_with(parent: int, runtime: Path) -> None:
    """Wait until ``parent`` is gone, then end the kernel and this process."""
    while os.getppid() == parent:
        time.sleep(0.3)
    for process in psutil.Process().children(recursive=True):
        process.kill()
    shutil.rmtree(runtime, ignore_errors=True)
    os._exit(1)


def main() -> None:
    """Read the job and work, watching the parent."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    threading.Thread(target=die_with, args=(job["parent"], _runtime()), daemon=True).start()
    sys.exit(work(job))


if __name__ == "__main__":
    main()
