"""Trains PPO of Stable-Baselines3 with an intrinsic reward in 2-Rooms, where a random policy never finds the reward.

python examples/sb3_ppo.py                      # two minutes on one core
python examples/sb3_ppo.py --method none        # the same agent, without an intrinsic reward
"""

import argparse
from collections.abc import Sequence

import gymnasium
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor

import gemax.integrations.gymnasium  # registers the ids  # noqa: F401
from gemax.integrations.stable_baselines3 import GymnasiumVecEnv, IntrinsicRewardCallback

SETTINGS = {
    "n_steps": 30,
    "batch_size": 480,
    "n_epochs": 8,
    "learning_rate": 1e-3,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    # The intrinsic reward makes the agent explore. An entropy bonus would only slow it down.
    "ent_coef": 0.0,
}
"""Settings of PPO: rollouts of whole episodes from many environments, for rewards of a few thousandths per step."""


def make_agent(envs: gymnasium.vector.VectorEnv, seed: int) -> PPO:
    """Returns PPO with an MLP policy. The returns in its log do not include the intrinsic reward."""
    env = VecMonitor(GymnasiumVecEnv(envs))
    is_dict = isinstance(env.observation_space, gymnasium.spaces.Dict)
    return PPO(
        "MultiInputPolicy" if is_dict else "MlpPolicy",
        env,
        seed=seed,
        device="cpu",
        stats_window_size=1000,
        **SETTINGS,
    )


def main(arguments: Sequence[str] | None = None) -> float:
    """Trains, and returns the mean return of the last 1,000 episodes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", default="gem", help="gem, rnd, ngu, ngu-rnd, e3b, re3, or none")
    parser.add_argument("--frames", type=int, default=400_000)
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)

    envs = gymnasium.make_vec(
        "gemax/TwoRooms-v0", options.num_envs, autoreset_mode="SameStep", observation="cells"
    )
    model = make_agent(envs, options.seed)
    callback = IntrinsicRewardCallback(options.method, horizon=30, seed=options.seed)
    model.learn(options.frames, callback=callback)

    # To continue: PPO.load("explorer", env) and callback.load("explorer").
    model.save("explorer")
    callback.save("explorer")
    returns = [episode["r"] for episode in model.ep_info_buffer or []]
    print(f"mean return of the last {len(returns)} episodes: {np.mean(returns):.2f}")
    return float(np.mean(returns))


if __name__ == "__main__":
    main()
