"""Each figure's verdicts follow its numbers, either way."""

import numpy as np
import pytest
from tests.experiments.made_up import made_up, seeds_of

from gemax.experiments import beyond, fig3, fig4, fig5, fig6, fig7, fig10, passing
from gemax.experiments.measures import random_policy_visits
from gemax.worlds.registry import make_world

FINITE = make_world("two-rooms").finite
assert FINITE is not None
STEPS_APART = FINITE.distances.astype(np.float32)
"""An embedding whose distances have the order of the steps on the map: the distances to all squares."""


def verdicts(claims):
    return {claim.id: claim.verdict for claim in claims}


def embedded(table, noises=1):
    """A table of squares as an embedding of the table of observations, which holds each square once."""
    rows = np.empty((len(FINITE.observation_table), table.shape[-1]), np.float32)
    rows[FINITE.rows_of_states] = table[FINITE.model.square]
    return np.repeat(rows[None], noises, axis=0)


@pytest.mark.parametrize(
    ("gem", "oracle", "slow", "level", "faster"),
    [
        (30, 30, 90, "holds", "holds"),
        (30, 10, 90, "does not hold", "holds"),
        (30, 30, 31, "holds", "does not hold"),
    ],
)
def test_fig3(gem, oracle, slow, level, faster):
    times = {"GEM": gem, "oracle, n = 1": oracle, "oracle, n = 5": slow, "oracle, n = 10": slow}
    found = verdicts(
        fig3.claims_of("two-rooms", {label: at + np.arange(5.0) / 10 for label, at in times.items()})
    )
    assert found == {
        "fig3-two-rooms-level-with-n-1": level,
        "fig3-two-rooms-faster-than-n-5": faster,
        "fig3-two-rooms-faster-than-n-10": faster,
    }


def runs_of_fig4(**solved_at):
    return {
        f"{world}: {label}": seeds_of(made_up, solved_at=solved_at[method.replace("-", "_")])
        for world in fig4.WORLDS
        for label, method in fig4.METHODS.items()
    }


def test_fig4_where_all_is_as_the_paper_says():
    shown = fig4.show(runs_of_fig4(gem=20, rnd=80, ngu=None, ngu_rnd=40))
    found = verdicts(shown.claims)
    assert found.pop("fig4-sixteen-leaves-rnd-unsteady")
    assert {name for name, verdict in found.items() if verdict != "holds"} <= {
        f"fig4-{world}-rnd-unsteady" for world in fig4.WORLDS
    }
    assert "| GEM | 20 of 20 |" in shown.table


def test_fig4_where_nothing_is():
    shown = fig4.show(runs_of_fig4(gem=None, rnd=20, ngu=20, ngu_rnd=None))
    found = verdicts(shown.claims)
    for name in ("ngu-misses-leaves", "ngu-rnd-solves-all", "gem-solves-all", "two-rooms-gem-as-fast-as-rnd"):
        assert found[f"fig4-{name}"] == "does not hold", name


def runs_of_fig5(noisy, without):
    runs = {
        "with AR, noiseless": seeds_of(made_up, solved_at=20),
        "with AR, noisy": seeds_of(made_up, solved_at=noisy),
        "without AR, noiseless": seeds_of(made_up, solved_at=20),
    }
    random = random_policy_visits(FINITE)
    entropy = -(random * np.log(random)).sum() / 4.25
    runs["without AR, noisy"] = seeds_of(made_up, solved_at=without, share=0.9 if without else entropy)
    return runs


def test_fig5_either_way():
    assert set(verdicts(fig5.show(runs_of_fig5(noisy=22, without=None)).claims).values()) == {"holds"}
    other = verdicts(fig5.show(runs_of_fig5(noisy=90, without=10)).claims)
    assert set(other.values()) == {"does not hold"}


def test_fig6_either_way():
    random = np.random.default_rng(0).normal(size=(71, 8)).astype(np.float32)
    labels = list(runs_of_fig5(20, None))
    good = {label: seeds_of(made_up, embedding=embedded(STEPS_APART, 2)) for label in labels[:2]}
    bad = {label: seeds_of(made_up, embedding=embedded(random, 2)) for label in labels[2:]}
    assert set(verdicts(fig6.show(good | bad).claims).values()) == {"holds"}
    swapped = dict(zip(labels, [*bad.values(), *good.values()], strict=True))
    assert set(verdicts(fig6.show(swapped).claims).values()) == {"does not hold"}


