"""Claims of the paper, decided by a number and its confidence interval."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gemax.experiments import measures, statistics
from gemax.experiments.records import Record
from gemax.experiments.statistics import Estimate, PerSeed
from gemax.runs.solving import reaches


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
    other side, `undecided` if the interval contains the bar. A claim about every seed holds if it is true of every
    seed, and otherwise does not hold."""
    measure: str
    """What `value` measures."""
    value: float
    interval: tuple[float, float]
    """95 % confidence interval of `value`."""
    bar: str
    """The claimed bound on `value`."""
    numbers: dict[str, Any]
    """The values that the verdict depends on, usually one per seed."""
    seed_count: str = ""
    """The value as a count, such as "19 of 20", if it is a share of the seeds."""


def decide(claim_id: str, claim: str, criterion: str, estimate: Estimate, **numbers: Any) -> Claim:
    """Decides a claim by an estimate.

    `criterion` is the measure with its bar, such as "final return, GEM - NGU ≥ 0.05".
    """
    measure, sign, bar = criterion.rsplit(" ", 2)
    value, low, high = estimate
    if sign == "≥":
        holds, contains_bar = reaches(low, float(bar)), reaches(high, float(bar))
    else:
        holds, contains_bar = reaches(-high, -float(bar)), reaches(-low, -float(bar))
    is_known = not np.isnan([low, high]).any()
    verdict = "holds" if holds else "does not hold" if is_known and not contains_bar else "undecided"
    return Claim(
        claim_id,
        figure_of(claim_id),
        claim,
        verdict == "holds",
        verdict,
        measure,
        value,
        (low, high),
        f"{sign} {bar}",
        numbers,
    )


def decide_for_every_seed(
    claim_id: str, claim: str, measure: str, groups: Mapping[str, PerSeed], **numbers: Any
) -> Claim:
    """Decides a claim that must be true of every seed of all groups, given 1 for each seed where it is and else 0.

    The interval is that of the probability that it is true of another seed.
    """
    is_true = np.concatenate(list(groups.values())) > 0
    successes, num_seeds = int(is_true.sum()), len(is_true)
    value, *interval = statistics.estimate_share(successes, num_seeds)
    verdict = "holds" if successes == num_seeds else "does not hold"
    return Claim(
        claim_id,
        figure_of(claim_id),
        claim,
        successes == num_seeds,
        verdict,
        measure,
        value,
        (interval[0], interval[1]),
        "every seed",
        {name: values.tolist() for name, values in groups.items()} | numbers,
        f"{successes} of {num_seeds}",
    )


def figure_of(claim_id: str) -> str:
    """Returns the name of a claim's experiment."""
    prefix, suffix = claim_id.split("-")[:2]
    return prefix if prefix.startswith("fig") else f"{prefix}-{suffix}"


def decide_by_estimate(
    estimate: Callable[..., Estimate],
    claim_id: str,
    claim: str,
    criterion: str,
    groups: Mapping[str, PerSeed],
    **numbers: Any,
) -> Claim:
    """Decides a claim by an estimate of named groups of seeds, given in the order of the estimate's arguments."""
    numbers = {name: values.tolist() for name, values in groups.items()} | numbers
    return decide(claim_id, claim, criterion, estimate(*groups.values()), **numbers)


decide_by_mean = partial(decide_by_estimate, statistics.estimate_mean)
decide_by_ratio = partial(decide_by_estimate, statistics.estimate_ratio)
decide_by_difference = partial(decide_by_estimate, statistics.estimate_difference)


def decide_by_solving(claim_id: str, claim: str, groups: Mapping[str, Sequence[Record]]) -> Claim:
    """Decides whether every seed of all groups solved its environment until the end."""
    return decide_for_every_seed(
        claim_id,
        claim,
        "seeds that solved it",
        {name: measures.is_solved(records) for name, records in groups.items()},
        solved_at={name: measures.updates_to_solve(records).tolist() for name, records in groups.items()},
        first_crossing={
            name: measures.updates_to_cross(records).tolist() for name, records in groups.items()
        },
    )


def decide_by_speed(
    claim_id: str, claim: str, criterion: str, groups: Mapping[str, Sequence[Record]]
) -> Claim:
    """Decides a claim by the ratio of the updates to solve. The same ratio for the first crossing is in its numbers."""
    crossings = {name: measures.updates_to_cross(records) for name, records in groups.items()}
    return decide_by_ratio(
        claim_id,
        claim,
        criterion,
        {name: measures.updates_to_solve(records) for name, records in groups.items()},
        first_crossing={name: updates.tolist() for name, updates in crossings.items()},
        first_crossing_ratio=statistics.estimate_ratio(*crossings.values()),
    )
