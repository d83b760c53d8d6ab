"""The tables of tasks and methods decide the runs."""

from pathlib import Path

import gymnasium
import pytest

import gemax.integrations.registration  # noqa: F401 (registers the ids)
from gemax.envs.host.make import gym_maker
from gemax.experiments.explore.suite import (
    DEFAULT,
    METHODS,
    TASKS,
    find_methods,
    find_tasks,
    plan_runs,
    run_config,
)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_a_task_can_be_made_and_has_the_actions_that_its_row_says(task):
    env = gym_maker(f"gym:{task.env_id}")()
    assert isinstance(env.action_space, gymnasium.spaces.Discrete) is task.has_discrete_actions
    assert task.random < task.solved <= task.best
    assert task.threshold == env.spec.reward_threshold


def test_normalised_returns_are_zero_for_a_random_policy_and_one_for_the_best():
    for task in TASKS.values():
        assert task.normalise(task.random) == 0
        assert task.normalise(task.best) == 1


def test_a_task_without_a_threshold_is_solved_by_nine_tenths_of_the_best_return():
    assert TASKS["multi-room"].solved == pytest.approx(0.9 * 0.65)
    assert TASKS["mountain-car"].solved == -110


def test_the_default_method_runs_with_five_seeds_everywhere_and_the_others_with_three():
    runs = plan_runs(find_tasks(["all"]))
    counts = {(run.task.name, run.method.name): 0 for run in runs}
    for run in runs:
        counts[run.task.name, run.method.name] += 1
    assert all(counts[task, DEFAULT.name] == 5 for task in TASKS)
    assert {number for (_, method), number in counts.items() if method != DEFAULT.name} == {3}
    assert {task for task, method in counts if method == "rnd" and task.startswith("deep-sea")} == {
        "deep-sea-10",
        "deep-sea-20",
        "deep-sea-30",
    }
    assert ("obstructed-maze", "rnd") not in counts


def test_methods_that_need_discrete_actions_skip_continuous_tasks():
    runs = plan_runs(find_tasks(["point-mass"]))
    assert {run.method.name for run in runs}.isdisjoint({"ngu", "ngu-rnd", "e3b"})
    assert plan_runs(find_tasks(["point-mass"]), find_methods(["ngu"])) == []


def test_every_run_has_its_own_configuration():
    runs = plan_runs(find_tasks(["all"]), find_methods(["all"]))
    assert len({run.config for run in runs}) == len(runs)


def test_the_default_method_and_small_tasks_are_trained_first():
    runs = plan_runs(find_tasks(["all"]))
    assert [run.seed for run in runs[:10]] == [0] * 10
    assert runs[0].method == DEFAULT
    assert runs[-1].task.group == "large"


def test_only_method_seed_and_budget_differ_from_the_defaults_of_train():
    from gemax.training.presets import configure

    config = run_config(TASKS["door-key"], METHODS["rnd"], seed=2)
    default = configure("gym:MiniGrid-DoorKey-8x8-v0", method="rnd").flat
    changed = {name for name, value in config.flat.items() if value != default[name]}
    assert changed == {"seed", "updates"}
    assert (
        0
        <= config.run.updates * config.frames_per_update - TASKS["door-key"].frames // 2
        < config.frames_per_update
    )


def test_the_other_methods_have_half_of_the_budget_and_at_most_500000_frames_except_in_deep_sea():
    for name, share in (("acrobot", 0.5), ("key-corridor", 0.5), ("multi-room", 0.25), ("deep-sea-20", 1.0)):
        default, other = (run_config(TASKS[name], METHODS[method]).run.updates for method in ("gem", "e3b"))
        assert other == pytest.approx(share * default, abs=1)


def test_a_scale_changes_the_budget():
    full, tenth = (run_config(TASKS["door-key"], DEFAULT, scale).run.updates for scale in (1.0, 0.1))
    assert tenth == pytest.approx(full / 10, abs=1)


def test_a_group_names_its_tasks():
    assert [task.name for task in find_tasks(["large"])] == [
        "multi-room-large", "key-corridor-large", "obstructed-maze",
    ]  # fmt: skip
    assert len(find_tasks(["core", "door-key"])) == 10


def test_unknown_names_are_refused_with_a_suggestion():
    with pytest.raises(ValueError, match="Did you mean door-key"):
        find_tasks(["dor-key"])
    with pytest.raises(ValueError, match="method must be one of all, gem"):
        find_methods(["foo"])


def test_the_documentation_lists_every_task_with_its_budget():
    page = (Path(__file__).parents[3] / "docs" / "explore.md").read_text()
    for task in TASKS.values():
        if task.group != "deep-sea":
            assert f"| `{task.name}` | `{task.env_id}` | {task.frames:,} |" in page
