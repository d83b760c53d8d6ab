"""The verdicts of each figure follow from its numbers."""

import numpy as np
import pytest
from tests.experiments.fake import fake_record, fake_seeds

from gemax.envs import registry
from gemax.experiments import (
    ablations,
    controls,
    extensions,
    fig3,
    fig4,
    fig5,
    fig6,
    fig7,
    fig10,
    paper_preset,
    tuning,
    tuning_shared,
)
from gemax.experiments.claims import decide_by_speed
from gemax.experiments.experiment import figure_config, seed_configs
from gemax.experiments.measures import (
    finite_env,
    random_policy_return,
    random_policy_visits,
    solving_table,
)
from gemax.experiments.registry import EXPERIMENTS

FINITE = finite_env("two-rooms")
STEPS_APART = FINITE.distances().astype(np.float32)
"""An embedding of cells by their distances to all cells. Its distances are ordered like the steps on the map."""


def verdicts(claims):
    return {claim.id: claim.verdict for claim in claims}


def embedded(table, noises=1):
    """Converts an embedding of cells to an embedding of the observation table."""
    rows = np.empty((len(FINITE.observation_table), table.shape[-1]), np.float32)
    rows[FINITE.observation_of_state] = table[FINITE.model.cell]
    return np.repeat(rows[None], noises, axis=0)


@pytest.mark.parametrize(
    ("gem", "oracle", "slow", "level", "faster"),
    [
        (30, 30, 90, "holds", "holds"),
        (30, 10, 90, "does not hold", "holds"),
        (30, 30, 31, "holds", "does not hold"),
    ],
)
def test_fig3_claims_follow_the_solving_times(gem, oracle, slow, level, faster):
    times = {"GEM": gem, "oracle, n = 1": oracle, "oracle, n = 5": slow, "oracle, n = 10": slow}
    runs = {label: fake_seeds(solved_at=at) for label, at in times.items()}
    assert verdicts(fig3.decide_claims("two-rooms", runs)) == {
        "fig3-two-rooms-level-with-n-1": level,
        "fig3-two-rooms-faster-than-n-5": faster,
        "fig3-two-rooms-faster-than-n-10": faster,
    }


def test_claims_about_speed_count_the_updates_from_which_on_a_run_is_solved():
    runs = {
        "GEM": fake_seeds(solved_at=30),
        "oracle, n = 1": fake_seeds(solved_at=10, lost_at=90),
        "oracle, n = 5": fake_seeds(solved_at=90),
        "oracle, n = 10": fake_seeds(solved_at=90),
    }
    level = fig3.decide_claims("two-rooms", runs)[0]
    assert level.verdict == "holds"
    assert level.numbers["oracle"] == [100.0] * 5
    assert level.numbers["first_crossing"]["oracle"] == [10.0, 11.0, 12.0, 13.0, 14.0]
    assert level.numbers["first_crossing_ratio"][0] > 2.5


def test_claims_about_speed_also_compare_half_of_the_return_area_and_final_return():
    """One run is the first at 0.5 but stays there, the other one comes later and reaches 1."""
    early, late = fake_seeds(solved_at=10, final_return=0.6), fake_seeds(solved_at=40)
    claim = decide_by_speed("fig3-a", "", "early / late ≤ 1", {"early": early, "late": late})
    assert claim.verdict == "does not hold"
    half, area, final = claim.numbers["other_measures"].values()
    assert half[2] < 0.5
    assert area[0] == pytest.approx(0.6 * 0.89 - 0.59)
    assert final == pytest.approx((-0.4, -0.4, -0.4))


