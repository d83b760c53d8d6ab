"""The report at the end of a run."""

import signal
from typing import TYPE_CHECKING, Any

from gemax.errors import ExitCode
from gemax.runs.progress import format_value, make_console

if TYPE_CHECKING:
    from gemax.runs.session import Outcome


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
        f"return {format_value(summary['recent_return'], '.3f')} over the last 100 episodes, "
        f"{format_value(summary['return'], '.3f')} over the last 1,000"
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
