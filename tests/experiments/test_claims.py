import numpy as np
import pytest

from gemax.experiments.claims import (
    decide,
    decide_by_difference,
    decide_by_mean,
    decide_by_ratio,
    decide_for_every_seed,
    id_of,
)
from gemax.experiments.statistics import estimate_share


def test_labels_become_ids():
    assert [id_of(label) for label in ("oracle, n = 1", "NGU+RND")] == ["oracle-n-1", "ngu-rnd"]


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [((2.1, 3.0), "holds"), ((2.0, 3.0), "holds"), ((1.9, 3.0), "undecided"), ((1.0, 1.9), "does not hold")],
)
def test_lower_bar_is_compared_with_the_whole_interval(interval, verdict):
    claim = decide("fig3-name", "claim", "a measure, a / b ≥ 2", (2.0, *interval), seeds=[1, 2])
    assert claim.verdict == verdict
    assert claim.holds is (verdict == "holds")
    assert (claim.figure, claim.bar, claim.numbers) == ("fig3", "≥ 2", {"seeds": [1, 2]})
    assert claim.measure == "a measure, a / b"


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [((0.5, 1.0), "holds"), ((0.5, 1.1), "undecided"), ((1.1, 1.2), "does not hold")],
)
def test_upper_bar_is_compared_with_the_whole_interval(interval, verdict):
    claim = decide("extension-tsallis-0", "claim", "measure ≤ 1", (1.0, *interval))
    assert claim.verdict == verdict
    assert (claim.figure, claim.bar) == ("extension-tsallis", "≤ 1")


@pytest.mark.parametrize("criterion", ["measure ≥ 0", "measure ≤ 0"])
def test_nan_is_undecided(criterion):
    assert decide("fig1-a", "", criterion, (float("nan"),) * 3).verdict == "undecided"


def test_claims_by_seeds_keep_the_numbers_of_every_seed():
    groups = {"one": np.asarray([4.0, 4.0]), "other": np.asarray([2.0, 2.0])}
    ratio = decide_by_ratio("fig1-a", "", "one / other ≥ 2", groups, extra=3)
    assert (ratio.value, *ratio.interval) == pytest.approx((2.0, 2.0, 2.0))
    assert ratio.holds
    assert ratio.numbers == {"one": [4.0, 4.0], "other": [2.0, 2.0], "extra": 3}
    assert decide_by_difference("fig1-a", "", "one - other ≤ 1", groups).verdict == "does not hold"
    assert decide_by_mean("fig1-a", "", "one ≤ 4", {"one": groups["one"]}).holds


def test_bars_are_compared_up_to_rounding():
    assert decide("fig1-a", "", "measure ≥ 0.95", (1.0, 0.949999988, 1.0)).verdict == "holds"
    assert decide("fig1-a", "", "measure ≥ 0.95", (1.0, 0.9499, 1.0)).verdict == "undecided"
    assert decide("fig1-a", "", "measure ≤ 0.95", (0.5, 0.5, 0.950000012)).verdict == "holds"


@pytest.mark.parametrize(
    ("seeds", "verdict", "count"),
    [
        ([1, 1, 1], "holds", "5 of 5"),
        ([1, 0, 1], "does not hold", "4 of 5; other: 2 of 3"),
        ([0, 0, 0], "does not hold", "2 of 5; other: 0 of 3"),
    ],
)
def test_a_claim_about_every_seed_is_decided_by_their_count(seeds, verdict, count):
    groups = {"one": np.ones(2), "other": np.asarray(seeds, float)}
    claim = decide_for_every_seed("fig4-a", "claim", "seeds that solved it", groups, extra=3)
    assert (claim.figure, claim.verdict, claim.seed_count, claim.bar) == (
        "fig4",
        verdict,
        count,
        "every seed",
    )
    assert claim.holds is (verdict == "holds")
    # Groups are not pooled: the value is that of the group with the smallest share, the other one unless all are true.
    assert (claim.value, *claim.interval) == estimate_share(
        2 if all(seeds) else sum(seeds), 2 if all(seeds) else 3
    )
    assert claim.numbers == {"one": [1.0, 1.0], "other": seeds, "extra": 3}


@pytest.mark.fault(54)
@pytest.mark.parametrize("values", [[], [1.0]])
def test_one_seed_or_none_decides_nothing_about_every_seed(values):
    groups = {"gem": np.asarray(values), "rnd": np.ones(5)}
    claim = decide_for_every_seed("fig1-x", "Every seed finds it.", "seeds that found it", groups)
    assert (claim.verdict, claim.holds) == ("undecided", False)
    assert claim.seed_count.endswith("too few seeds")


def test_the_interval_of_groups_with_the_same_share_is_that_of_the_fewest_seeds():
    groups = {"many": np.ones(10), "few": np.ones(5)}
    claim = decide_for_every_seed("fig4-a", "claim", "seeds that solved it", groups)
    assert claim.verdict == "holds"
    assert (claim.value, *claim.interval) == estimate_share(5, 5)