@pytest.mark.parametrize(
    ("gem", "other", "criterion", "verdict"),
    [
        # Nothing is known about runs that are all unsolved, whichever runs are longer.
        (None, None, "gem / other ≤ 1.25", "undecided"),
        (None, None, "gem / other ≥ 2", "undecided"),
        # Unsolved runs of the denominator make the ratio smaller: it is small, but may not be large.
        (30, None, "gem / other ≤ 1.25", "holds"),
        (90, None, "gem / other ≥ 0.5", "undecided"),
        (90, None, "gem / other ≤ 0.5", "undecided"),
        # Those of the numerator make it larger.
        (None, 85, "gem / other ≤ 1.25", "undecided"),
        (None, 20, "gem / other ≤ 1.25", "does not hold"),
        (None, 20, "gem / other ≥ 2", "holds"),
        (None, 85, "gem / other ≥ 2", "undecided"),
    ],
)
def test_a_verdict_is_undecided_if_unsolved_runs_bound_the_ratio_on_the_other_side(
    gem, other, criterion, verdict
):
    groups = {"gem": fake_seeds(solved_at=gem), "other": fake_seeds(solved_at=other)}
    claim = decide_by_speed("fig3-a", "", f"updates to solve, {criterion}", groups)
    assert (claim.verdict, claim.holds) == (verdict, verdict == "holds")
    unsolved = {"gem": gem is None, "other": other is None}
    assert claim.unsolved == ", ".join(
        f"5 of 5 {name}" for name, is_unsolved in unsolved.items() if is_unsolved
    )


@pytest.mark.parametrize(
    ("gem_unsolved", "other_unsolved", "criterion", "verdict"),
    [
        (1, 0, "gem / other ≥ 2", "holds"),
        (1, 0, "gem / other ≤ 1.25", "does not hold"),
        (0, 1, "gem / other ≥ 2", "undecided"),
        (1, 1, "gem / other ≥ 2", "undecided"),
    ],
)
def test_one_unsolved_run_bounds_the_ratio(gem_unsolved, other_unsolved, criterion, verdict):
    gem = [fake_record(solved_at=None if seed < gem_unsolved else 90, seed=seed) for seed in range(5)]
    other = [fake_record(solved_at=None if seed < other_unsolved else 10, seed=seed) for seed in range(5)]
    claim = decide_by_speed("fig3-a", "", f"updates to solve, {criterion}", {"gem": gem, "other": other})
    assert claim.verdict == verdict


def test_claims_about_speed_count_the_runs_below_each_threshold():
    groups = {
        "gem": fake_seeds(solved_at=30, lost_at=60),
        "other": fake_seeds(solved_at=40, final_return=0.6),
    }
    claim = decide_by_speed("fig3-a", "", "updates to solve, gem / other ≤ 1", groups)
    assert claim.numbers["not_crossed"] == {"gem": 0, "other": 5}
    assert claim.numbers["not_halfway"] == {"gem": 0, "other": 0}
    assert claim.unsolved == "5 of 5 gem, 5 of 5 other"


def test_a_longer_run_is_not_slower_because_it_is_lost_after_the_shorter_one_has_ended():
    """The curves are the same up to update 100. The longer runs are lost for one update at 150, and end at 250."""
    short, long = fake_seeds(solved_at=20), fake_seeds(updates=250, solved_at=20)
    for record in long:
        record.curves["return"][149] = 0.0
    claim = decide_by_speed(
        "fig3-a", "", "updates to solve, long / short ≤ 1", {"long": long, "short": short}
    )
    assert claim.numbers["long"] == claim.numbers["short"] == [20.0, 21.0, 22.0, 23.0, 24.0]
    equal = decide_by_speed("fig3-a", "", "updates to solve, long / short ≤ 1", {"long": long, "short": long})
    assert equal.numbers["long"] == [151.0] * 5


def test_a_solution_that_does_not_last_for_half_of_the_shorter_run_does_not_count():
    short, long = fake_seeds(solved_at=20), fake_seeds(updates=250, solved_at=20)
    for record in long:
        record.curves["return"][60:70] = 0.0
    claim = decide_by_speed(
        "fig3-a", "", "updates to solve, long / short ≤ 1", {"long": long, "short": short}
    )
    assert claim.numbers["long"] == [71.0] * 5


def test_runs_of_different_lengths_are_compared_up_to_the_end_of_the_shortest():
    """The longer runs are solved after the shorter ones have ended, and otherwise equal."""
    short, long = fake_seeds(), fake_seeds(updates=250, solved_at=150)
    claim = decide_by_speed("fig3-a", "", "short / long ≤ 1", {"short": short, "long": long})
    _, area, final = claim.numbers["other_measures"].values()
    assert area == final == (0.0, 0.0, 0.0)
    row = solving_table({"2-Rooms": {"short": short, "long": long}}).splitlines()[3]
    assert (
        row
        == "| 2-Rooms | long | 250 | 5 of 5 | 150 to 154 | 5 of 5 | 150 to 154 | 150 to 154 | 0 (0 to 0) | 0 (0 to 0) |"
    )


