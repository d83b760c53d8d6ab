"""A record says when a task was solved, whether that lasted, and what the frozen policy earns."""

import numpy as np
import pytest

from gemax.experiments.explore.records import (
    curve_numbers,
    is_record_of,
    learning_curve,
    make_record,
    save_record,
)
from gemax.experiments.explore.suite import TASKS

TASK = TASKS["door-key"]


def curve(returns, episodes=None):
    """A curve with one point every 1,000 frames, each after 100 more episodes."""
    steps = np.arange(1, len(returns) + 1)
    return {
        "frames": 1000.0 * steps,
        "seconds": 1.0 * steps,
        "episodes": 100.0 * steps if episodes is None else np.asarray(episodes, float),
        "return": np.asarray(returns, float),
    }


def test_a_task_is_solved_at_the_first_crossing():
    numbers = curve_numbers(TASK, curve([0.0, 0.5, 0.9, 0.8, 0.95]))
    assert (numbers["frames_to_solve"], numbers["seconds_to_solve"], numbers["episodes_to_solve"]) == (
        3000,
        3,
        300,
    )
    assert numbers["frames_held_from"] == 5000
    assert numbers["peak_normalised"] == pytest.approx(0.95 / TASK.best, abs=0.01)


def test_a_return_that_falls_again_is_not_held():
    numbers = curve_numbers(TASK, curve([0.9, 0.9, 0.1]))
    assert numbers["frames_to_solve"] == 1000
    assert numbers["frames_held_from"] is None


def test_means_over_fewer_than_100_episodes_do_not_count():
    numbers = curve_numbers(TASK, curve([1.0, 0.2, 0.3], episodes=[99, 100, 120]))
    assert numbers["frames_to_solve"] is None
    assert numbers["peak_normalised"] == pytest.approx(TASK.normalise(0.3))


def test_a_run_without_100_episodes_has_no_peak():
    numbers = curve_numbers(TASK, curve([], episodes=[]))
    assert set(numbers.values()) == {None}


def test_rounding_does_not_decide_whether_a_task_is_solved():
    assert curve_numbers(TASK, curve([np.float32(TASK.solved) - 1e-7]))["frames_to_solve"] == 1000


def test_the_curve_has_the_recent_return_from_the_first_episode_on():
    line = {"frames": 10, "seconds": 1.0, "episodes": 5.0, "return": 0.1, "recent_return": 0.7}
    assert learning_curve([line | {"recent_return": None}, line])["return"] == [0.7]


# A trained run


def test_a_record_has_all_that_the_table_needs(trained):
    record = trained.record
    assert (record["task"], record["method"], record["seed"]) == ("deep-sea-10", "none", 0)
    assert record["env_id"] == "gemax/DeepSea-N10-v0"
    assert record["commit"] == "abc, then def"
    assert record["frames"] == trained.run.config.run.updates * trained.run.config.frames_per_update
    assert record["final_normalised"] == pytest.approx(trained.run.task.normalise(record["return_sampled"]))
    assert -0.01 <= record["return_greedy"] <= 0.99
    assert record["is_solved"] is False
    assert set(record["curve"]) == {"frames", "seconds", "episodes", "return"}
    assert record["config"] == trained.run.config.to_json()


def test_a_record_belongs_to_its_settings_only(trained):
    assert is_record_of(trained.path, trained.run.config)
    assert not is_record_of(trained.path, trained.run.config.replace(learning_rate=0.5))
    assert not is_record_of(trained.path.with_name("missing.json"), trained.run.config)


def test_a_record_with_an_unknown_setting_is_not_used(trained, tmp_path):
    config = trained.record["config"] | {"old": {"forgotten": 1}}
    save_record(tmp_path / "record.json", trained.record | {"config": config})
    assert not is_record_of(tmp_path / "record.json", trained.run.config)


def test_a_long_curve_is_thinned_to_500_points_with_the_last_one(trained, monkeypatch):
    from gemax.experiments.explore import records

    line = {"seconds": 1.0, "episodes": 200.0, "recent_return": 0.1}
    lines = [line | {"frames": number} for number in range(1, 2001)]
    monkeypatch.setattr(records, "read_metrics", lambda path: lines)
    thinned = make_record(trained.run, trained.folder / "run", 2)["curve"]["frames"]
    assert len(thinned) == 500
    assert (thinned[0], thinned[-1]) == (1, 2000)
