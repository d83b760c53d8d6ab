"""Compares training in MiniGrid's DoorKey-8x8 with PPO of Stable-Baselines3 and intrinsic rewards of rllte.

`make bench-minigrid-peers`. All have 32 environments, stepped in the same process, and learn from each rollout in four
passes. Ours has its default settings. PPO has those that are common in MiniGrid: rollouts of 128 steps, batches of 256,
an entropy bonus of 0.01, and an MLP over the flattened view. rllte's rewards have the scale of ours.

Each candidate is a process of its own, because our learner runs in a thread beside the environments. They train in
turn, until the mean return of the last 100 episodes is 0.9 or their budget of processor seconds is used up. The seconds
include compilation, but not the imports, nor the random steps by which rllte's RND initialises its moments.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import one_thread  # isort: skip  # noqa: F401  (inherited by the processes)
import interleaved
import numpy as np

ENV_ID = "MiniGrid-DoorKey-8x8-v0"
OURS = "ours"
PEERS = {"PPO + rllte RND": "RND", "PPO + rllte E3B": "E3B"}
CHUNK_FRAMES, ROUNDS = 16_384, 5
"""Frames of one turn, and turns that are compared in frames per second. The first turn, which compiles, is not."""
GOAL_RETURN, NUM_EPISODES = 0.9, 100
SPEED_GOAL, TIME_GOAL = 3.0, 5.0
PPO_SETTINGS = {
    "n_steps": 128,
    "batch_size": 256,
    "n_epochs": 4,
    "learning_rate": 1e-3,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "ent_coef": 0.01,
}


def train_ours(seed: int) -> Iterator[tuple[int, float]]:
    """Yields the frames and the mean return after each update."""
    from gemax.training.assemble import assemble
    from gemax.training.loop import initial_states, train
    from gemax.training.presets import configure

    config = configure(f"gym:{ENV_ID}", seed=seed, updates=10**6)
    trainer = assemble(config)
    for number, (_, metrics) in enumerate(train(trainer, initial_states(trainer)), start=1):
        assert metrics[0] is not None
        yield number * config.frames_per_update, metrics[0]["recent_return"]


def train_peer(name: str, seed: int) -> Iterator[tuple[int, float]]:
    """Yields the frames and the mean return after each rollout of PPO with a reward of rllte."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import VecMonitor

    from gemax.integrations.stable_baselines3 import GymnasiumVecEnv
    from gemax.training.presets import configure
    from peers import LAPTOP, RllteCallback, train_call

    torch.set_num_threads(1)
    config = configure(f"gym:{ENV_ID}")
    num_envs = config.env.num_envs
    model = PPO(
        "MlpPolicy",
        VecMonitor(GymnasiumVecEnv(make_envs(num_envs, "SameStep"))),
        seed=seed,
        device="cpu",
        stats_window_size=NUM_EPISODES,
        policy_kwargs={"net_arch": [LAPTOP.torso_size, LAPTOP.head_size]},
        **PPO_SETTINGS,
    )
    reward = RllteCallback(name, make_envs(num_envs, "NextStep"), config.intrinsic.intrinsic_scale)
    train, frames = train_call(model, reward, NUM_EPISODES), PPO_SETTINGS["n_steps"] * num_envs
    yield 0, 0.0
    number = 0
    while True:
        number += 1
        yield number * frames, train()


def make_envs(num_envs: int, mode: str) -> Any:
    """Returns environments with the flattened view as observations."""
    import gymnasium
    from gymnasium.vector import AutoresetMode
    from gymnasium.wrappers import TransformObservation
    from minigrid.wrappers import ImgObsWrapper

    def flat(env: gymnasium.Env) -> gymnasium.Env:
        # The largest index of an object is 10.
        space = gymnasium.spaces.Box(0.0, 1.0, (147,))
        return TransformObservation(
            ImgObsWrapper(env), lambda image: image.reshape(-1).astype(np.float32) / 10, space
        )

    return gymnasium.make_vec(
        ENV_ID,
        num_envs,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": AutoresetMode(mode)},
        wrappers=[flat],
    )