def test_tables_show_the_first_crossing_beside_the_update_from_which_on_it_is_solved():
    runs = {
        "won": fake_seeds(solved_at=30),
        "lost": fake_seeds(solved_at=10, lost_at=90),
        "never": fake_seeds(),
    }
    assert solving_table({"2-Rooms": runs}).splitlines()[2:] == [
        "| 2-Rooms | won | 100 | 5 of 5 | 30 to 34 | 5 of 5 | 30 to 34 | 30 to 34 | 0.69 (0.67 to 0.71) | 1 (1 to 1) |",
        "| 2-Rooms | lost | 100 | 5 of 5 | 10 to 14 | 0 of 5 | – | 10 to 14 | 0.78 (0.76 to 0.8) | 0 (0 to 0) |",
        "| 2-Rooms | never | 100 | 0 of 5 | – | 0 of 5 | – | – | 0 (0 to 0) | 0 (0 to 0) |",
    ]


def test_one_seed_that_loses_its_task_again_refutes_a_claim_about_every_seed():
    runs = runs_of_fig4(gem=20, rnd=20, ngu=20, ngu_rnd=20)
    runs["mountain-car: GEM"][3] = fake_seeds(solved_at=20, lost_at=90)[3]
    claim = {claim.id: claim for claim in fig4.analyse(runs).claims}["fig4-gem-solves-all"]
    assert (claim.verdict, claim.seed_count) == ("does not hold", "19 of 20; mountain-car: 4 of 5")
    assert (claim.value, *claim.interval) == pytest.approx((0.8, 0.2836, 0.9949), abs=1e-4)


def runs_of_fig4(**solved_at):
    return {
        f"{env}: {label}": fake_seeds(solved_at=solved_at[method.replace("-", "_")])
        for env in fig4.ENV_IDS
        for method, label in fig4.TITLES.items()
    }


def test_fig4_claims_hold_if_gem_is_fastest():
    result = fig4.analyse(runs_of_fig4(gem=20, rnd=80, ngu=None, ngu_rnd=40))
    found = verdicts(result.claims)
    assert found.pop("fig4-sixteen-leaves-rnd-unsteady")
    assert {name for name, verdict in found.items() if verdict != "holds"} <= {
        f"fig4-{env}-rnd-unsteady" for env in fig4.ENV_IDS
    }
    assert "| GEM | 20 of 20 | 0.22 (" in result.table


def test_fig4_claims_fail_if_gem_solves_nothing():
    result = fig4.analyse(runs_of_fig4(gem=None, rnd=20, ngu=20, ngu_rnd=None))
    found = verdicts(result.claims)
    for name in ("ngu-misses-leaves", "ngu-rnd-solves-all", "gem-solves-all", "two-rooms-gem-as-fast-as-rnd"):
        assert found[f"fig4-{name}"] == "does not hold", name


def runs_of_fig5(noisy, without):
    runs = {
        "with AR, noiseless": fake_seeds(solved_at=20),
        "with AR, noisy": fake_seeds(solved_at=noisy),
        "without AR, noiseless": fake_seeds(solved_at=20),
    }
    random = random_policy_visits(FINITE)
    entropy = -(random * np.log(random)).sum() / 4.25
    runs["without AR, noisy"] = fake_seeds(solved_at=without, share=0.9 if without else entropy)
    return runs


def test_fig5_claims_hold_or_fail():
    assert set(verdicts(fig5.analyse(runs_of_fig5(noisy=22, without=None)).claims).values()) == {"holds"}
    other = verdicts(fig5.analyse(runs_of_fig5(noisy=90, without=10)).claims)
    assert set(other.values()) == {"does not hold"}


def test_fig6_claims_hold_or_fail():
    random = np.random.default_rng(0).normal(size=(71, 8)).astype(np.float32)
    labels = list(runs_of_fig5(20, None))
    good = {label: fake_seeds(embedding=embedded(STEPS_APART, 2)) for label in labels[:2]}
    bad = {label: fake_seeds(embedding=embedded(random, 2)) for label in labels[2:]}
    assert set(verdicts(fig6.analyse(good | bad).claims).values()) == {"holds"}
    swapped = dict(zip(labels, [*bad.values(), *good.values()], strict=True))
    assert set(verdicts(fig6.analyse(swapped).claims).values()) == {"does not hold"}


