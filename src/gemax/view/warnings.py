"""The warnings of a run, found again in its metrics by the monitors that log them during training."""

from pathlib import Path
from typing import Any

from gemax.runs.collapse_monitor import CollapseMonitor, ReturnMonitor
from gemax.view.metric_lines import read_records

MAX_LINES = 2_000


def warnings_of(run: Path, metrics: Path) -> list[str]:
    """Returns the warnings, each with its update. A damaged line has none."""
    monitors, warnings = (CollapseMonitor(), ReturnMonitor(run)), []
    for line in read_records(metrics, MAX_LINES):
        if line is None:
            continue
        for monitor in monitors:
            warnings += [f"Update {line['update']:,}: {text}" for text in _new_warnings(monitor, line)]
        if line.get("consecutive_nonfinite"):
            warnings.append(f"Update {line['update']:,}: the update was not finite and was skipped.")
    return warnings


def _new_warnings(monitor: CollapseMonitor | ReturnMonitor, line: dict[str, Any]) -> list[str]:
    try:
        return monitor.new_warnings(line)
    except (KeyError, TypeError, ValueError):
        # Lines of another version may lack a metric.
        return []
