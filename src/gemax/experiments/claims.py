"""A claim of the paper, and what became of it."""

from typing import Any, NamedTuple

from gemax.experiments.statistics import Estimate


class Claim(NamedTuple):
    """One sentence of the paper that numbers can decide."""

    id: str
    """Begins with the name of its experiment."""
    figure: str
    claim: str
    holds: bool
    """Whether the number is where the claim puts it, with the whole of its interval."""
    verdict: str
    """`holds`; `does not hold` if the whole interval is on the other side of the bar; `undecided` if it crosses it."""
    measure: str
    """What the number is."""
    value: float
    interval: tuple[float, float]
    """95 %."""
    bar: str
    """Where the claim puts it."""
    numbers: dict[str, Any]
    """What the verdict rests on, seed by seed."""


def claim_at_least(
    name: str, claim: str, measure: str, estimate: Estimate, bar: float, **numbers: Any
) -> Claim:
    """A claim that a number is this large."""
    _, low, high = estimate
    verdict = "holds" if low >= bar else "does not hold" if high < bar else "undecided"
    return _claim(name, claim, measure, estimate, f"≥ {bar:g}", verdict, numbers)


def claim_at_most(
    name: str, claim: str, measure: str, estimate: Estimate, bar: float, **numbers: Any
) -> Claim:
    """A claim that a number is no larger than this."""
    _, low, high = estimate
    verdict = "holds" if high <= bar else "does not hold" if low > bar else "undecided"
    return _claim(name, claim, measure, estimate, f"≤ {bar:g}", verdict, numbers)


def _claim(
    name: str, claim: str, measure: str, estimate: Estimate, bar: str, verdict: str, numbers: dict[str, Any]
) -> Claim:
    value, low, high = estimate
    kind, rest = name.split("-")[:2]
    figure = kind if kind.startswith("fig") else f"{kind}-{rest}"
    return Claim(name, figure, claim, verdict == "holds", verdict, measure, value, (low, high), bar, numbers)
