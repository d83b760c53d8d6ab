"""What the wrapper costs: processor milliseconds of a step of all environments, bare and with each method.

`make bench-wrapper`
"""

import json
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from gemax.integrations.gymnasium import IntrinsicReward
from gemax.runs.provenance import provenance

NUM_ENVS, ROLLOUT, ROUNDS, TORSO = 16, 32, 5, 256
ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {"vectorization_mode": "sync"},
    "gemax/TwoRooms-v0": {"observation": "squares"},
}
METHODS = ("bare", "none", "rnd", "ngu", "gem")


def make(name: str, method: str) -> gymnasium.vector.VectorEnv:
    envs = gymnasium.make_vec(name, NUM_ENVS, **ENVIRONMENTS[name])
    if method == "bare":
        return envs
    return IntrinsicReward(envs, method, rollout_length=ROLLOUT, horizon=500, torso_size=TORSO)


def rollout(envs: gymnasium.vector.VectorEnv, actions: np.ndarray) -> float:
    """Processor milliseconds of a step, learning included. This clock does not run while other programs do."""
    start = time.process_time()
    for action in actions:
        envs.step(action)
    return 1e3 * (time.process_time() - start) / len(actions)


def measure(name: str) -> dict[str, float]:
    """The best of some rounds, the competitors in turn."""
    envs = {method: make(name, method) for method in METHODS}
    times: dict[str, list[float]] = {method: [] for method in METHODS}
    draw = np.random.default_rng(0)
    num_actions = int(next(iter(envs.values())).single_action_space.n)  # pyright: ignore[reportAttributeAccessIssue]
    for one in envs.values():
        one.reset(seed=0)
    for number in range(ROUNDS + 2):
        actions = draw.integers(num_actions, size=(2 * ROLLOUT, NUM_ENVS))
        for method, one in envs.items():
            spent = rollout(one, actions)
            # The first rounds compile.
            if number >= 2:
                times[method].append(spent)
    return {method: float(f"{min(spent):.3g}") for method, spent in times.items()}


def main() -> None:
    results: dict[str, Any] = {
        "command": "make bench-wrapper",
        **provenance(),
        "environments_side_by_side": NUM_ENVS,
        "rollout_length": ROLLOUT,
        "processor milliseconds of a step": {},
    }
    for name in ENVIRONMENTS:
        results["processor milliseconds of a step"][name] = measured = measure(name)
        print(name, measured, flush=True)
    Path(__file__).with_suffix(".json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
