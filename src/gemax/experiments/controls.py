"""Controls: does GEM win in MountainCar by its reward, or by the mean m of its reward?

GEM's reward has the mean m = 0.7 per step there, which rewards long episodes. The rewards of the baselines are not
shifted. Here every method has the same mean reward, and `none` has nothing but m.
"""

from gemax.envs.registry import ENVS
from gemax.experiments import claims, measures, plots
from gemax.experiments.experiment import Experiment, FigureResult, Runs
from gemax.rewards.registry import METHODS

ENV_ID = "mountain-car"
SHIFTED = {f"{METHODS[method].title} with m": method for method in ("rnd", "ngu", "ngu-rnd", "none")}
COLOURS = {"GEM": METHODS["gem"].colour} | {
    title: METHODS[method].colour for title, method in SHIFTED.items()
}


def analyse(runs: Runs) -> FigureResult:
    """Plots return against updates, and compares GEM with methods of the same mean reward."""
    panels = {ENVS[ENV_ID].title: runs}
    decided = [
        claims.decide_by_speed(
            f"control-shift-{method}",
            f"{ENVS[ENV_ID].title}: GEM is not slower than {title}",
            f"updates to solve, GEM / {title} ≤ 1.25",
            {"gem": runs["GEM"], "control": runs[title]},
        )
        for title, method in SHIFTED.items()
    ]
    return FigureResult(
        plots.return_curves(panels, COLOURS, width=6.0), decided, measures.solving_table(panels)
    )


EXPERIMENT = Experiment(
    "MountainCar with the same mean reward for every method",
    "A control, not in the paper: the baselines' rewards have the mean m of GEM's reward, and `none` is m alone.",
    analyse,
    {
        "GEM": {"env_id": ENV_ID},
        **{
            title: {"env_id": ENV_ID, "method": method, "centre_reward": True}
            for title, method in SHIFTED.items()
        },
    },
)
