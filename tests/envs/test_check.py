"""`check_env` accepts every gemax environment and names what is wrong with broken ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.parameters import fast_or_slow

from gemax.envs.base import JaxEnv, first_timestep
from gemax.envs.check import EnvContractError, check_env
from gemax.envs.registry import ENVS, make_env
from gemax.types import EnvSpec, FiniteActions, ObservationSpec, Timestep

HORIZON, LENGTH = 6, 4


@pytest.mark.parametrize(
    "env_id", fast_or_slow(ENVS, ["two-rooms-noisy", "mountain-car", "cartpole-swingup"])
)
def test_gemax_environments_keep_the_contract(env_id):
    check_env(make_env(env_id, observation="cells"))


def corridor():
    """Returns an environment with four cells in a row. The last cell ends the episode."""
    spec = EnvSpec(
        name="corridor",
        observation=ObservationSpec(np.zeros(1, np.float32), np.full(1, LENGTH - 1, np.float32)),
        actions=FiniteActions((2,)),
        horizon=HORIZON,
        num_cells=LENGTH,
        min_episode_steps=LENGTH - 1,
    )

    def reset(key):
        return {"cell": jnp.zeros((), int), "time": jnp.zeros((), int)}, first_timestep(jnp.zeros(1))

    def step(key, state, action):
        cell, time = jnp.clip(state["cell"] + 2 * action - 1, 0, LENGTH - 1), state["time"] + 1
        terminated = cell == LENGTH - 1
        timestep = Timestep(
            cell[None].astype(float), terminated.astype(float), terminated, (time >= HORIZON) & ~terminated
        )
        return {"cell": cell, "time": time}, timestep

    def render(state):
        return np.zeros((8, 8, 3), np.uint8)

    return JaxEnv(spec, reset, step, render, lambda state: state["cell"])


def test_a_users_environment_keeps_the_contract():
    check_env(corridor(), num_envs=16)


def changed_step(change):
    """Returns the corridor with a function applied to the results of `step`."""
    env = corridor()

    def step(key, state, action):
        return change(key, state, *env.step(key, state, action))

    return env._replace(step=step)


def changed_timestep(**changes):
    def change(key, state, next_state, timestep):
        return next_state, timestep._replace(**{name: value(timestep) for name, value in changes.items()})

    return changed_step(change)


def impure():
    calls = []

    def change(key, state, next_state, timestep):
        calls.append(1)
        return next_state, timestep._replace(reward=timestep.reward + len(calls))

    return changed_step(change)


def decides_in_python():
    def change(key, state, next_state, timestep):
        return next_state, timestep if timestep.reward > 0 else timestep._replace(reward=jnp.zeros(()))

    return changed_step(change)


def with_spec(**changes):
    env = corridor()
    return env._replace(spec=env.spec._replace(**changes))


def starts_with(**changes):
    env = corridor()

    def reset(key):
        state, timestep = env.reset(key)
        return state, timestep._replace(**changes)

    return env._replace(reset=reset)


BROKEN = {
    "can be compiled with jit": decides_in_python,
    "reset and step are pure": impure,
    "step keeps the structure of the state": lambda: changed_step(
        lambda key, state, next_state, timestep: ({**next_state, "cell": next_state["cell"] * 1.0}, timestep)
    ),
    r"observation of step has shape \(1,\) and dtype float32. Found: shape \(2,\)": lambda: changed_timestep(
        observation=lambda timestep: jnp.zeros(2)
    ),
    "reward of step has shape .* dtype float32. Found: .* int32": lambda: changed_timestep(
        reward=lambda timestep: timestep.reward.astype(int)
    ),
    "in the bounds of the spec, 0.0 to 3.0. Found: entries from -3.0 to -0.0": lambda: changed_timestep(
        observation=lambda timestep: -timestep.observation
    ),
    "in the bounds of the spec, 0.0 to 3.0. Found: entries from nan": lambda: changed_timestep(
        observation=lambda timestep: timestep.observation * jnp.nan
    ),
    "rewards are finite": lambda: changed_timestep(reward=lambda timestep: timestep.reward / 0),
    "a reset has reward 0": lambda: starts_with(reward=jnp.ones(())),
    "a reset does not end the episode": lambda: starts_with(truncated=jnp.ones((), bool)),
    "terminated and truncated are never true together": lambda: changed_timestep(
        truncated=lambda timestep: timestep.truncated | timestep.terminated
    ),
    "at most horizon = 5 steps. Found: one of 6": lambda: with_spec(horizon=5),
    "at most horizon = 6 steps. Found: one of 7 or more": lambda: changed_timestep(
        truncated=lambda timestep: jnp.zeros((), bool)
    ),
    "at least min_episode_steps = 4 steps. Found: one of 3": lambda: with_spec(min_episode_steps=4),
    r"cell_index is in 0\.\.2. Found: values from 0 to 3": lambda: with_spec(num_cells=3),
}


@pytest.mark.parametrize("message", BROKEN)
def test_a_broken_environment_is_refused_with_what_was_expected(message):
    with pytest.raises(EnvContractError, match=message):
        check_env(BROKEN[message](), num_envs=64)


def test_an_environment_that_depends_on_others_beside_it_is_refused():
    env = corridor()

    @jax.custom_batching.custom_vmap
    def shared(reward):
        return reward

    @shared.def_vmap
    def shared_batch(axis_size, in_batched, reward):
        return reward + jnp.arange(axis_size), True

    def step(key, state, action):
        state, timestep = env.step(key, state, action)
        return state, timestep._replace(reward=shared(timestep.reward + 0 * jax.random.uniform(key)))

    with pytest.raises(EnvContractError, match="same results under vmap as alone"):
        check_env(env._replace(step=step))
