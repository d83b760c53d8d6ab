"""Plans in MiniGrid earn what the suite calls the best return."""

import gymnasium
import minigrid  # noqa: F401 (registers the ids)
import pytest

import gemax.integrations.registration  # noqa: F401 (registers the ids)
from gemax.experiments.explore.minigrid_plans import mean_return_of_plans, shortest_plan
from gemax.experiments.explore.suite import TASKS


@pytest.mark.parametrize(
    ("name", "num_layouts"),
    [
        ("door-key", 20),
        ("multi-room", 20),
        ("key-corridor", 5),
        ("key-corridor-large", 2),
        pytest.param("obstructed-maze", 4, marks=pytest.mark.slow),
        pytest.param("multi-room-large", 20, marks=pytest.mark.slow),
    ],
)
def test_every_plan_ends_its_task_with_about_the_best_return(name, num_layouts):
    task = TASKS[name]
    layouts = range(1_000_000, 1_000_000 + num_layouts)
    assert mean_return_of_plans(task.env_id, layouts) == pytest.approx(task.best, abs=0.03)


def test_a_plan_in_an_empty_room_turns_once():
    env = gymnasium.make("MiniGrid-Empty-5x5-v0")
    env.reset(seed=0)
    assert shortest_plan(env.unwrapped) == [2, 2, 1, 2, 2]
