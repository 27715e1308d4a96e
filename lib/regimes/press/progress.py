"""How a build shows itself while it runs: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tqdm import tqdm

from regimes.press.failures import Failure
from regimes.press.ledgers import cost, counts
from regimes.press.store import Run

if TYPE_CHECKING:
    from regimes.press.execute import Job


class Progress:
    """Announces the start and the end of each job, and on a terminal the cell that it is in."""

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0
        self.live = sys.stderr.isatty()
        self._bars: dict[str, tqdm] = {}

    def begin(self, job: Job) -> None:
        """A child has been started."""
        name = job.chapter.name
        if not self.live:
            self._line(f"{name}: running (budget {job.chapter.budget:g} s)")
            return
        taken = {abs(bar.pos) for bar in self._bars.values()}
        slot = next(slot for slot in range(self.total) if slot not in taken)
        cells = len(job.chapter.notebook.cells)
        form = "{desc} {bar} cell {n_fmt}/{total_fmt} {elapsed}"
        self._bars[name] = tqdm(total=cells, desc=name, position=slot, leave=False, bar_format=form)

    def step(self, job: Job, cell: int) -> None:
        """The child is in this cell of its notebook."""
        bar = self._bars.get(job.chapter.name)
        if bar is not None:
            bar.n = max(cell, 0)
            bar.refresh()

    def end(self, job: Job, ended: Run | Failure) -> None:
        """The child has ended."""
        self.done += 1
        bar = self._bars.pop(job.chapter.name, None)
        if bar is not None:
            bar.close()
        result = f"{cost(ended)}; {counts([ended])}" if isinstance(ended, Run) else "FAILED"
        self._line(f"[{self.done}/{self.total}] {job.chapter.name}: {result}")

    def _line(self, text: str) -> None:
        tqdm.write(text, file=sys.stderr)
        sys.stderr.flush()
