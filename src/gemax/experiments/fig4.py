"""Figure 4: GEM against RND, NGU and NGU+RND in two gridworlds and two continuous environments.

Claims: NGU alone explores only within an episode, and does not cover 16-Leaves. RND is slow and unsteady. NGU+RND
solves all tasks. GEM does too, is the fastest in the gridworlds and comparable in the continuous environments.

`sec:ngurnd`.
"""

from gemax.envs.registry import ENVS
from gemax.experiments import claims, measures, statistics
from gemax.experiments.experiment import Experiment, FigureResult, Runs
from gemax.experiments.plots import return_curves
from gemax.experiments.tables import markdown_table
from gemax.rewards.registry import METHODS

ENV_IDS = ("two-rooms", "sixteen-leaves", "mountain-car", "cartpole-swingup")
NUM_SEEDS = {env_id: 10 if ENVS[env_id].is_gridworld else 5 for env_id in ENV_IDS}
BASELINES = ("rnd", "ngu", "ngu-rnd")
TITLES = {method: METHODS[method].title for method in ("gem", *BASELINES)}


def analyse(runs: Runs) -> FigureResult:
    """Plots return against updates and compares GEM with the baselines."""
    panels = {
        ENVS[env_id].title: {title: runs[f"{env_id}: {title}"] for title in TITLES.values()}
        for env_id in ENV_IDS
    }
    decided = [_ngu_misses_leaves(runs), _solves_all(runs, "ngu-rnd"), _solves_all(runs, "gem")]
    decided += [_gem_is_as_fast(runs, env_id, baseline) for env_id in ENV_IDS for baseline in BASELINES]
    decided += [_rnd_is_unsteady(runs, env_id) for env_id in ENV_IDS]
    return FigureResult(return_curves(panels), decided, f"{_table(runs)}\n\n{measures.solving_table(panels)}")


def _ngu_misses_leaves(runs: Runs) -> claims.Claim:
    return claims.decide_by_difference(
        "fig4-ngu-misses-leaves",
        "16-Leaves: NGU alone does not cover all leaves and ends below GEM",
        "final return, GEM - NGU ≥ 0.05",
        {
            method: measures.final_returns(runs[f"sixteen-leaves: {TITLES[method]}"])
            for method in ("gem", "ngu")
        },
    )


def _solves_all(runs: Runs, method: str) -> claims.Claim:
    return claims.decide_by_solving(
        f"fig4-{method}-solves-all",
        f"{TITLES[method]} solves all four tasks, with every seed",
        {env_id: runs[f"{env_id}: {TITLES[method]}"] for env_id in ENV_IDS},
    )


def _gem_is_as_fast(runs: Runs, env_id: str, baseline: str) -> claims.Claim:
    env, title = ENVS[env_id], TITLES[baseline]
    bar, comparison = ("1", "at least as fast as") if env.is_gridworld else ("1.25", "not slower than")
    labels = {"gem": f"{env_id}: GEM", "baseline": f"{env_id}: {title}"}
    return claims.decide_by_speed(
        f"fig4-{env_id}-gem-as-fast-as-{baseline}",
        f"{env.title}: GEM is {comparison} {title}",
        f"updates to solve, GEM / {title} ≤ {bar}",
        {name: runs[label] for name, label in labels.items()},
    )


def _rnd_is_unsteady(runs: Runs, env_id: str) -> claims.Claim:
    return claims.decide_by_estimate(
        statistics.estimate_ratio_of_stds,
        f"fig4-{env_id}-rnd-unsteady",
        f"{ENVS[env_id].title}: RND is less steady than GEM",
        "standard deviation over seeds of the area under the curve, RND / GEM ≥ 1",
        {method: measures.return_areas(runs[f"{env_id}: {TITLES[method]}"]) for method in ("rnd", "gem")},
    )


def _table(runs: Runs) -> str:
    """Returns the interquartile means, which are robust to outliers, averaged over the environments."""
    rows = []
    for title in TITLES.values():
        groups = [runs[f"{env_id}: {title}"] for env_id in ENV_IDS]
        row = [title]
        for has_happened, updates in (
            (measures.has_crossed, measures.updates_to_cross),
            (measures.is_solved, measures.updates_to_solve),
        ):
            times = [updates(group) / group[0].config.run.updates for group in groups]
            value, low, high = statistics.stratified_interquartile_mean(times)
            count = sum(int(has_happened(group).sum()) for group in groups)
            row += [f"{count} of {sum(map(len, groups))}", f"{value:.2f} ({low:.2f} to {high:.2f})"]
        rows.append(row)
    share = "as a share of the run: interquartile mean, averaged over environments"
    return markdown_table(
        [
            "method",
            "seeds that crossed",
            f"first crossing, {share}",
            "seeds solved",
            f"updates to solve, {share}",
        ],
        rows,
    )


EXPERIMENT = Experiment(
    "GEM against RND, NGU and NGU+RND",
    "NGU alone does not cover 16-Leaves, RND is slow and unsteady, NGU+RND solves all; GEM does too, and faster.",
    analyse,
    {
        f"{env_id}: {title}": {"env_id": env_id, "method": method, "num_seeds": NUM_SEEDS[env_id]}
        for env_id in ENV_IDS
        for method, title in TITLES.items()
    },
)
