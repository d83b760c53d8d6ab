"""What a person sees while a run goes on: a line that moves, or lines where there is no terminal."""

import signal
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich import progress as bars
from rich.console import Console
from rich.table import Column

if TYPE_CHECKING:
    from gemax.runs.session import Run

SECONDS_BETWEEN_LINES = 5.0
NUMERICAL_STOP = 5
"""The exit code where a seed was not finite; see `gemax.training.loop.NumericalError`."""


class Progress:
    """Shows updates, speed, return, entropy and the time left."""

    def __init__(self, updates: int, path: Path) -> None:
        self._console = _console()
        self._updates, self._path = updates, path
        self._bar = bars.Progress(
            bars.TextColumn("{task.description}"),
            bars.BarColumn(bar_width=12),
            bars.MofNCompleteColumn(),
            # The words take what the others leave: in a narrow terminal they are cut, and nothing else.
            bars.TextColumn("{task.fields[words]}", table_column=Column(ratio=1, no_wrap=True)),
            bars.TimeRemainingColumn(compact=True),
            console=self._console,
            expand=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("compiling", total=updates, words="")
        self._said = 0.0

    def __enter__(self) -> "Progress":
        """Draws the line."""
        self.tell(f"Run directory: {self._path}")
        if not self._console.is_terminal:
            self.tell("compiling …")
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
            self.tell(f"update {metrics['update']:,} of {self._updates:,}: {words}")

    def tell(self, words: str) -> None:
        """Says something above the line, which stays whole."""
        self._console.print(words, soft_wrap=True)


def _console() -> Console:
    """Takes words as they are: a path may have brackets in it."""
    return Console(highlight=False, markup=False, emoji=False)


def in_words(metrics: dict[str, Any]) -> str:
    """The numbers of a line."""
    words = f"return {_number(metrics['return'], '.2f')}"
    seeds = metrics.get("seeds", 1)
    if "seeds" in metrics:
        words += f" · {metrics['seeds_solved']} of {seeds} seeds solved"
    if metrics.get("entropy_share") is not None:
        words += f" · entropy {metrics['entropy_share']:.1%} of the ceiling"
    speed = seeds * metrics["frames"] / max(metrics["seconds"], 1e-9)
    return f"{words} · {speed:,.0f} frames/s"


def tell_outcome(run: "Run") -> int:
    """Says how a run ended and what it left; gives the exit code."""
    console, summary = _console(), run.summary
    for words in _outcome(run.path, summary):
        console.print(words, soft_wrap=True)
    if run.stopped_by is not None:
        name = signal.Signals(run.stopped_by).name
        console.print(f"stopped by {name}; go on with `gemax resume {run.path}`", soft_wrap=True)
        return 128 + run.stopped_by
    return NUMERICAL_STOP if summary.get("frozen") else 0


def _outcome(path: Path, summary: dict[str, Any]) -> list[str]:
    earned = f"return {_number(summary['return'], '.3f')} over the last 1,000 episodes"
    if "seeds" in summary:
        solved = summary["solved"]
        earned = f"mean {earned}, solved by {solved['seeds']} of {solved['of']} seeds"
    elif summary["solved_at_update"]:
        earned += f", solved at update {summary['solved_at_update']:,}"
    lines = [
        f"{summary['status']} after {summary['updates']:,} updates, {summary['frames']:,} frames, "
        f"{summary['seconds']:.0f} s: {earned}"
    ]
    entropy, ceiling = summary["visitation_entropy"], summary["entropy_ceiling"]
    if entropy is not None and ceiling is not None:
        lines.append(f"visits: entropy {entropy:.3f} of at most {ceiling:.3f} nats ({entropy / ceiling:.1%})")
    for frozen in summary.get("frozen", []):
        terms = ", ".join(frozen["not_finite"]) or "a gradient"
        lines.append(f"seed {frozen['seed']} was frozen at update {frozen['update']:,}; not finite: {terms}")
    return [*lines, f"metrics, checkpoints and pictures: {path}/"]


def _number(value: float | None, how: str) -> str:
    return "–" if value is None else format(value, how)
