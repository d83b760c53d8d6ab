"""The table has every method of every task, and decides the claims about the default."""

import math

import numpy as np
import pytest

from gemax.experiments.explore.plot import plot_curves
from gemax.experiments.explore.suite import TASKS, find_tasks, plan_runs
from gemax.experiments.explore.table import (
    format_frames,
    is_kept,
    median_frames,
    return_at,
    write_table,
)


def fake_record(task, method="gem", seed=0, *, frames=100_000, final=1.0, peak=1.0):
    """The record of a run that solves its task at `frames` and ends with a normalised return of `final`."""
    row = TASKS[task]
    value = row.random + final * (row.best - row.random)
    return {
        "task": task, "method": method, "seed": seed, "frames": row.frames, "seconds": 100.0 + seed,
        "frames_to_solve": frames, "episodes_to_solve": None if frames is None else 5000,
        "is_solved": value >= row.solved - 1e-6, "return_sampled": value, "return_greedy": value,
        "peak_normalised": peak, "final_normalised": final,
        "curve": {"frames": [1000.0, row.frames], "return": [0.0, value]},
    }  # fmt: skip


RUNS = plan_runs(find_tasks(["core", "deep-sea"]))


def all_solved(**changes):
    """Records of the default method, all solved, except for the changed ones, given by task and seed."""
    gem = [run for run in RUNS if run.method.name == "gem"]
    return [
        fake_record(run.task.name, seed=run.seed, **changes.get(f"{run.task.name}/{run.seed}", {}))
        for run in gem
    ]


def lines(records, failures=None):
    """The lines of the table that start with these words."""
    text = write_table(RUNS, records, failures or {})
    return lambda start: [line for line in text.split("\n") if line.startswith(start)]


def test_a_row_has_counts_and_medians_over_seeds():
    records = [
        fake_record("door-key", seed=seed, frames=frames)
        for seed, frames in enumerate([90_000, 110_000, 120_000, 130_000, None])
    ]
    (row,) = lines(records)("| DoorKey-8x8 | GEM |")
    assert (
        row == "| DoorKey-8x8 | GEM | 5 of 5 | 120 k | 0.977 | 400 k | 5 of 5 | 0.977 | 0.977 | 1.00 | 102 |"
    )


def test_returns_after_some_frames_are_read_off_the_curve():
    curve = {"frames": [1000, 3000, 4000], "return": [0.2, 0.4, 0.9]}
    assert return_at({"curve": curve}, 2000) == pytest.approx(0.3)
    assert return_at({"curve": curve}, 5000) == 0.9
    assert math.isnan(return_at({"curve": curve}, 500))
    assert math.isnan(return_at({"curve": {"frames": [], "return": []}}, 2000))


def test_methods_are_compared_at_the_end_of_the_shortest_run():
    """Also if all budgets were scaled: GEM's return of 1 came after the other method's run had ended."""
    gem = fake_record("door-key") | {"frames": 40_000, "curve": {"frames": [2e4, 4e4], "return": [0.25, 1.0]}}
    other = fake_record("door-key", "rnd") | {
        "frames": 20_000,
        "curve": {"frames": [1e4, 2e4], "return": [0.0, 0.5]},
    }
    found = lines([gem, other])
    assert found("| DoorKey-8x8 | GEM |")[0].split(" | ")[4] == "0.25"
    assert found("| DoorKey-8x8 | RND |")[0].split(" | ")[4] == "0.5"
    assert lines([gem])("| DoorKey-8x8 | GEM |")[0].split(" | ")[4] == "1"


def test_unsupported_methods_are_marked():
    (row,) = lines([fake_record("point-mass")])("| point mass | NGU |")
    assert row.count("n/a") == 9


def test_missing_runs_are_counted():
    (row,) = lines([fake_record("door-key")])("| DoorKey-8x8 | GEM |")
    assert "| 1 of 1 (of 5) |" in row


