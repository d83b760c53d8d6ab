"""The tasks and methods of `gemax bench explore`: one row each, and the runs that follow from them."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from gemax.experiments.experiment import SMOKE
from gemax.rewards.registry import METHODS as REWARDS
from gemax.settings import did_you_mean
from gemax.training.config import Config
from gemax.training.presets import configure

Group: TypeAlias = Literal["core", "deep-sea", "large"]

SOLVED_SHARE = 0.9
"""A task is solved by this share of what the shortest plans earn, unless Gymnasium registers a threshold."""
SHARE_OF_OTHERS = 0.5
"""Budget of the methods other than the default in the group `core`, relative to the budget of the default."""
MAX_FRAMES_OF_OTHERS = 500_000
"""Largest budget of these methods in the group `core`."""


class Task(NamedTuple):
    """One environment, and what counts as solving it."""

    name: str
    title: str
    env_id: str
    """Id of the environment in Gymnasium."""
    frames: int
    """Budget of a run of the default method."""
    random: float
    """Mean return of a random policy."""
    best: float
    """Mean return of the shortest plans, or the threshold that Gymnasium registers."""
    threshold: float | None = None
    """Return that Gymnasium registers as solved, if any."""
    group: Group = "core"
    package: str = "gymnasium"
    """The package to install."""
    has_discrete_actions: bool = True
    is_for_all_methods: bool = True
    """Whether all methods run by default, not only the first one."""

    @property
    def solved(self) -> float:
        """The mean return that solves the task."""
        return SOLVED_SHARE * self.best if self.threshold is None else self.threshold

    @property
    def frames_of_others(self) -> int:
        """Budget of a run of the other methods. DeepSea's is fixed by its 10,000 episodes."""
        if self.group != "core":
            return self.frames
        return min(round(self.frames * SHARE_OF_OTHERS), MAX_FRAMES_OF_OTHERS)

    def normalise(self, value: float) -> float:
        """Returns a return on the scale from 0, a random policy, to 1, the best one."""
        return (value - self.random) / (self.best - self.random)


class ExploreMethod(NamedTuple):
    """An intrinsic reward with its settings. All other settings are the defaults of `gemax train`."""

    name: str
    title: str
    settings: Mapping[str, Any]
    colour: str
    num_seeds: int = 3

    def supports(self, task: Task) -> bool:
        """Returns whether the method can be used in a task."""
        return task.has_discrete_actions or not REWARDS[self.settings["method"]].needs_discrete_actions


class ExploreRun(NamedTuple):
    """One run of the suite."""

    task: Task
    method: ExploreMethod
    seed: int
    config: Config


def _deep_sea(size: int) -> Task:
    return Task(
        f"deep-sea-{size}",
        f"DeepSea {size}",
        f"gemax/DeepSea-N{size}-v0",
        # bsuite's number of episodes.
        frames=10_000 * size,
        random=-0.005,
        best=0.99,
        group="deep-sea",
        is_for_all_methods=size in (10, 20, 30),
    )


# The best returns in MiniGrid are means of `minigrid_plans` over the layouts from 1,000,000 on: 20 of ObstructedMaze,
# 200 of the others. The returns of random policies are means over 100 to 1,000 episodes.
_ROWS = (
    Task("key-and-door", "key and door", "gemax/KeyAndDoor-v0", 300_000, random=0.0, best=1.0),
    Task(
        "point-mass", "point mass", "gemax/PointMass-v0", 500_000, random=0.0, best=1.0,
        has_discrete_actions=False,
    ),
    Task(
        "mountain-car", "MountainCar", "MountainCar-v0", 500_000, random=-200.0, best=-110.0, threshold=-110.0
    ),
    Task(
        "mountain-car-continuous", "MountainCarContinuous", "MountainCarContinuous-v0", 200_000, random=-33.2,
        best=90.0, threshold=90.0, has_discrete_actions=False,
    ),
    Task("acrobot", "Acrobot", "Acrobot-v1", 300_000, random=-498.0, best=-100.0, threshold=-100.0),
    Task("two-rooms", "2-Rooms", "gemax/TwoRoomsCells-v0", 300_000, random=0.0, best=1.0),
    Task("sixteen-leaves", "16-Leaves", "gemax/SixteenLeavesCells-v0", 3_000_000, random=0.0, best=1.0),
    Task(
        "door-key", "DoorKey-8x8", "MiniGrid-DoorKey-8x8-v0", 400_000, random=0.009, best=0.977,
        package="minigrid",
    ),
    Task(
        "multi-room", "MultiRoom-N6", "MiniGrid-MultiRoom-N6-v0", 2_000_000, random=0.0, best=0.65,
        package="minigrid",
    ),
    Task(
        "key-corridor", "KeyCorridorS3R3", "MiniGrid-KeyCorridorS3R3-v0", 1_000_000, random=0.0, best=0.932,
        package="minigrid",
    ),
    *(_deep_sea(size) for size in (10, 14, 20, 24, 30, 40, 50)),
    Task(
        "multi-room-large", "MultiRoom-N12-S10", "gemax/MultiRoom-N12-S10-v0", 10_000_000, random=0.0, best=0.66,
        group="large", package="minigrid", is_for_all_methods=False,
    ),
    Task(
        "key-corridor-large", "KeyCorridorS4R3", "MiniGrid-KeyCorridorS4R3-v0", 10_000_000, random=0.0,
        best=0.949, group="large", package="minigrid", is_for_all_methods=False,
    ),
    Task(
        "obstructed-maze", "ObstructedMaze-2Dlhb", "MiniGrid-ObstructedMaze-2Dlhb-v1", 10_000_000, random=0.0,
        best=0.964, group="large", package="minigrid", is_for_all_methods=False,
    ),
)  # fmt: skip
TASKS = {task.name: task for task in _ROWS}

