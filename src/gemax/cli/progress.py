"""What a person sees while a run goes on: a line that moves, or lines where there is no terminal."""

import signal
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich import progress as bars
from rich.console import Console

if TYPE_CHECKING:
    from gemax.runs.session import Run

SECONDS_BETWEEN_LINES = 5.0


class Progress:
    """Shows updates, speed, return, entropy and the time left."""

    def __init__(self, updates: int, path: Path) -> None:
        self._console = Console()
        self._updates, self._path = updates, path
        self._bar = bars.Progress(
            bars.TextColumn("{task.description}"),
            bars.BarColumn(bar_width=20),
            bars.MofNCompleteColumn(),
            bars.TextColumn("{task.fields[words]}"),
            bars.TimeRemainingColumn(compact=True),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("compiling", total=updates, words="")
        self._said = 0.0

    def __enter__(self) -> "Progress":
        """Draws the line."""
        self._console.print(f"Run directory: {self._path}", highlight=False)
        if not self._console.is_terminal:
            self._console.print("compiling …")
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leaves the line as it is."""
        self._bar.stop()

    def show(self, metrics: dict[str, Any]) -> None:
        """Moves the line."""
        words = in_words(metrics)
        self._bar.update(self._task, description="training", completed=metrics["update"], words=words)
        now = time.monotonic()
        if not self._console.is_terminal and now - self._said >= SECONDS_BETWEEN_LINES:
            self._said = now
            self._console.print(
                f"update {metrics['update']:,} of {self._updates:,}: {words}", highlight=False
            )


def in_words(metrics: dict[str, Any]) -> str:
    """The numbers of a line."""
    words = f"return {metrics['return']:.2f}"
    if metrics.get("entropy_share") is not None:
        words += f" · entropy {metrics['entropy_share']:.1%} of the ceiling"
    speed = metrics["frames"] / max(metrics["seconds"], 1e-9)
    return f"{words} · {speed:,.0f} frames/s"


def tell_outcome(run: "Run") -> int:
    """Says how a run ended and what it left; gives the exit code."""
    console, summary = Console(), run.summary
    console.print(
        f"{summary['status']} after {summary['updates']:,} updates, {summary['frames']:,} frames, "
        f"{summary['seconds']:.0f} s: return {summary['return'] or 0.0:.3f} over the last 1,000 episodes"
        + (f", solved at update {summary['solved_at_update']:,}" if summary["solved_at_update"] else ""),
        highlight=False,
    )
    if summary["entropy_ceiling"] is not None and summary["visitation_entropy"] is not None:
        entropy, ceiling = summary["visitation_entropy"], summary["entropy_ceiling"]
        console.print(
            f"visits: entropy {entropy:.3f} of at most {ceiling:.3f} nats ({entropy / ceiling:.1%})",
            highlight=False,
        )
    console.print(f"metrics, checkpoints and pictures: {run.path}/", highlight=False)
    if run.stopped_by is None:
        return 0
    console.print(
        f"stopped by {signal.Signals(run.stopped_by).name}; go on with `gemax resume {run.path}`",
        highlight=False,
    )
    return 128 + run.stopped_by
