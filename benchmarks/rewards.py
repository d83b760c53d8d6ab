"""Compares the time of intrinsic rewards for one batch with those of rllte and TorchRL.

`make bench-rewards`. Each call computes the rewards of 32 steps of 64 environments and learns from them once: one
gradient step over the whole batch. All networks have one hidden layer of 256 units and 128 outputs. What a library
computes step by step (`watch` of rllte) is part of the call. Methods that raise an error are reported as that.
"""

import argparse
from collections.abc import Callable
from typing import Any

import one_thread  # isort: skip  # noqa: F401  (before jax)
import gymnasium
import interleaved
import jax
import numpy as np
import optax
import torch
from gymnasium import spaces
from rllte.xplore.reward import E3B, NGU, RE3, RND, PseudoCounts
from tensordict import TensorDict
from torchrl.envs.transforms import RNDTransform
from torchrl.objectives import RNDLoss

from gemax.integrations.intrinsic_learner import host_transitions, make_learner
from gemax.networks import Network, mlp
from gemax.rewards.base import IntrinsicReward
from gemax.rewards.combine import ngu_rnd
from gemax.rewards.config import IntrinsicConfig
from gemax.rewards.e3b import E3bSettings, e3b
from gemax.rewards.gem import Term, gem
from gemax.rewards.negatives_episode import own_episode
from gemax.rewards.negatives_other_envs import other_envs
from gemax.rewards.ngu import NguSettings, ngu
from gemax.rewards.re3 import Re3Settings, re3
from gemax.rewards.rnd import RndSettings, distillation, rnd

NUM_ENVS, NUM_STEPS, OBSERVATION_SIZE, NUM_ACTIONS, HORIZON = 64, 32, 64, 4, 64
HIDDEN_SIZE, LATENT_SIZE, LEARNING_RATE = 256, 128, 1e-3
ROUNDS, GOAL = 15, 5.0
OPPONENTS = {
    "rnd": ("rllte RND", "TorchRL RND"),
    "ngu": ("rllte PseudoCounts",),
    "ngu-rnd": ("rllte NGU",),
    "e3b": ("rllte E3B",),
    "re3": ("rllte RE3",),
}
"""The peers of each of our methods."""
WITHOUT_PEER = {"gem": ("rllte RND", "rllte RE3")}
"""Nobody else has GEM. It is compared with RND and with the entropy of RE3, without a goal, because it does more."""


class RandomWalks(gymnasium.vector.VectorEnv):
    """Vectors of normal numbers. rllte steps an environment for the initial moments of its observations."""

    num_envs = NUM_ENVS
    single_observation_space = spaces.Box(-np.inf, np.inf, (OBSERVATION_SIZE,), np.float32)
    single_action_space = spaces.Discrete(NUM_ACTIONS)

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)

    def reset(self, **_: Any):
        """Returns new observations."""
        return self._observations(), {}

    def step(self, actions: Any):
        """Returns new observations. Rewards are zero and episodes do not end."""
        return (
            self._observations(),
            np.zeros(NUM_ENVS),
            np.zeros(NUM_ENVS, bool),
            np.zeros(NUM_ENVS, bool),
            {},
        )

    def _observations(self) -> np.ndarray:
        return self._rng.standard_normal((NUM_ENVS, OBSERVATION_SIZE), np.float32)


def make_batch() -> dict[str, np.ndarray]:
    """Returns random walks. One step in 64 ends an episode."""
    rng = np.random.default_rng(1)
    shape = NUM_STEPS, NUM_ENVS
    walk = rng.standard_normal((NUM_STEPS + 1, NUM_ENVS, OBSERVATION_SIZE)).cumsum(axis=0).astype(np.float32)
    return {
        "observations": walk[:-1],
        "next_observations": walk[1:],
        "actions": rng.integers(NUM_ACTIONS, size=shape),
        "rewards": np.zeros(shape, np.float32),
        "terminateds": rng.random(shape) < 1 / HORIZON,
        "truncateds": np.zeros(shape, bool),
    }


def network(num_outputs: int = LATENT_SIZE) -> Network:
    """Returns our network with the layers of rllte's."""
    return mlp((HIDDEN_SIZE, num_outputs))


def our_rewards() -> dict[str, IntrinsicReward]:
    optimiser = optax.adam(LEARNING_RATE)
    config = IntrinsicConfig(embedding_size=LATENT_SIZE)
    terms = Term(other_envs(config)), Term(own_episode(config, capacity=HORIZON), "episode_")
    episodic = ngu(network(), NUM_ACTIONS, HORIZON, optimiser, 1.0, NguSettings())
    return {
        "rnd": rnd(network(), optimiser, 1.0, RndSettings()),
        "ngu": episodic,
        "ngu-rnd": ngu_rnd(episodic, distillation(network(), optimiser, RndSettings())),
        "e3b": e3b(network(), NUM_ACTIONS, optimiser, 1.0, E3bSettings()),
        "re3": re3(network(), 1.0, Re3Settings()),
        "gem": gem(network(LATENT_SIZE + len(terms)), optimiser, config, terms),
    }