# The only place that knows the settings of the methods.
_METHOD_ROWS = (
    ExploreMethod("gem", "GEM", {"method": "gem"}, "tab:blue", num_seeds=5),
    ExploreMethod("gem-global", "GEM over episodes", {"method": "gem", "episodic_weight": 0.0}, "tab:pink"),
    ExploreMethod(
        "gem-episode", "GEM within episodes", {"method": "gem", "episodic_weight": 1.0}, "tab:purple"
    ),
    ExploreMethod("ngu", "NGU", {"method": "ngu"}, "tab:orange"),
    ExploreMethod("ngu-rnd", "NGU+RND", {"method": "ngu-rnd"}, "tab:red"),
    ExploreMethod("rnd", "RND", {"method": "rnd"}, "tab:green"),
    ExploreMethod("e3b", "E3B", {"method": "e3b"}, "tab:brown"),
    ExploreMethod("re3", "RE3", {"method": "re3"}, "tab:cyan"),
    ExploreMethod("none", "none", {"method": "none"}, "0.5"),
)
METHODS = {method.name: method for method in _METHOD_ROWS}
DEFAULT = _METHOD_ROWS[0]
"""The method that runs in all tasks. The claims are about it."""

_SMOKE_UPDATES = {"updates": 10, "updates_per_call": 5, "checkpoint_every": 10}


def find_tasks(names: Sequence[str]) -> list[Task]:
    """Returns tasks by their names, the names of their groups, or `all`.

    Raises:
        ValueError: A name is unknown.
    """
    known = ["all", *dict.fromkeys(task.group for task in _ROWS), *TASKS]
    _check_names("task", names, known)
    return [task for task in _ROWS if {"all", task.group, task.name} & set(names)]


def find_methods(names: Sequence[str]) -> list[ExploreMethod]:
    """Returns methods by their names, or `all`.

    Raises:
        ValueError: A name is unknown.
    """
    _check_names("method", names, ["all", *METHODS])
    return [method for method in _METHOD_ROWS if {"all", method.name} & set(names)]


def plan_runs(
    tasks: Sequence[Task],
    methods: Sequence[ExploreMethod] | None = None,
    *,
    num_seeds: int | None = None,
    frames_scale: float = 1.0,
    smoke: bool = False,
) -> list[ExploreRun]:
    """Returns the runs in the order of training: the default method first, then by seed.

    Args:
        tasks: The tasks.
        methods: The methods, in every task that supports them. By default all, but only the default method in tasks
            that are not for all methods.
        num_seeds: Seeds per task and method. By default, the number of each method.
        frames_scale: Factor of the budgets.
        smoke: Train a few updates of tiny networks: the default method in every task, the others in the first one.
    """
    runs = []
    for task in tasks:
        chosen = methods
        if chosen is None:
            is_for_all = task == tasks[0] if smoke else task.is_for_all_methods
            chosen = _METHOD_ROWS if is_for_all else [DEFAULT]
        for method in chosen:
            seeds = 1 if smoke else num_seeds or method.num_seeds
            if method.supports(task):
                configs = (
                    run_config(task, method, frames_scale, smoke=smoke, seed=seed) for seed in range(seeds)
                )
                runs += [ExploreRun(task, method, config.run.seed, config) for config in configs]
    return sorted(runs, key=lambda run: (run.task.group == "large", run.method != DEFAULT, run.seed))


def run_config(
    task: Task, method: ExploreMethod, frames_scale: float = 1.0, *, smoke: bool = False, seed: int = 0
) -> Config:
    """Returns the configuration of a run: the defaults, the settings of the method and its budget in the task."""
    config = configure(f"gym:{task.env_id}", seed=seed, **method.settings)
    if smoke:
        return config.replace(**SMOKE | _SMOKE_UPDATES)
    frames = task.frames if method == DEFAULT else task.frames_of_others
    updates = -(-round(frames * frames_scale) // config.frames_per_update)
    return config.replace(updates=max(updates, 1))


def _check_names(kind: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(
                f"{kind} must be one of {', '.join(known)}; got {name!r}.{did_you_mean(name, known)}"
            )
