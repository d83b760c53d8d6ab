"""`gemax evaluate`: evaluates the policy of a run."""

from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

COLUMNS = ("return", "length", "coverage", "entropy", "entropy_share")


def evaluate(
    run: Annotated[Positional[Path], arg(metavar="RUN")],
    /,
    episodes: int = 1000,
    seed: int = 0,
    max_episode_steps: Annotated[int | None, arg(metavar="STEPS")] = None,
    checkpoint: Annotated[Literal["newest", "best"] | int, arg(metavar="newest|best|UPDATE")] = "newest",
    trust: bool = False,
) -> int:
    """Evaluates the policy of a run with sampled and with greedy actions: return, coverage and entropy.

    Args:
        run: The run directory.
        episodes: Number of episodes with sampled actions, and number of episodes with greedy actions.
        seed: Random seed of the episodes.
        max_episode_steps: Step limit of `gym:` environments. The default is 10,000, or the horizon if longer.
        checkpoint: The policy to evaluate: the newest one, the best one (highest mean return of 100 episodes), or
            that of an update.
        trust: Import the module of the environment although the run was made elsewhere.
    """
    from rich.table import Table

    from gemax.runs.evaluation import ACTION_MODES, evaluate_run
    from gemax.runs.progress import make_console
    from gemax.training.assemble import CustomParts

    console = make_console()
    custom = CustomParts(trust=trust)
    report = evaluate_run(run, episodes, seed, console.print, custom, max_episode_steps, checkpoint)
    seeds = report.get("seeds", [])
    rows = {f"seed {trained['seed']}, {mode}": trained[mode] for trained in seeds for mode in ACTION_MODES}
    rows |= {f"mean, {mode}" if seeds else mode: report[mode] for mode in ACTION_MODES}
    table = Table("policy", *COLUMNS[:-1], "share of ceiling", title=_title(report))
    for label, statistics in rows.items():
        table.add_row(label, *(_format(statistics.get(name)) for name in COLUMNS))
    console.print(table)
    console.print(
        f"Written to {run / 'evaluation.json'}. ± is half of a 95 % confidence interval.", soft_wrap=True
    )
    return 0


def _title(report: dict[str, Any]) -> str:
    updates = sorted({trained["update"] for trained in report.get("seeds", [report])})
    which = report["checkpoint"] if isinstance(report["checkpoint"], str) else "chosen"
    return (
        f"{report['episodes']:,} episodes, {which} checkpoint (update {', '.join(f'{u:,}' for u in updates)})"
    )


def _format(statistic: dict[str, Any] | None) -> str:
    if statistic is None:
        return "–"
    interval = f" ± {statistic['half_width']:.2g}" if "half_width" in statistic else ""
    return f"{statistic['mean']:.4g}{interval}"