def test_fig7_claims_hold_or_fail():
    edge = fig7.boundary_cells(FINITE)
    # The bottleneck and the outermost cells of both rooms.
    assert edge.sum() == 2 * (2 * 7 + 2 * 5 - 4) + 1
    at_the_edge, even = np.where(edge, 2.0, 1.0), np.ones(71)
    path = np.where(np.arange(71) < 22, 5.0, 0.1)
    looks = {"coarse": (2.0, path), "medium": (3.0, at_the_edge), "fine": (4.0, even)}
    runs = {
        f"{name}, {task}": fake_seeds(entropy=entropy, visits=visits)
        for name, (entropy, visits) in looks.items()
        for task in (fig7.WITH_REWARD, fig7.REWARD_FREE)
    }
    assert set(verdicts(fig7.analyse(runs).claims).values()) == {"holds"}
    swapped = runs | {
        f"{one}, {task}": runs[f"{other}, {task}"]
        for one, other in (("coarse", "fine"), ("fine", "coarse"), ("medium", "medium"))
        for task in (fig7.WITH_REWARD, fig7.REWARD_FREE)
    }
    assert set(verdicts(fig7.analyse(swapped).claims).values()) == {"does not hold", "holds"}


def test_one_way_steps_of_two_keys_remove_something_or_end_the_episode():
    states = fig10.two_keys_states()
    taken = states.configuration[states.one_way]
    is_end = states.is_terminal[states.one_way[:, 1]]
    assert ((taken[:, 0] != taken[:, 1]) | is_end).all()
    assert (states.configuration[states.two_way[:, 0]] == states.configuration[states.two_way[:, 1]]).all()
    assert states.names[0] == "nothing"
    assert "upper key, lower key, door" in states.names


def test_fig10_claims_hold_if_configurations_are_far_apart():
    states = fig10.two_keys_states()
    finite = finite_env("two-keys")
    cells = finite.cell_positions[states.cell].astype(np.float32)
    points = np.concatenate([cells, 100.0 * np.eye(len(states.names))[states.configuration]], axis=1)
    points[states.is_terminal] += 500.0
    table = np.zeros((1, len(finite.observation_table), points.shape[1]), np.float32)
    table[0, states.row] = points
    good = fake_seeds(env="two-keys", solved_at=20, embedding=table)
    assert set(verdicts(fig10.decide_claims(good, states)).values()) == {"holds"}
    flat = np.zeros_like(table)
    flat[0, states.row, :2] = cells
    bad = fake_seeds(env="two-keys", embedding=flat)
    found = verdicts(fig10.decide_claims(bad, states))
    assert found["fig10-solved"] == found["fig10-configurations-apart"] == "does not hold"


def first_verdict(analyse, experiment, *groups):
    """Returns the verdict on the first claim, with these groups of records in the order of the sweep."""
    return analyse(dict(zip(experiment.sweep, groups, strict=True))).claims[0].verdict


def test_ablation_claims_hold_or_fail():
    random = np.random.default_rng(0).normal(size=(71, 8)).astype(np.float32)
    good = fake_seeds(solved_at=20, embedding=embedded(STEPS_APART))
    bad = fake_seeds(embedding=embedded(random))
    for groups, verdict in (([bad, bad, good], "holds"), ([good, bad, bad], "does not hold")):
        runs = dict(zip(ablations.EXPONENT.sweep, groups, strict=True))
        assert set(verdicts(ablations.analyse_q(runs).claims).values()) == {verdict}
    normalisation = ablations.analyse_normalisation, ablations.NORMALISATION
    assert first_verdict(*normalisation, good, good, good, good, good, bad) == "holds"
    assert first_verdict(*normalisation, good, good, bad, good, good, good) == "does not hold"


def test_extension_claims_hold_or_fail():
    good, bad = fake_seeds(solved_at=20, share=0.99), fake_seeds(share=0.5)
    tsallis = verdicts(extensions.analyse_tsallis({"α = 0": good, "α = 1": bad}).claims)
    assert tsallis == {"extension-tsallis-0": "holds", "extension-tsallis-1": "does not hold"}
    negatives = extensions.analyse_negatives, extensions.NEGATIVES
    assert first_verdict(*negatives, good, bad) == "holds"
    assert first_verdict(*negatives, bad, good) == "does not hold"
    ceiling = extensions.analyse_ceiling, extensions.CEILING
    assert first_verdict(*ceiling, *[good] * 6) == "holds"
    assert first_verdict(*ceiling, *[bad] * 6) == "does not hold"


