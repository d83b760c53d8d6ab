import pytest

from gemax.runs.metric_logger import mean_line, metrics_line
from gemax.runs.summary import is_solved, summary_of_seed
from gemax.training.assemble import assemble
from gemax.training.presets import configure

CONFIG = configure("two-rooms", num_envs=8, unroll_length=5, unroll_period=5)
METRICS = {
    "return": 0.0,
    "recent_return": 0.0,
    "recent_return_std": 0.0,
    "episodes": 0.0,
    "visitation_entropy": 2.0,
    "coverage": 0.5,
    "consecutive_nonfinite": 0.0,
}


def line(update=10, **changes):
    return metrics_line(CONFIG, update, 1.5, METRICS | changes, ceiling=4.0)


def test_there_is_no_return_before_an_episode_has_ended():
    assert line()["return"] is None
    assert line(episodes=1.0)["return"] == 0.0
    assert (line()["frames"], line()["entropy_share"]) == (400, 0.5)


def test_without_a_ceiling_there_is_no_entropy_share():
    assert "entropy_share" not in metrics_line(CONFIG, 10, 1.5, METRICS, ceiling=None)


@pytest.fixture(scope="module")
def trainer():
    return assemble(CONFIG)


def test_the_mean_over_seeds_skips_missing_values(trainer):
    lines = [line(), line(episodes=1000.0, **{"return": 0.97}), line(episodes=2000.0, **{"return": 0.5})]
    mean = mean_line(trainer.spec, lines)
    assert mean["return"] == pytest.approx(0.735)
    assert mean["episodes"] == 1000
    assert (mean["update"], mean["frames"], mean["seconds"]) == (10, 400, 1.5)
    assert (mean["seeds"], mean["seeds_solved"]) == (3, 1)
    assert mean_line(trainer.spec, [line(), line()])["return"] is None


def test_solving_takes_the_mean_of_a_thousand_episodes(trainer):
    lucky = line(episodes=30.0, **{"return": 1.0})
    solved = line(20, episodes=1000.0, **{"return": 0.97})
    assert not is_solved(trainer.spec, line())
    assert not is_solved(trainer.spec, lucky)
    summary = summary_of_seed(trainer, [line(), lucky, solved], 20, 3.0, 4.0)
    assert (summary["solved_at_update"], summary["return"]) == (20, 0.97)
    assert summary["first_crossing_update"] == 20
    assert summary_of_seed(trainer, [line()], 10, 3.0, 4.0)["return"] is None
    assert summary_of_seed(trainer, [], 0, 0.0, None)["visitation_entropy"] is None


def test_a_return_that_is_lost_again_is_a_first_crossing_but_not_solved(trainer):
    returns = (0.0, 0.949999988, 0.9499, 0.96, 0.97)
    lines = [line(10 * i, episodes=1000.0, **{"return": value}) for i, value in enumerate(returns, start=1)]
    held, lost = (summary_of_seed(trainer, lines[:end], 50, 3.0, 4.0) for end in (5, 3))
    assert (held["first_crossing_update"], held["solved_at_update"]) == (20, 40)
    assert (lost["first_crossing_update"], lost["solved_at_update"]) == (20, None)
    assert (held["first_crossing_seconds"], lost["solved_at_seconds"]) == (1.5, None)


def test_the_summary_of_a_frozen_seed_names_what_was_not_finite(trainer):
    bad = line(consecutive_nonfinite=10.0, coverage=None)
    summary = summary_of_seed(trainer, [line(), bad], 10, 3.0, 4.0)
    assert (summary["status"], summary["not_finite"]) == ("frozen", ["coverage"])
