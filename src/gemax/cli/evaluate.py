"""`gemax evaluate`: what the frozen policy of a run does."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg


def evaluate(
    run: Annotated[Positional[Path], arg(metavar="RUN")],
    /,
    episodes: int = 1000,
    seed: int = 0,
    longest: Annotated[int | None, arg(metavar="STEPS")] = None,
) -> int:
    """Plays fresh episodes with the policy of a run, drawn and greedy: return, coverage and entropy.

    Args:
        run: The run directory.
        episodes: How many episodes are played, of each kind.
        seed: Which starts, rewards and actions are drawn.
        longest: Steps after which an episode of a gym: environment is cut; by default 10,000, or its horizon.
    """
    from rich.console import Console
    from rich.table import Table

    from gemax.runs.report import KINDS, evaluate_run

    console = Console(highlight=False, markup=False)
    report = evaluate_run(run, episodes, seed, tell=console.print, longest=longest)
    names = ("return", "length", "coverage", "entropy", "entropy_share")
    table = Table("policy", *names[:-1], "share of ceiling", title=f"{episodes:,} episodes")
    for trained in report.get("seeds", []):
        for kind in KINDS:
            table.add_row(
                f"seed {trained['seed']}, {kind}", *(_in_words(trained[kind].get(n)) for n in names)
            )
    for kind in KINDS:
        label = f"mean, {kind}" if "seeds" in report else kind
        table.add_row(label, *(_in_words(report[kind].get(name)) for name in names))
    console.print(table)
    console.print(f"Written to {run / 'evaluation.json'}; ± is half of a 95 % interval.")
    return 0


def _in_words(number: dict[str, float] | None) -> str:
    if number is None:
        return "–"
    interval = f" ± {number['half_width']:.2g}" if "half_width" in number else ""
    return f"{number['mean']:.4g}{interval}"
