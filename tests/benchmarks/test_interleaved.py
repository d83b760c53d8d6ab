"""The helper of the benchmarks compares calls that take turns."""

import importlib.util
import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "interleaved.py"
SPEC = importlib.util.spec_from_file_location("interleaved", SCRIPT)
interleaved = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(interleaved)


def test_calls_take_turns_after_a_first_call_of_each():
    order = []
    calls = {name: lambda name=name: order.append(name) for name in ("a", "b")}
    seconds = interleaved.measure_rounds(calls, 2)
    assert order == ["a", "b"] * 3
    assert {name: len(times) for name, times in seconds.items()} == {"a": 2, "b": 2}


def test_a_ratio_above_one_means_that_we_are_faster():
    ratio = interleaved.ratio_of(theirs=[2.0, 4.0, 6.0], ours=[1.0, 1.0, 1.0])
    assert ratio == interleaved.Ratio(4.0, 3.0, 5.0)


@pytest.mark.parametrize(("ratio", "has_fallen"), [(6.1, False), (5.9, True)])
def test_a_ratio_below_two_thirds_of_the_recorded_one_has_fallen(tmp_path, ratio, has_fallen):
    recorded = {"comparisons": [{"name": "ours / peer", "ratio": 9.0}]}
    (tmp_path / "script.json").write_text(json.dumps(recorded))
    rows = [{"name": "ours / peer", "ratio": ratio}, {"name": "not recorded", "ratio": 0.1}]
    assert bool(interleaved.fallen(str(tmp_path / "script.py"), rows)) == has_fallen