def test_all_claims_hold_if_everything_is_solved():
    found = lines(all_solved())
    for claim in ("The frozen sampled", "No environment", "No run", "DoorKey-8x8 is", "KeyCorridorS3R3 is"):
        (line,) = found(f"| {claim}")
        assert line.endswith("| holds |")
    (deep_sea,) = found("| DeepSea: sizes")
    assert "| 7 of 7 (" in deep_sea


def test_no_claim_is_decided_in_favour_while_runs_are_missing():
    found = lines(all_solved()[1:])
    for claim in ("The frozen sampled", "No environment", "No run"):
        assert found(f"| {claim}")[0].endswith("| – |")


@pytest.mark.parametrize(
    ("changes", "claim", "measured"),
    [
        (
            {f"door-key/{seed}": {"final": 0.5} for seed in range(5)}
            | {"acrobot/0": {"final": 0.0, "peak": 0.0}},
            "The frozen sampled",
            "44 of 50",
        ),
        ({f"acrobot/{seed}": {"final": 0.0, "peak": 0.0} for seed in (0, 3)}, "No environment", "Acrobot: 2"),
        ({"two-rooms/1": {"final": 0.9, "peak": 1.01}}, "No run", "2-Rooms seed 1"),
        ({f"door-key/{seed}": {"frames": 126_000} for seed in range(3)}, "DoorKey-8x8 is", "126 k"),
        ({f"key-corridor/{seed}": {"frames": None} for seed in range(3)}, "KeyCorridorS3R3 is", "never"),
    ],
)
def test_a_claim_does_not_hold_if_its_runs_fail(changes, claim, measured):
    (line,) = lines(all_solved(**changes))(f"| {claim}")
    assert line.endswith(f"| {measured} | does not hold |")


def test_deep_sea_counts_the_sizes_that_the_median_seed_solves():
    changes = {f"deep-sea-50/{seed}": {"frames": None} for seed in range(3)}
    changes |= {f"deep-sea-40/{seed}": {"frames": None} for seed in range(2)}
    (line,) = lines(all_solved(**changes))("| DeepSea: sizes")
    assert "| 6 of 7 (DeepSea 10, DeepSea 14, DeepSea 20, DeepSea 24, DeepSea 30, DeepSea 40) |" in line


def test_a_run_that_never_rose_is_kept():
    assert is_kept(fake_record("door-key", final=0.0, peak=0.0))
    assert is_kept(fake_record("door-key", final=0.0) | {"peak_normalised": None})
    assert not is_kept(fake_record("door-key", final=0.0, peak=0.05))


def test_the_median_of_frames_ignores_how_late_the_slow_half_is():
    records = [fake_record("door-key", frames=frames) for frames in (10, None, 20, None)]
    assert median_frames(records) == float("inf")
    assert median_frames(records[:3]) == 20


def test_failures_are_listed():
    assert "- door-key-gem-0: out of memory" in write_table(RUNS, [], {"door-key-gem-0": "out of memory"})


def test_frames_are_in_thousands_or_millions():
    assert [format_frames(number) for number in (999, 125_000, 2_500_000, float("inf"))] == [
        "1 k", "125 k", "2.50 M", "never",
    ]  # fmt: skip


def test_the_figure_has_one_panel_per_task_with_runs():
    records = [fake_record("door-key"), fake_record("acrobot"), fake_record("door-key", "rnd")]
    figure = plot_curves(records)
    assert [axis.get_title() for axis in figure.axes] == ["Acrobot", "DoorKey-8x8"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["GEM", "RND"]


def test_the_curve_of_a_shorter_run_ends_where_the_run_ends():
    short = fake_record("door-key", "rnd") | {"curve": {"frames": [1000.0, 200_000.0], "return": [0.0, 0.5]}}
    figure = plot_curves([fake_record("door-key"), short])
    drawn = {line.get_color(): line for line in figure.axes[0].get_lines() if len(line.get_xdata()) > 2}
    ends = {colour: line.get_xdata()[np.isfinite(line.get_ydata())].max() for colour, line in drawn.items()}
    assert ends["tab:blue"] == pytest.approx(400)
    assert ends["tab:green"] == pytest.approx(200, abs=5)