def test_a_random_policy_reaches_the_reward_as_often_as_in_simulated_episodes():
    model, rng, reached = FINITE.model, np.random.default_rng(0), 0
    starts = np.flatnonzero(model.start)
    for _ in range(2000):
        state = rng.choice(starts)
        for _ in range(model.horizon):
            state = model.successor[state, rng.integers(model.successor.shape[1]), 0]
            if model.is_terminal[state]:
                reached += 1
                break
    exact = random_policy_return(FINITE)
    assert abs(reached / 2000 - exact) < 4 * np.sqrt(exact * (1 - exact) / 2000) + 1e-3


def test_the_returns_of_both_estimates_are_compared_with_the_same_unrolls():
    sweep = ablations.RETURNS.sweep
    shared = [{name: run[name] for name in ("unroll_length", "unroll_period")} for run in sweep.values()]
    assert shared[0] == shared[1] == {"unroll_length": 20, "unroll_period": 10}
    good, bad = fake_seeds(solved_at=20), fake_seeds()
    for averaged, verdict in ((good, "holds"), (bad, "does not hold")):
        runs = {ablations.VTRACE: good, ablations.AVERAGED: averaged}
        assert set(verdicts(ablations.analyse_returns(runs).claims).values()) == {verdict}


def test_every_reading_of_rnd_is_compared_with_gem():
    configs = [figure_config(preset="laptop", **run).intrinsic for run in ablations.RND.sweep.values()][1:]
    assert [(config.rnd_divisor, config.rnd_return_decay) for config in configs] == [
        ("return", 0.95), ("return", 1.0), ("error", 0.95),
    ]  # fmt: skip
    assert configs[2].intrinsic_scale == pytest.approx(configs[0].intrinsic_scale / ablations.RETURN_TO_ERROR)
    spread = [fake_record(seed=seed, solved_at=10 + 15 * seed) for seed in range(5)]
    runs = {label: fake_seeds(solved_at=20) if label == "GEM" else spread for label in ablations.RND.sweep}
    assert set(verdicts(ablations.analyse_rnd(runs).claims).values()) == {"holds"}
    assert len(ablations.analyse_rnd(runs).claims) == len(ablations.RND_READINGS)


def test_rewards_with_and_without_normalisation_have_the_same_scale_at_the_fine_resolution():
    normalised, scaled = (
        ablations.NORMALISATION.sweep[f"{label}, fine"]["intrinsic_scale"]
        for label in (ablations.NORMALISED, ablations.NOT_NORMALISED)
    )
    assert scaled * ablations.RAW_STD == pytest.approx(normalised, rel=0.01)


def test_the_control_gives_every_method_the_mean_reward_of_gem():
    gem, *others = (figure_config(preset="laptop", **run) for run in controls.EXPERIMENT.sweep.values())
    assert [config.intrinsic.method for config in others] == ["rnd", "ngu", "ngu-rnd", "none"]
    for config in others:
        assert config.intrinsic.centre_reward
        assert config.intrinsic.intrinsic_shift == gem.intrinsic.intrinsic_shift > 0
    good, bad = fake_seeds(solved_at=20), fake_seeds(solved_at=80)
    for rows, verdict in (([good, bad], "holds"), ([bad, good], "does not hold")):
        runs = dict(zip(controls.EXPERIMENT.sweep, [rows[0]] + 4 * [rows[1]], strict=True))
        assert set(verdicts(controls.analyse(runs).claims).values()) == {verdict}


FAVOURED = {"extension-memory": extensions.MEMORY, "extension-scales": extensions.TWO_SCALES}


