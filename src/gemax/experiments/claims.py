"""Claims of the paper, decided by a number and its confidence interval."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gemax.experiments import measures, statistics
from gemax.experiments.records import Record
from gemax.experiments.statistics import Estimate, PerSeed
from gemax.runs.solving import reaches

MIN_SEEDS = 2
"""With less seeds, a claim about every seed is undecided."""


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
    other side, `undecided` if the interval contains the bar, or if unsolved runs make the ratio a bound on the side
    that does not decide. A claim about every seed holds if it is true of every seed, and otherwise does not hold."""
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
    unsolved: str = ""
    """How many seeds of each group did not solve the environment, if the value is a ratio of updates to solve."""


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

    Groups are not pooled: value and interval are those of the group with the smallest share. The interval is that of
    the probability that the claim is true of another seed.
    """
    counts = {name: (int((values > 0).sum()), len(values)) for name, values in groups.items()}
    # Of groups with the same share, the one with the fewest seeds has the widest interval.
    worst = min(counts, key=lambda name: (counts[name][0] / max(counts[name][1], 1), counts[name][1]))
    successes, num_seeds = (sum(numbers) for numbers in zip(*counts.values(), strict=True))
    verdict = "holds" if successes == num_seeds else "does not hold"
    seed_count = f"{successes} of {num_seeds}"
    if len(counts) > 1 and successes < num_seeds:
        seed_count += "; {}: {} of {}".format(worst, *counts[worst])
    value, *interval = math.nan, math.nan, math.nan
    if min(length for _, length in counts.values()) < MIN_SEEDS:
        verdict, seed_count = "undecided", f"{seed_count}: too few seeds"
    else:
        value, *interval = statistics.estimate_share(*counts[worst])
    return Claim(
        claim_id,
        figure_of(claim_id),
        claim,
        verdict == "holds",
        verdict,
        measure,
        value,
        (interval[0], interval[1]),
        "every seed",
        {name: values.tolist() for name, values in groups.items()} | numbers,
        seed_count,
    )


def figure_of(claim_id: str) -> str:
    """Returns the name of a claim's experiment."""
    prefix, suffix = claim_id.split("-")[:2]
    return prefix if prefix.startswith("fig") else f"{prefix}-{suffix}"


def id_of(label: str) -> str:
    """Returns a label as the last part of a claim's id: lower-case words with hyphens."""
    return "-".join(re.findall(r"[a-z0-9]+", label.lower()))


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


OTHER_MEASURES = {
    "ratio of the updates to half of the return": (measures.updates_to_half, statistics.estimate_ratio),
    "difference of the areas under the curve": (measures.return_areas, statistics.estimate_difference),
    "difference of the final returns": (measures.final_returns, statistics.estimate_difference),
}
"""Measures and estimates beside the updates to solve. A method can be slower to begin and more complete in the end."""
MEASURES_OF_EQUAL_LENGTH = (measures.return_areas, measures.final_returns)
"""The measures that depend on the length of a run. They end with the shortest run."""


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
    """Decides a claim by the ratio of the updates to solve of two groups: the numerator, then the denominator.

    An unsolved run counts with its length, so that the ratio is a bound. A verdict that would need the other bound is
    undecided. The numbers of the claim include the comparison by other measures, and how many runs of each group did
    not reach their thresholds.
    """
    hold = measures.shared_hold(list(groups.values()))
    crossings = {name: measures.updates_to_cross(records) for name, records in groups.items()}
    claim_by_ratio = decide_by_ratio(
        claim_id,
        claim,
        criterion,
        {name: measures.updates_to_solve(records, hold) for name, records in groups.items()},
        first_crossing={name: updates.tolist() for name, updates in crossings.items()},
        first_crossing_ratio=statistics.estimate_ratio(*crossings.values()),
        other_measures=_compare_by_other_measures(*groups.values()),
        not_crossed=_count_failures(groups, measures.has_crossed),
        not_halfway=_count_failures(groups, measures.reached_half),
    )
    return _with_unsolved(
        claim_by_ratio, _count_failures(groups, partial(measures.is_solved, hold=hold)), groups
    )


def _compare_by_other_measures(
    numerator: Sequence[Record], denominator: Sequence[Record]
) -> dict[str, Estimate]:
    updates = measures.shared_updates([numerator, denominator])
    found = {}
    for name, (measure, estimate) in OTHER_MEASURES.items():
        until = {"updates": updates} if measure in MEASURES_OF_EQUAL_LENGTH else {}
        found[name] = estimate(*(measure(records, **until) for records in (numerator, denominator)))
    return found


def _count_failures(groups: Mapping[str, Sequence[Record]], has_happened: measures.Measure) -> dict[str, int]:
    return {name: int(len(records) - has_happened(records).sum()) for name, records in groups.items()}


def _with_unsolved(
    claim: Claim, unsolved: Mapping[str, int], groups: Mapping[str, Sequence[Record]]
) -> Claim:
    """Returns the claim with the number of unsolved runs, undecided if their ratio is a bound on the other side."""
    numerator, denominator = unsolved.values()
    if not numerator + denominator:
        return claim
    # The ratio is a lower bound if runs of the numerator are unsolved, and an upper bound if those of the denominator.
    says_small = claim.bar.startswith("≤") == (claim.verdict == "holds")
    verdict = "undecided" if (numerator if says_small else denominator) else claim.verdict
    counts = [f"{number} of {len(groups[name])} {name}" for name, number in unsolved.items() if number]
    return claim._replace(verdict=verdict, holds=verdict == "holds", unsolved=", ".join(counts))
