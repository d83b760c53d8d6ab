"""The progress bar of commands that train many runs."""

import time
from typing import TYPE_CHECKING

from rich import progress as bars

from gemax.runs.progress import ProgressBar

if TYPE_CHECKING:
    from gemax.experiments.store import Progress


class RunsBar(ProgressBar):
    """Shows the progress of all runs and the time left."""

    def __init__(self) -> None:
        super().__init__(
            bars.TextColumn("{task.description} runs"),
            bars.BarColumn(bar_width=20),
            bars.TaskProgressColumn(),
            bars.TimeElapsedColumn(),
            bars.TextColumn("{task.fields[left]}"),
            seconds_between_lines=30.0,
            total=None,
            left="",
        )
        self._started = time.monotonic()

    def show(self, progress: "Progress") -> None:
        """Shows the progress of the runs."""
        finished, running = f"{progress.num_finished} of {progress.num_runs}", ", ".join(progress.running)
        left = time_left(progress.fraction, time.monotonic() - self._started)
        line = f"{finished} runs, {progress.fraction:.0%}, {left}: {running}"
        self.update(
            line, description=finished, total=1.0, completed=progress.fraction, left=left, text=running
        )


def time_left(fraction: float, seconds: float) -> str:
    """Estimates the time left from the finished fraction. The first per cent is too early for an estimate."""
    if fraction < 0.01:
        return "time left not known yet"
    minutes = seconds * (1 / fraction - 1) / 60
    return f"{minutes / 60:.1f} h left" if minutes >= 90 else f"{minutes:.0f} min left"