def test_fig7_either_way():
    edge = fig7.boundary_squares(FINITE)
    # Every square of the bottleneck and around the two rooms, and none within them.
    assert edge.sum() == 2 * (2 * 7 + 2 * 5 - 4) + 1
    at_the_edge, even = np.where(edge, 2.0, 1.0), np.ones(71)
    path = np.where(np.arange(71) < 22, 5.0, 0.1)
    looks = {"coarse": (2.0, path), "medium": (3.0, at_the_edge), "fine": (4.0, even)}
    runs = {
        f"{name}, {task}": seeds_of(made_up, entropy=entropy, visits=visits)
        for name, (entropy, visits) in looks.items()
        for task in fig7.TASKS
    }
    assert set(verdicts(fig7.show(runs).claims).values()) == {"holds"}
    swapped = runs | {
        f"{one}, {task}": runs[f"{other}, {task}"]
        for one, other in (("coarse", "fine"), ("fine", "coarse"), ("medium", "medium"))
        for task in fig7.TASKS
    }
    assert set(verdicts(fig7.show(swapped).claims).values()) == {"does not hold", "holds"}


def test_two_keys_has_one_way_steps_only_where_something_is_taken():
    facts = fig10.situations()
    taken = facts.group[facts.one_way]
    is_end = facts.is_terminal[facts.one_way[:, 1]]
    assert ((taken[:, 0] != taken[:, 1]) | is_end).all()
    assert (facts.group[facts.two_way[:, 0]] == facts.group[facts.two_way[:, 1]]).all()
    assert facts.names[0] == "nothing yet"
    assert "upper key, lower key, door open" in facts.names


def test_fig10_where_configurations_are_far_apart():
    facts = fig10.situations()
    finite = make_world("two-keys").finite
    assert finite is not None
    places = finite.square_positions[facts.square].astype(np.float32)
    states = np.concatenate([places, 100.0 * np.eye(len(facts.names))[facts.group]], axis=1)
    states[facts.is_terminal] += 500.0
    table = np.zeros((1, len(finite.observation_table), states.shape[1]), np.float32)
    table[0, facts.row] = states
    good = seeds_of(made_up, world="two-keys", solved_at=20, embedding=table)
    assert set(verdicts(fig10.claims_of(good, facts)).values()) == {"holds"}
    flat = np.zeros_like(table)
    flat[0, facts.row, :2] = places
    bad = seeds_of(made_up, world="two-keys", embedding=flat)
    found = verdicts(fig10.claims_of(bad, facts))
    assert found["fig10-solved"] == found["fig10-configurations-apart"] == "does not hold"


def test_claims_in_passing_either_way():
    random = np.random.default_rng(0).normal(size=(71, 8)).astype(np.float32)
    good = seeds_of(made_up, solved_at=20, embedding=embedded(STEPS_APART))
    bad = seeds_of(made_up, embedding=embedded(random))
    assert set(verdicts(passing.show_q({"q = 1": bad, "q = 2": bad, "q = 4": good}).claims).values()) == {
        "holds"
    }
    assert set(verdicts(passing.show_q({"q = 1": good, "q = 2": bad, "q = 4": bad}).claims).values()) == {
        "does not hold"
    }
    labels = [f"{how}, {name}" for how in (passing.NORMALISED, passing.RAW) for name in passing.RESOLUTIONS]
    runs = dict(zip(labels, [good] * 3 + [good, good, bad], strict=True))
    assert passing.show_normalisation(runs).claims[0].verdict == "holds"
    runs = dict(zip(labels, [good, good, bad] + [good] * 3, strict=True))
    assert passing.show_normalisation(runs).claims[0].verdict == "does not hold"


def test_claims_beyond_either_way():
    good, bad = seeds_of(made_up, solved_at=20, share=0.99), seeds_of(made_up, share=0.5)
    tsallis = beyond.show_tsallis({"α = 0": good, "α = 1": bad})
    assert verdicts(tsallis.claims) == {"beyond-tsallis-0": "holds", "beyond-tsallis-1": "does not hold"}
    assert beyond.show_negatives({beyond.EXACT: good, beyond.SAMPLED: bad}).claims[0].verdict == "holds"
    assert (
        beyond.show_negatives({beyond.EXACT: bad, beyond.SAMPLED: good}).claims[0].verdict == "does not hold"
    )
    assert beyond.show_ceiling(dict.fromkeys(beyond.METHODS, good)).claims[0].verdict == "holds"
    assert beyond.show_ceiling(dict.fromkeys(beyond.METHODS, bad)).claims[0].verdict == "does not hold"
