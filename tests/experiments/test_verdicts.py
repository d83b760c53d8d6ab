"""The verdicts of each figure follow from its numbers."""

import numpy as np
import pytest
from tests.experiments.fake import fake_seeds

from gemax.experiments import ablations, extensions, fig3, fig4, fig5, fig6, fig7, fig10
from gemax.experiments.measures import finite_env, random_policy_visits, solving_table

FINITE = finite_env("two-rooms")
STEPS_APART = FINITE.distances.astype(np.float32)
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


def test_tables_show_the_first_crossing_beside_the_update_from_which_on_it_is_solved():
    runs = {
        "held": fake_seeds(solved_at=30),
        "lost": fake_seeds(solved_at=10, lost_at=90),
        "never": fake_seeds(),
    }
    assert solving_table({"2-Rooms": runs}).splitlines()[2:] == [
        "| 2-Rooms | held | 5 of 5 | 30 to 34 | 5 of 5 | 30 to 34 |",
        "| 2-Rooms | lost | 5 of 5 | 10 to 14 | 0 of 5 | – |",
        "| 2-Rooms | never | 0 of 5 | – | 0 of 5 | – |",
    ]


def test_one_seed_that_loses_its_task_again_refutes_a_claim_about_every_seed():
    runs = runs_of_fig4(gem=20, rnd=20, ngu=20, ngu_rnd=20)
    runs["mountain-car: GEM"][3] = fake_seeds(solved_at=20, lost_at=90)[3]
    claim = {claim.id: claim for claim in fig4.analyse(runs).claims}["fig4-gem-solves-all"]
    assert (claim.verdict, claim.seed_count, claim.value) == ("does not hold", "19 of 20", 0.95)
    assert claim.interval == pytest.approx((0.7513, 0.9987), abs=1e-4)


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
