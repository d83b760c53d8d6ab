"""A short run of the fuzzer. `make fuzz` runs a million inputs."""

import warnings

import pytest

from tests.fuzzing import fuzz, make_targets

NUM_INPUTS = 2_000
"""Of all targets together; each has its share."""


@pytest.mark.fault(56)
def test_damaged_inputs_are_read_or_refused_with_our_own_errors(tmp_path):
    for name, target in make_targets(tmp_path).items():
        num_inputs = max(3, round(target.share * NUM_INPUTS))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcomes, crashes = fuzz(name, target, num_inputs)
        assert crashes == [], name
        assert sum(outcomes.values()) == num_inputs
