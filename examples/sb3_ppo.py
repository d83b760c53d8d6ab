"""Stable-Baselines3's PPO, paid for exploring, in a world where a random policy never finds the reward.

python examples/sb3_ppo.py                      # two minutes of one core
python examples/sb3_ppo.py --method none        # the same agent, without an intrinsic reward
"""

import argparse
from collections.abc import Sequence

import gymnasium
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor

import gemax.integrations.gymnasium  # makes the ids known  # noqa: F401
from gemax.integrations.stable_baselines3 import GymnasiumVecEnv, IntrinsicRewardCallback

SETTINGS = {
    "n_steps": 30,
    "batch_size": 480,
    "n_epochs": 8,
    "learning_rate": 1e-3,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    # The intrinsic reward makes the agent explore; a bonus for acting at random would only make it slower.
    "ent_coef": 0.0,
}
"""Of PPO. Rollouts of a whole episode from many environments, and rewards of a few thousandths a step."""


def make_agent(environments: gymnasium.vector.VectorEnv, seed: int) -> PPO:
    """PPO as it comes, on the flattened image. Returns in its log are those of the environment alone."""
    env = VecMonitor(GymnasiumVecEnv(environments))
    return PPO("MlpPolicy", env, seed=seed, device="cpu", stats_window_size=1000, **SETTINGS)


def main(arguments: Sequence[str] | None = None) -> float:
    """Trains, and gives the mean return of the last 1,000 episodes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", default="gem", help="gem, rnd, ngu, ngu-rnd, or none")
    parser.add_argument("--frames", type=int, default=400_000)
    parser.add_argument("--environments", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)

    environments = gymnasium.make_vec(
        "gemax/TwoRooms-v0", options.environments, autoreset_mode="SameStep", observation="squares"
    )
    model = make_agent(environments, options.seed)
    callback = IntrinsicRewardCallback(options.method, horizon=30, seed=options.seed)
    model.learn(options.frames, callback=callback)

    # Both go on from here: PPO.load("explorer", env) and callback.load("explorer").
    model.save("explorer")
    callback.save("explorer")
    returns = [episode["r"] for episode in model.ep_info_buffer or []]
    print(f"return of the last {len(returns)} episodes: {np.mean(returns):.2f}")
    return float(np.mean(returns))


if __name__ == "__main__":
    main()
