"""Our agent in MiniGrid: two tasks, and four rooms that are explored without reward before they become a task.

`make bench-minigrid`. What `results/minigrid.json` holds already is not repeated; delete it to start anew.
"""

import contextlib
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import minigrid  # makes the ids known  # noqa: F401
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from minigrid_plans import shortest_plan

import gemax
from gemax.environments.base import Environment
from gemax.runs.files import write_json
from gemax.runs.policy import Policy
from gemax.runs.provenance import provenance
from gemax.runs.session import Run
from gemax.runs.starting import begin_run
from gemax.training.assemble import Own, assemble
from gemax.training.outside import train_outside
from gemax.training.presets import configure

ROOT = Path(__file__).parents[1]
RESULTS, RUNS = ROOT / "results" / "minigrid.json", ROOT / "runs" / "bench-minigrid"
TASKS = {"MiniGrid-MultiRoom-N2-S4-v0": 1000, "MiniGrid-DoorKey-6x6-v0": 1500}
"""How many updates each is trained for, of 256 frames."""
SEEDS = (0, 1, 2)
EPISODES = 200
FIRST_LAYOUT = 1_000_000
"""The seed of the first episode that is played after training."""

FOUR_ROOMS = "MiniGrid-FourRooms-v0"
EXPLORING = {"reward_free": True, "updates": 1500}
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "anywhere, ngu": ({}, {"method": "ngu"}),
    "anywhere, gem per episode": (
        {},
        # MiniGrid does not tell Gymnasium how long an episode is.
        {"method": "gem", "per_episode": True, "intrinsic_scale": 0.01, "horizon": 100},
    ),
    "corner, gem": ({"agent_pos": (1, 1)}, {"method": "gem"}),
}
"""Where episodes start, and what explores. GEM spreads the visits of all episodes together unless it is told otherwise:
those that start anywhere are spread as they are, and nothing is to be gained by going far in one of them."""
FINE_TUNED = {"anywhere, ngu": 10, "anywhere, gem per episode": 30}
"""With how many seeds. After ten of them it was open whether GEM helps."""
MOST_UPDATES = 300


def play(make: Callable[[], gymnasium.Env], policy: Policy | None) -> dict[str, float]:
    """Episodes on layouts that nobody was trained on, by a policy or by chance."""
    env, chance = make(), np.random.default_rng(0)
    returns, squares = [], []
    for layout in range(FIRST_LAYOUT, FIRST_LAYOUT + EPISODES):
        observation, _ = env.reset(seed=layout)
        if policy is not None:
            policy.reset()
        reward, earned, visited, is_over = 0.0, 0.0, {tuple(env.unwrapped.agent_pos)}, False
        while not is_over:
            action = int(chance.integers(7)) if policy is None else policy.act(observation, reward)
            observation, reward, terminated, truncated, _ = env.step(action)
            reward, is_over = float(reward), terminated or truncated
            earned += reward
            visited.add(tuple(env.unwrapped.agent_pos))
        returns.append(earned)
        squares.append(len(visited))
    return {
        "return": float(np.mean(returns)),
        "reached": float(np.mean(np.asarray(returns) > 0)),
        "squares": float(np.mean(squares)),
        "squares_error": float(np.std(squares, ddof=1) / np.sqrt(EPISODES)),
    }


def best_return(task: str) -> float:
    """What plans as short as any earn on the same layouts."""
    env, earned = gymnasium.make(task), []
    for layout in range(FIRST_LAYOUT, FIRST_LAYOUT + EPISODES):
        env.reset(seed=layout)
        plan = shortest_plan(env.unwrapped)
        assert plan is not None, f"{task}: there is no way to the goal of layout {layout}"
        earned.append(sum(float(env.step(action)[1]) for action in plan))
    return float(np.mean(earned))


def solve(task: str, seed: int) -> dict[str, Any]:
    """Trains with the defaults, and plays."""
    path = RUNS / f"{task}-{seed}"
    shutil.rmtree(path, ignore_errors=True)
    run = finished(gemax.train(f"gym:{task}", seed=seed, updates=TASKS[task], out=path))
    played, best = play(lambda: gymnasium.make(task), gemax.load(path)), best_return(task)
    return {
        "task": task,
        "seed": seed,
        "frames": run.summary["frames"],
        "seconds": round(run.summary["seconds"]),
        "return": played["return"],
        "best_plans": best,
        "share": played["return"] / best,
    }


def finished(run: Run) -> Run:
    """The run; whoever stopped it before its end wants no more of this."""
    if run.stopped_by is not None:
        sys.exit(128 + run.stopped_by)
    return run


def explore(kind: str) -> dict[str, Any]:
    """Trains without reward, and plays."""
    start, settings = KINDS[kind]
    shutil.rmtree(RUNS / kind, ignore_errors=True)
    make = maker(start)
    run = finished(gemax.train(make, out=RUNS / kind, **EXPLORING, **settings))
    played = play(make, gemax.load(RUNS / kind, environment=make))
    return {"explorer": kind, "frames": run.summary["frames"], "trained": played, "random": play(make, None)}


def maker(start: dict[str, Any]) -> Callable[[], gymnasium.Env]:
    return lambda: gymnasium.make(FOUR_ROOMS, **start)


def first_reward(kind: str, seed: int, *, pretrained: bool) -> dict[str, Any]:
    """How many frames it takes until the task pays for the first time, with the intrinsic reward all along."""
    start, settings = KINDS[kind]
    source = str(RUNS / kind) if pretrained else ""
    config = configure("gym:own", seed=seed, updates=MOST_UPDATES, start_from=source, **settings)
    trainer, state, _ = begin_run(assemble(config, own=Own(environment=maker(start))))
    environment, frames = trainer.world, None
    assert isinstance(environment, Environment)
    with contextlib.closing(environment.open(config.num_worlds)) as episodes:
        for number, (_, metrics) in enumerate(train_outside(trainer, state, environment, episodes), 1):
            if metrics["return"] > 0:
                frames = number * config.frames_per_update
                break
    return {"task_after": kind, "pretrained": pretrained, "seed": seed, "first_reward_at_frame": frames}


def main() -> None:
    rows = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []

    def make(identity: dict[str, Any], work: Callable[[], dict[str, Any]]) -> None:
        if any(identity.items() <= row.items() for row in rows):
            return
        facts = provenance()
        rows.append(work() | {"commit": facts.pop("commit")})
        print(json.dumps(rows[-1]), flush=True)
        write_json(RESULTS, {"command": "make bench-minigrid", "episodes": EPISODES, **facts, "rows": rows})

    for task in TASKS:
        for seed in SEEDS:
            make({"task": task, "seed": seed}, lambda task=task, seed=seed: solve(task, seed))
    for kind in KINDS:
        make({"explorer": kind}, lambda kind=kind: explore(kind))
        for seed in range(FINE_TUNED.get(kind, 0)):
            for pretrained in (True, False):
                make(
                    {"task_after": kind, "pretrained": pretrained, "seed": seed},
                    lambda kind=kind, seed=seed, pretrained=pretrained: first_reward(
                        kind, seed, pretrained=pretrained
                    ),
                )


if __name__ == "__main__":
    main()
