"""Run directories as training writes them, made without training."""

import json
import math

import numpy as np

from gemax.runs.snapshots.files import FOLDER, write_scene, write_snapshot
from gemax.runs.snapshots.film import encode_film
from gemax.training.config import Config

ROWS = ("S..", "#.#", "..G")
CELLS = [
    (row, column) for row, line in enumerate(ROWS) for column, letter in enumerate(line) if letter != "#"
]
MOVES = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))


def scene():
    steps = [np.abs(np.subtract(one, other)).sum() for one in CELLS for other in CELLS]
    pairs = np.argwhere(np.triu(np.reshape(steps, (len(CELLS), -1)) == 1))
    return {
        "kind": "map", "env": "three-rows", "horizon": 4, "observation_shape": [3, 3, 3], "similarity_scale": 1.0,
        "rows": list(ROWS), "cells": CELLS, "neighbours": pairs, "moves": MOVES, "points": list(range(len(CELLS))),
    }  # fmt: skip


def snapshot_arrays(update):
    """Returns a snapshot in which the visits spread from the first cell as updates go by."""
    number = len(CELLS)
    rng = np.random.default_rng(update)
    actions = np.zeros((number, len(MOVES)))
    actions[:, 4] = 3
    frames = rng.integers(0, 255, (2 * 5, 3, 3, 3)).astype(np.uint8)
    return {
        "visits": np.exp(-np.arange(number) / update),
        "actions": actions,
        "embedding": np.pad(np.asarray(CELLS, np.float32) * update, ((0, 0), (0, 2))),
        "log_g": np.linspace(0, 1, number),
        "point_cell": np.arange(number),
        "path_cell": np.array([[0, 1, 2, 2, 2], [0, 1, 3, 5, 6]]),
        "path_action": np.array([[-1, 4, 4, 0, 0], [-1, 4, 2, 2, 4]]),
        "path_return": np.array([[0, 0, 0, 0, 0], [0, 0, 0, 0, 1.0]]),
        "path_step": np.arange(5),
        "path_length": np.array([4, 4]),
        **encode_film(frames, is_lossless=True),
    }


def metrics_line(update, seed=0):
    return {
        "update": update,
        "frames": update * 100,
        "seconds": update / 10,
        "recent_return": 1 - math.exp(-update / 200) + seed / 100,
        "recent_return_std": 0.1,
        "episodes": float(update),
        "entropy_share": 0.5 + 0.4 * (1 - math.exp(-update / 100)),
        "coverage": min(update / 300, 1.0),
        "intrinsic_reward": 0.005,
        "agent_loss": 1 / update,
    }


def make_run(path, *, method="gem", env="two-rooms", seed=0, updates=50, snapshots=(1, 20, 50), lines=None):
    """Writes a finished run."""
    path.mkdir(parents=True)
    config = Config().replace(method=method, env_id=env, seed=seed, updates=updates)
    (path / "config.json").write_text(json.dumps(config.to_json()))
    lines = [metrics_line(update, seed) for update in range(1, updates + 1)] if lines is None else lines
    (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (path / "summary.json").write_text(json.dumps({"status": "finished", "entropy_ceiling": 4.2}))
    if snapshots:
        write_scene(path / FOLDER, scene())
        for update in snapshots:
            write_snapshot(path / FOLDER, update, snapshot_arrays(update))
    return path