CANDIDATES: dict[str, Callable[[int], Iterator[tuple[int, float]]]] = {
    OURS: train_ours,
    **{title: partial(train_peer, name) for title, name in PEERS.items()},
}


def work(name: str, seed: int) -> None:
    """Trains for one turn per line of the standard input. Prints the frames and processor seconds so far."""
    progress = CANDIDATES[name](seed)
    if name != OURS:
        next(progress)
    started, frames, solved = time.process_time(), 0, None
    for _ in sys.stdin:
        end = frames + CHUNK_FRAMES
        while frames < end and solved is None:
            frames, mean_return = next(progress)
            if mean_return >= GOAL_RETURN:
                solved = round(time.process_time() - started, 1)
        seconds = time.process_time() - started
        print(json.dumps({"frames": frames, "seconds": seconds, "solved": solved}), flush=True)


class Worker:
    """A process that trains one candidate."""

    def __init__(self, name: str, seed: int) -> None:
        command = [sys.executable, __file__, "--worker", name, "--seed", str(seed)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.turns: list[dict[str, Any]] = [{"frames": 0, "seconds": 0.0, "solved": None}]

    def train(self) -> None:
        """Trains for one turn."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process ended with exit code {self._process.wait()}")
        self.turns.append(json.loads(line))

    def seconds_per_frame(self) -> list[float]:
        """Returns the processor seconds per frame of each turn that is compared."""
        # From the end of the turn before: our learner goes on between turns.
        pairs = zip(self.turns[1:], self.turns[2 : ROUNDS + 2], strict=False)
        return [
            (turn["seconds"] - before["seconds"]) / (turn["frames"] - before["frames"])
            for before, turn in pairs
        ]

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()


def measure(seed: int, budget: float) -> tuple[dict[str, list[float]], list[dict[str, Any]]]:
    """Returns the seconds per frame of each candidate, and when it was solved."""
    workers = {name: Worker(name, seed) for name in CANDIDATES}
    active, runs = dict(workers), []
    while active:
        for name, worker in list(active.items()):
            worker.train()
            last = worker.turns[-1]
            if last["solved"] is not None or last["seconds"] > budget:
                runs.append({"name": name, "seed": seed, **last, "seconds": round(last["seconds"], 1)})
                print(runs[-1], flush=True)
                del active[name]
                worker.close()
    return {name: worker.seconds_per_frame() for name, worker in workers.items()}, runs


def compare(speeds: list[dict[str, list[float]]], runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the rows of the report. A peer that is not solved counts with its budget, so its ratio is a bound."""
    rows = []
    for peer in PEERS:
        ratios = [
            interleaved.ratio_of(speed[peer][: len(speed[OURS])], speed[OURS][: len(speed[peer])])
            for speed in speeds
        ]
        middle = sorted(ratios)[len(ratios) // 2]
        rows.append(interleaved.comparison(2, f"{OURS} / {peer}, frames per second", middle, SPEED_GOAL))
    for peer in PEERS:
        times, own = (
            [run["solved"] or run["seconds"] for run in runs if run["name"] == it] for it in (peer, OURS)
        )
        is_bound = any(run["solved"] is None for run in runs if run["name"] == peer)
        title = f"{OURS} / {peer}, time to {GOAL_RETURN}{', at least' if is_bound else ''}"
        ratio = interleaved.ratio_of_few(times, own)
        rows.append(interleaved.comparison(2, title, ratio, TIME_GOAL))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--budget", type=float, default=300.0, help="processor seconds of a run")
    parser.add_argument("--worker", choices=CANDIDATES, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        work(options.worker, options.seed)
        return
    speeds, runs = [], []
    for seed in options.seeds:
        speed, more = measure(seed, options.budget)
        speeds.append(speed)
        runs += more
    rows = compare(speeds, runs)
    print(*rows, sep="\n")
    interleaved.write_results(
        __file__,
        ("torch", "stable-baselines3", "rllte-core", "minigrid"),
        comparisons=rows,
        runs=runs,
        ppo=PPO_SETTINGS,
    )


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
