import pytest

from gemax.experiments.claims import claim_at_least, claim_at_most


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [((2.1, 3.0), "holds"), ((2.0, 3.0), "holds"), ((1.9, 3.0), "undecided"), ((1.0, 1.9), "does not hold")],
)
def test_at_least(interval, verdict):
    claim = claim_at_least("fig3-name", "words", "measure", (2.0, *interval), 2.0, seeds=[1, 2])
    assert claim.verdict == verdict
    assert claim.holds is (verdict == "holds")
    assert (claim.figure, claim.bar, claim.numbers) == ("fig3", "≥ 2", {"seeds": [1, 2]})


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [((0.5, 1.0), "holds"), ((0.5, 1.1), "undecided"), ((1.1, 1.2), "does not hold")],
)
def test_at_most(interval, verdict):
    claim = claim_at_most("beyond-tsallis-0", "words", "measure", (1.0, *interval), 1.0)
    assert claim.verdict == verdict
    assert (claim.figure, claim.bar) == ("beyond-tsallis", "≤ 1")


def test_what_is_not_a_number_never_holds():
    nothing = (float("nan"),) * 3
    assert claim_at_least("fig1-a", "", "", nothing, 0.0).verdict == "undecided"
    assert claim_at_most("fig1-a", "", "", nothing, 0.0).verdict == "undecided"