def our_call(reward: IntrinsicReward, batch: dict[str, np.ndarray]) -> Callable[[], np.ndarray]:
    """Returns a call that gives NumPy arrays to a learner and gets the rewards as a NumPy array."""
    learner = make_learner(reward, (OBSERVATION_SIZE,), NUM_ENVS, per_step=False)
    state = learner.init(jax.random.key(0))
    is_first = np.roll(batch["terminateds"], 1, axis=0)

    def call() -> np.ndarray:
        nonlocal state
        transitions = host_transitions(
            observation=batch["observations"],
            next_observation=batch["next_observations"],
            action=batch["actions"].astype(np.int32),
            reward=batch["rewards"],
            terminated=batch["terminateds"],
            truncated=batch["truncateds"],
            is_first=is_first,
        )
        rewards, state, _ = learner.learn(state, transitions)
        jax.block_until_ready(state)
        return np.asarray(rewards)

    return call


def rllte_call(make: Any, batch: dict[str, np.ndarray]) -> Callable[[], torch.Tensor]:
    arguments = {} if make is RE3 else {"batch_size": NUM_ENVS * NUM_STEPS, "lr": LEARNING_RATE}
    reward = make(RandomWalks(), latent_dim=LATENT_SIZE, **arguments)
    samples = {name: torch.as_tensor(values).float() for name, values in batch.items()}

    def watch() -> None:
        for step in range(NUM_STEPS):
            reward.watch(**{name: values[step] for name, values in samples.items()})

    def call() -> torch.Tensor:
        watch()
        return reward.compute(samples)

    if make is RE3:
        # Its first calls have fewer neighbours to search.
        while not reward.storage_full:
            watch()
    return call


def torchrl_call(batch: dict[str, np.ndarray]) -> Callable[[], torch.Tensor]:
    target, predictor = (
        torch.nn.Sequential(
            torch.nn.Linear(OBSERVATION_SIZE, HIDDEN_SIZE),
            torch.nn.ReLU(),
            torch.nn.Linear(HIDDEN_SIZE, LATENT_SIZE),
        )
        for _ in range(2)
    )
    transform = RNDTransform(target, predictor)
    optimiser = torch.optim.Adam(predictor.parameters(), lr=LEARNING_RATE)
    observations = torch.as_tensor(batch["next_observations"]).reshape(-1, OBSERVATION_SIZE)
    size = [observations.shape[0]]

    def call() -> torch.Tensor:
        following = TensorDict({"observation": observations}, size)
        # Environments call this method for each step; it takes batches too.
        rewards = transform._step(TensorDict({}, size), following)["intrinsic_reward"]
        # The whole batch, as in the other libraries.
        loss = RNDLoss(predictor, target, obs_rms=transform.obs_rms, update_fraction=1.0)
        optimiser.zero_grad()
        loss(TensorDict({"next": following}, size))["loss_predictor"].backward()
        optimiser.step()
        return rewards

    return call


def peers() -> dict[str, Callable[[dict[str, np.ndarray]], Callable[[], Any]]]:
    rllte = {"RND": RND, "PseudoCounts": PseudoCounts, "NGU": NGU, "E3B": E3B, "RE3": RE3}
    calls = {
        f"rllte {name}": lambda batch, make=make: rllte_call(make, batch) for name, make in rllte.items()
    }
    return calls | {"TorchRL RND": torchrl_call}


def working_peers(batch: dict[str, np.ndarray]) -> tuple[dict[str, Callable[[], Any]], dict[str, str]]:
    """Returns the peers that can be called twice, and the errors of the others."""
    calls, errors = {}, {}
    for name, make in peers().items():
        try:
            call = make(batch)
            call(), call()
        # An error of a peer is a result.
        except Exception as error:
            errors[name] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        else:
            calls[name] = call
    return calls, errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    batch = make_batch()
    theirs, errors = working_peers(batch)
    ours = {f"ours, {name}": our_call(reward, batch) for name, reward in our_rewards().items()}
    seconds = interleaved.measure_rounds(ours | theirs, rounds)
    comparisons = [
        interleaved.comparison(
            3, f"{method} / {peer}", interleaved.ratio_of(seconds[peer], seconds[f"ours, {method}"]), goal
        )
        for opponents, goal in ((OPPONENTS, GOAL), (WITHOUT_PEER, None))
        for method, names in opponents.items()
        for peer in names
        if peer in theirs
    ]
    for row in comparisons:
        print(row, flush=True)
    print(errors)
    interleaved.write_results(
        __file__,
        ("torch", "torchrl", "rllte-core"),
        comparisons=comparisons,
        errors=errors,
        milliseconds={name: float(f"{1e3 * min(times):.3g}") for name, times in seconds.items()},
    )


if __name__ == "__main__":
    main()
