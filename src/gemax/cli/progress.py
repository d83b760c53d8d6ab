"""Progress bars, and the report at the end of a run. Without a terminal, lines are printed instead of a bar."""

import signal
import time
from typing import TYPE_CHECKING, Any

from rich import progress as bars
from rich.console import Console
from rich.table import Column

from gemax.errors import ExitCode

if TYPE_CHECKING:
    from gemax.runs.session import Outcome


def make_console() -> Console:
    """Returns a console that prints text unchanged, because paths may contain brackets."""
    return Console(highlight=False, markup=False, emoji=False)


class ProgressBar:
    """A progress bar. Without a terminal, it prints a line every few seconds.

    Args:
        columns: Columns of the bar. The field `text` is shown after them, cut to the width of the terminal.
        seconds_between_lines: Minimum time between two lines.
        fields: Initial values of the fields of rich's task, such as `total`.
    """

    def __init__(self, *columns: bars.ProgressColumn, seconds_between_lines: float, **fields: Any) -> None:
        self._console = make_console()
        text = bars.TextColumn("{task.fields[text]}", table_column=Column(ratio=1, no_wrap=True))
        self._bar = bars.Progress(
            *columns, text, console=self._console, expand=True, disable=not self._console.is_terminal
        )
        self._task = self._bar.add_task(**{"description": "", "text": "", **fields})
        self._seconds_between_lines, self._last_line = seconds_between_lines, 0.0

    def __enter__(self):
        """Starts the bar."""
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stops the bar and leaves it on the screen."""
        self._bar.stop()

    def update(self, line: str, **fields: Any) -> None:
        """Updates the bar. Without a terminal, prints the line if the last one is old enough."""
        self._bar.update(self._task, **fields)
        now = time.monotonic()
        if not self._console.is_terminal and now - self._last_line >= self._seconds_between_lines:
            self._last_line = now
            self.log(line)

    def log(self, message: str) -> None:
        """Prints a message above the bar."""
        self._console.print(message, soft_wrap=True)


class TrainingBar(ProgressBar):
    """Shows updates, return, entropy, speed and the time left of a run."""

    def __init__(self, updates: int) -> None:
        super().__init__(
            bars.TextColumn("{task.description}"),
            bars.BarColumn(bar_width=12),
            bars.MofNCompleteColumn(),
            bars.TimeRemainingColumn(compact=True),
            seconds_between_lines=5.0,
            description="compiling",
            total=updates,
        )
        self._updates = updates

    def __enter__(self) -> "TrainingBar":
        """Starts the bar."""
        if not self._console.is_terminal:
            self.log("compiling …")
        return super().__enter__()

    def show(self, metrics: dict[str, Any]) -> None:
        """Shows the metrics of the last update."""
        update, text = metrics["update"], format_metrics(metrics)
        line = f"update {update:,} of {self._updates:,}: {text}"
        self.update(line, description="training", completed=update, text=text)


def format_metrics(metrics: dict[str, Any]) -> str:
    """Returns the most important metrics as one line. The return is that of the last 100 episodes."""
    parts = [f"return {_format(metrics['recent_return'], '.2f')}"]
    seeds = metrics.get("seeds", 1)
    if "seeds" in metrics:
        parts.append(f"{metrics['seeds_solved']} of {seeds} seeds solved")
    if metrics.get("entropy_share") is not None:
        parts.append(f"entropy {metrics['entropy_share']:.1%} of the maximum")
    speed = seeds * metrics["frames"] / max(metrics["seconds"], 1e-9)
    return " · ".join([*parts, f"{speed:,.0f} frames/s"])


def report_outcome(run: "Outcome") -> int:
    """Prints how a run ended and where its files are. Returns the exit code."""
    console = make_console()
    for line in [*_outcome(run.summary), f"Metrics, checkpoints and plots: {run.path}/"]:
        console.print(line, soft_wrap=True)
    if run.stop_signal is not None:
        name = signal.Signals(run.stop_signal).name
        console.print(f"Stopped by {name}. Continue with `gemax resume {run.path}`.", soft_wrap=True)
        return 128 + run.stop_signal
    return ExitCode.NUMERICAL if run.summary.get("frozen") else ExitCode.OK


def _outcome(summary: dict[str, Any]) -> list[str]:
    mean_return = (
        f"return {_format(summary['recent_return'], '.3f')} over the last 100 episodes, "
        f"{_format(summary['return'], '.3f')} over the last 1,000"
    )
    if "seeds" in summary:
        solved = summary["solved"]
        mean_return = f"mean {mean_return}, solved by {solved['seeds']} of {solved['of']} seeds"
    elif summary["solved_at_update"]:
        mean_return += f", solved at update {summary['solved_at_update']:,}"
    elif summary["first_crossing_update"]:
        mean_return += f", solved at update {summary['first_crossing_update']:,} and lost again"
    lines = [
        f"{summary['status']} after {summary['updates']:,} updates, {summary['frames']:,} frames, "
        f"{summary['seconds']:.0f} s: {mean_return}"
    ]
    entropy, ceiling = summary["visitation_entropy"], summary["entropy_ceiling"]
    if entropy is not None and ceiling is not None:
        lines.append(
            f"visitation entropy {entropy:.3f} of at most {ceiling:.3f} nats ({entropy / ceiling:.1%})"
        )
    if summary.get("best_update") is not None:
        lines.append(
            f"best return {summary['best_return']:.3f} at update {summary['best_update']:,}: use that policy with "
            "`--checkpoint best`"
        )
    for frozen in summary.get("frozen", []):
        terms = ", ".join(frozen["not_finite"]) or "a gradient"
        lines.append(
            f"seed {frozen['seed']} stopped learning at update {frozen['update']:,}, because these were not finite: "
            f"{terms}"
        )
    return lines


def _format(value: float | None, specification: str) -> str:
    return "–" if value is None else format(value, specification)
