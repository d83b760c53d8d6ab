"""Worker processes that train runs one after the other."""

from pathlib import Path

from gemax.launch.worker import finished_fraction
from gemax.runs.metrics_file import append_metrics


def test_the_finished_fraction_does_not_depend_on_the_number_of_lines(tmp_path: Path):
    """Compiled runs write a line every few updates, others every update."""
    assert finished_fraction(tmp_path, updates=10) == 0.0
    append_metrics(tmp_path / "metrics.jsonl", 2, {"return": 0.0})
    assert finished_fraction(tmp_path, updates=10) == 0.2
    append_metrics(tmp_path / "metrics.jsonl", 5, {"return": 0.0})
    assert finished_fraction(tmp_path, updates=10) == 0.5
    append_metrics(tmp_path / "metrics.jsonl", 12, {"return": 0.0})
    assert finished_fraction(tmp_path, updates=10) == 1.0