@pytest.mark.parametrize("name", [*FAVOURED, *paper_preset.EXPERIMENTS])
def test_claims_against_gem_hold_or_fail_and_belong_to_their_experiment(name):
    experiment = EXPERIMENTS[name]
    favoured = FAVOURED.get(name, "GEM")
    for fast, slow, verdict in ((20, 80, "holds"), (None, 20, "does not hold")):
        runs = {
            label: fake_seeds(solved_at=fast if favoured in label else slow) for label in experiment.sweep
        }
        decided = experiment.analyse(runs).claims
        assert {claim.figure for claim in decided} == {name}
        assert len({claim.id for claim in decided}) == len(decided)
        comparisons = {claim.id: claim.verdict for claim in decided if "updates to solve" in claim.measure}
        assert name == "paper-noise" or set(comparisons.values()) == {verdict}


def test_without_ar_the_paper_is_right_if_no_run_learns_under_noise():
    runs = {fig5.WITH_AR: fake_seeds(solved_at=20)}
    for solved_at, verdict in ((None, "holds"), (20, "does not hold")):
        decided = paper_preset.analyse_noise(runs | {fig5.WITHOUT_AR: fake_seeds(solved_at=solved_at)}).claims
        assert verdicts(decided) == {
            "paper-noise-with-ar": "holds", "paper-noise-without-ar": verdict
        }  # fmt: skip


@pytest.mark.parametrize("env_id", tuning.ENV_IDS)
def test_every_method_has_the_same_number_of_trials(env_id):
    for method in tuning.TITLES:
        found = tuning.trials(env_id, method)
        assert len({tuple(trial.values()) for trial in found}) == tuning.NUM_TRIALS
    (first_scale, first_shift), *others = (trial.values() for trial in tuning.trials(env_id, "gem"))
    for scale, shift in others[:4]:
        # The whole reward is scaled.
        assert shift / first_shift == pytest.approx(scale / first_scale, rel=0.02)
    assert {scale for scale, _ in others[4:]} == {first_scale}
    assert len({shift for _, shift in others[4:]} - {first_shift}) == 2


def test_the_search_shows_the_best_trial_of_every_method():
    runs = {label: fake_seeds(solved_at=50) for label in tuning.EXPERIMENT.sweep}
    runs["two-rooms rnd scale 0.05"] = fake_seeds(solved_at=10)
    lines = tuning.analyse(runs).table.splitlines()
    assert len(lines) == 2 + len(tuning.ENV_IDS) * len(tuning.TITLES)
    assert any(line.startswith("| 2-Rooms | rnd | **scale 0.05: 0.89** |") for line in lines)


def test_shared_settings_are_scored_by_all_methods_equally():
    runs = {label: fake_seeds(solved_at=50) for label in tuning_shared.EXPERIMENT.sweep}
    rates = tuning_shared.values_of("two-rooms", "rnd")["learning_rate"]
    for method in ("rnd", "ngu", "ngu-rnd"):
        runs[f"two-rooms {method} learning_rate {rates[2]:g}"] = fake_seeds(solved_at=10)
    runs[f"two-rooms gem learning_rate {rates[2]:g}"] = fake_seeds(solved_at=90)
    found = tuning_shared.scores(runs, "two-rooms", "learning_rate")
    share = 0.49 / 0.89
    expected = [(3 * share + 1) / 4, (3 * share + 1) / 4, (3 + 0.09 / 0.49) / 4]
    np.testing.assert_allclose(list(found.values()), expected, rtol=1e-2)
    result = tuning_shared.analyse(runs)
    assert f"**{rates[2]:g}**" in result.table
    assert result.choices["two-rooms"]["learning_rate"] == rates[2]
    assert set(tuning_shared.scores(runs, "two-rooms", "adjacency_scale")) == {0.1, 1.0, 10.0}


def test_another_value_is_chosen_only_if_it_is_clearly_better():
    assert tuning_shared.choose({1e-3: 0.80, 3e-4: 0.84, 3e-3: 0.5}) == 1e-3
    assert tuning_shared.choose({1e-3: 0.80, 3e-4: 0.86, 3e-3: 0.5}) == 3e-4


def test_a_scale_at_the_edge_of_those_tried_is_marked():
    runs = {label: fake_seeds(solved_at=50) for label in tuning.EXPERIMENT.sweep}
    assert "(at the edge)" not in tuning.analyse(runs).table
    largest = max(trial["intrinsic_scale"] for trial in tuning.trials("two-rooms", "ngu"))
    runs[f"two-rooms ngu scale {largest:g}"] = fake_seeds(solved_at=10)
    assert tuning.analyse(runs).table.count("(at the edge)") == 1


