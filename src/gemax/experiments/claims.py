"""Claims of the paper, decided by a number and its confidence interval."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from gemax.experiments import statistics
from gemax.experiments.statistics import Estimate, PerSeed, Statistic


class Claim(NamedTuple):
    """One sentence of the paper, and the number that decides it."""

    id: str
    """Starts with the name of the experiment."""
    figure: str
    """Name of the experiment."""
    claim: str
    holds: bool
    verdict: str
    """`holds` if the whole interval is on the claimed side of the bar, `does not hold` if the whole interval is on the
    other side, `undecided` if the interval contains the bar."""
    measure: str
    """What `value` measures."""
    value: float
    interval: tuple[float, float]
    """95 % confidence interval of `value`."""
    bar: str
    """The claimed bound on `value`."""
    numbers: dict[str, Any]
    """The numbers of every seed that the verdict depends on."""


def decide(claim_id: str, claim: str, test: str, estimate: Estimate, **numbers: Any) -> Claim:
    """Decides a claim by an estimate. `test` is the measure with its bar, such as "final return, GEM - NGU ≥ 0.05"."""
    measure, sign, bar = test.rsplit(" ", 2)
    value, low, high = estimate
    if sign == "≥":
        holds, fails = low >= float(bar), high < float(bar)
    else:
        holds, fails = high <= float(bar), low > float(bar)
    verdict = "holds" if holds else "does not hold" if fails else "undecided"
    kind, rest = claim_id.split("-")[:2]
    figure = kind if kind.startswith("fig") else f"{kind}-{rest}"
    return Claim(
        claim_id, figure, claim, holds, verdict, measure, value, (low, high), f"{sign} {bar}", numbers
    )


def decide_by_statistic(
    statistic: Statistic, claim_id: str, claim: str, test: str, groups: Mapping[str, PerSeed], **numbers: Any
) -> Claim:
    """Decides a claim by a statistic of named groups of seeds, given in the order of the statistic's arguments."""
    numbers = {name: values.tolist() for name, values in groups.items()} | numbers
    return decide(claim_id, claim, test, statistics.bootstrap(statistic, *groups.values()), **numbers)


decide_by_mean = partial(decide_by_statistic, statistics.mean)
decide_by_ratio = partial(decide_by_statistic, statistics.ratio_of_means)
decide_by_difference = partial(decide_by_statistic, statistics.difference_of_means)
