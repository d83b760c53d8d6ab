"""A short run of the fuzzer. `make fuzz` runs a million inputs."""

import warnings

import pytest

from tests.fuzz_targets import make_targets
from tests.fuzzing import fuzz, fuzz_structured, structured_targets

NUM_INPUTS = 2_000
"""Of all targets together; each has its share."""
NUM_STRUCTURED = 150


@pytest.fixture(autouse=True)
def ignore_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.fault(56, times=NUM_INPUTS)
def test_damaged_inputs_are_read_or_refused_with_our_own_errors(tmp_path):
    for name, target in make_targets(tmp_path).items():
        num_inputs = max(3, round(target.share * NUM_INPUTS))
        report = fuzz(target, num_inputs)
        assert report.crashes == [], name
        assert sum(report.outcomes.values()) == num_inputs


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.fault(row, times=NUM_STRUCTURED))
        for name, row in (("maps", 56), ("configurations", 56), ("spaces and observations", 23))
    ],
)
def test_inputs_of_every_structure_are_read_or_refused(name, tmp_path):
    strategy, target = structured_targets(tmp_path)[name]
    report = fuzz_structured(strategy, target, NUM_STRUCTURED)
    assert report.crashes == []
    assert report.outcomes["read"] > NUM_STRUCTURED // 20
    assert report.outcomes["refused"] > NUM_STRUCTURED // 20