def test_a_method_that_learns_with_no_value_has_no_vote():
    """In MountainCar a return of -1000 is the lowest, and small differences above it mean nothing."""
    runs = {}
    for label, settings in tuning_shared.EXPERIMENT.sweep.items():
        is_best = settings["method"] == "rnd" and settings["learning_rate"] != tuning_shared.LEARNING_RATE
        level = -200.0 if is_best else -990.0 - 9.0 * settings["learning_rate"]
        runs[label] = [fake_record(settings["env_id"], constant_return=level)]
    first, *others = tuning_shared.scores(runs, "mountain-car", "learning_rate").values()
    assert first < 0.02
    assert others == [1.0, 1.0]
    unlearned = {label: [fake_record(constant_return=-995.0)] for label in runs}
    assert set(tuning_shared.scores(unlearned, "mountain-car", "learning_rate").values()) == {0.0}


def test_trials_of_the_shared_search_train_for_the_same_frames():
    for run in tuning_shared.EXPERIMENT.sweep.values():
        start = tuning_shared.START[run["env_id"]]
        assert run["updates"] * run["num_envs"] == tuning_shared.UPDATES[run["env_id"]] * start["num_envs"]


def test_a_chosen_number_of_environments_comes_with_updates_for_the_same_frames():
    """The figures, and the search for scales, then train for as many frames as the search that chose it."""
    runs = {label: fake_seeds(solved_at=50) for label in tuning_shared.EXPERIMENT.sweep}
    for method in tuning_shared.TITLES:
        runs[f"two-rooms {method} num_envs 32"] = fake_seeds(solved_at=10)
    choices = tuning_shared.analyse(runs).choices
    assert (choices["two-rooms"]["num_envs"], choices["two-rooms"]["figure_updates"]) == (32, 1000)
    assert choices["sixteen-leaves"]["figure_updates"] == 1800
    assert tuning_shared.updates_for("two-rooms", 32) == 1000


def test_of_equal_trials_the_search_chooses_the_nearest_to_the_centre():
    runs = {label: fake_seeds(solved_at=50) for label in tuning.EXPERIMENT.sweep}
    choices = tuning.analyse(runs).choices
    for env_id, method in ((env_id, method) for env_id in tuning.ENV_IDS for method in tuning.TITLES):
        centre = registry.ENVS[env_id].paper_scales.get(
            method, registry.ENVS[env_id].paper["intrinsic_scale"]
        )
        scale = choices[env_id][method]["intrinsic_scale"]
        assert scale == pytest.approx(centre * tuning.CENTRES.get(method, 1.0), rel=1e-2)


def test_a_method_that_learns_in_no_trial_has_the_centre():
    runs = {label: fake_seeds(solved_at=50) for label in tuning.EXPERIMENT.sweep}
    for trial in tuning.trials("two-rooms", "rnd"):
        runs[tuning.label_of("two-rooms", "rnd", trial)] = fake_seeds(solved_at=97)
    runs["two-rooms rnd scale 1.5"] = fake_seeds(solved_at=96)
    result = tuning.analyse(runs)
    assert result.choices["two-rooms"]["rnd"] == {"intrinsic_scale": 0.05}
    assert "**scale 0.05: 0.02** (no trial learned)" in result.table


@pytest.mark.parametrize("search", [tuning, tuning_shared])
def test_the_results_of_a_search_do_not_change_its_runs(search, monkeypatch):
    """Otherwise the search would have to be trained again after its result has been copied to the presets."""
    before = seed_configs(search.EXPERIMENT, "laptop")
    chosen = {"intrinsic_scale": 0.123, "intrinsic_shift": 0.456}
    shared = {
        "learning_rate": 0.003,
        "entropy_cost": 0.7,
        "vtrace_lambda": 0.8,
        "adjacency_scale": 3.0,
        "num_envs": 32,
    }
    chosen |= shared if search is tuning_shared else {}
    for env_id in tuning.ENV_IDS:
        row = registry.ENVS[env_id]
        changed = row._replace(
            laptop={**row.laptop, **chosen},
            laptop_scales=dict.fromkeys(row.laptop_scales, 0.789),
            figure_updates=2 * row.figure_updates,
        )
        monkeypatch.setitem(registry.ENVS, env_id, changed)
    assert seed_configs(search.EXPERIMENT, "laptop") == before
