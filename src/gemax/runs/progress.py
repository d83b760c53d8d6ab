"""Progress bars. Without a terminal, lines are printed instead of a bar; notebooks show one line that changes."""

import time
from typing import Any

from rich import progress as bars
from rich.console import Console
from rich.table import Column

BAR_WIDTH = 20
"""Characters of the bar in a notebook."""


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
        self._updates, self._has_logged = updates, False

    def log(self, message: str) -> None:
        """Prints a message above the bar. Without a terminal, the first one is followed by a sign of life."""
        super().log(message)
        if not self._console.is_terminal and not self._has_logged:
            super().log("compiling …")
        self._has_logged = True

    def show(self, metrics: dict[str, Any]) -> None:
        """Shows the metrics of the last update."""
        update, text = metrics["update"], format_metrics(metrics)
        line = f"update {update:,} of {self._updates:,}: {text}"
        self.update(line, description="training", completed=update, text=text)


def format_metrics(metrics: dict[str, Any]) -> str:
    """Returns the most important metrics as one line. The return is that of the last 100 episodes."""
    parts = [f"return {format_value(metrics['recent_return'], '.2f')}"]
    seeds = metrics.get("seeds", 1)
    if "updates_of_seeds" in metrics:
        parts.append(f"seeds at {', '.join(f'{update:,}' for update in metrics['updates_of_seeds'])}")
    if "seeds_solved" in metrics:
        parts.append(f"{metrics['seeds_solved']} of {seeds} seeds solved")
    if metrics.get("entropy_share") is not None:
        parts.append(f"entropy {metrics['entropy_share']:.1%} of the maximum")
    speed = metrics.get("frames_per_second", seeds * metrics["frames"] / max(metrics["seconds"], 1e-9))
    return " · ".join([*parts, f"{speed:,.0f} frames/s"])


class NotebookBar:
    """Shows the progress of a run in a notebook, as one line that changes. Needs no widgets.

    Args:
        updates: Number of updates of the run.
    """

    def __init__(self, updates: int) -> None:
        self._updates = updates

    def __enter__(self) -> "NotebookBar":
        """Shows the line."""
        from IPython.display import display  # pyright: ignore[reportMissingImports] (notebooks have it)

        self._handle: Any = display(_plain("compiling …"), raw=True, display_id=True)
        return self

    def __exit__(self, *error: object) -> None:
        """Leaves the last line."""

    def show(self, metrics: dict[str, Any]) -> None:
        """Shows the metrics of the last update."""
        done = round(BAR_WIDTH * metrics["update"] / self._updates)
        bar = "█" * done + "░" * (BAR_WIDTH - done)
        line = f"{bar} {metrics['update']:,} of {self._updates:,} updates · {format_metrics(metrics)}"
        self._handle.update(_plain(line), raw=True)

    def log(self, message: str) -> None:
        """Prints a message below the line."""
        print(message)


def training_bar(updates: int) -> TrainingBar | NotebookBar:
    """Returns the bar for where the program runs: a terminal, a file or a notebook."""
    return NotebookBar(updates) if make_console().is_jupyter else TrainingBar(updates)


def _plain(text: str) -> dict[str, str]:
    return {"text/plain": text}


def format_value(value: float | None, specification: str) -> str:
    """Returns a number as text, and a dash for an unknown one."""
    return "–" if value is None else format(value, specification)
