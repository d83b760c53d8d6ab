"""`gemax evaluate`: what the frozen policy of a run does."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg


def evaluate(
    run: Annotated[Positional[Path], arg(metavar="RUN")], /, episodes: int = 1000, seed: int = 0
) -> int:
    """Plays fresh episodes with the policy of a run, drawn and greedy: return, coverage and entropy.

    Args:
        run: The run directory.
        episodes: How many episodes are played, of each kind.
        seed: Which starts, rewards and actions are drawn.
    """
    from rich.console import Console
    from rich.table import Table

    from gemax.runs.report import evaluate_run

    report = evaluate_run(run, episodes, seed)
    table = Table(
        "policy",
        "return",
        "length",
        "coverage",
        "entropy",
        "share of ceiling",
        title=f"{episodes:,} episodes",
    )
    for kind in ("sampled", "greedy"):
        numbers = report[kind]
        table.add_row(
            kind,
            *(
                _with_interval(numbers.get(name))
                for name in ("return", "length", "coverage", "entropy", "entropy_share")
            ),
        )
    Console().print(table)
    Console().print(f"Written to {run / 'evaluation.json'}; ± is half of a 95 % interval.", highlight=False)
    return 0


def _with_interval(number: dict[str, float] | None) -> str:
    return "–" if number is None else f"{number['mean']:.4g} ± {number['half_width']:.2g}"
