"""From a function that makes environments to what training knows of them."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, TypeAlias

import gymnasium
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from gemax.environments.actions import translation_of
from gemax.environments.base import Environment
from gemax.environments.faults import EnvironmentFault
from gemax.environments.flattening import batch_of_one, flattening_of
from gemax.environments.making import Make, guarded, made
from gemax.environments.vector import VectorEpisodes
from gemax.worlds.base import ObservationSpec

Workers: TypeAlias = Literal["sync", "async"]


def environment_of(
    name: str, make: Make, *, horizon: int, workers: Workers = "sync", timeout_seconds: float = 60.0
) -> Environment:
    """Looks at an environment, once, and tells how to open it.

    Args:
        name: What it is called.
        make: Makes a new one, alone or as many as a run asks for.
        horizon: For environments that do not say how long an episode may be.
        workers: Whether single environments are stepped one after the other, or in a process each.
        timeout_seconds: How long a step of all of them may take; 0 lets them.

    Raises:
        ValueError: No agent of ours can see or act in it.
        EnvironmentFault: It cannot even be made.
    """
    example = made(name, make)
    is_vector = isinstance(example, VectorEnv)
    seen = example.single_observation_space if is_vector else example.observation_space
    done = example.single_action_space if is_vector else example.action_space
    spec = example.spec
    example.close()
    flattening, translation = flattening_of(seen), translation_of(done)

    def open_many(number: int) -> VectorEpisodes:
        if is_vector:
            return VectorEpisodes(_opened(name, make, number), *parts, timeout_seconds, looks=True)
        makers = [partial(guarded, name, make, index) for index in range(number)]
        return VectorEpisodes(
            _vector(makers, workers, share=not flattening.left_out), *parts, timeout_seconds
        )

    parts = flattening, translation.translate
    left_out = ", ".join(flattening.left_out)
    return Environment(
        name=name,
        observation=ObservationSpec(flattening.low, flattening.high),
        actions=translation.spec,
        horizon=(spec.max_episode_steps if spec else None) or horizon,
        solved_return=float("inf")
        if spec is None or spec.reward_threshold is None
        else spec.reward_threshold,
        open=open_many,
        read=lambda observation: flattening.flatten(batch_of_one(observation))[0],
        write=lambda action: translation.translate(action[None])[0],
        notes=(f"The agent does not see {left_out} of {name}.",) if left_out else (),
    )


def _vector(makers: Sequence[Callable[[], gymnasium.Env]], workers: Workers, share: bool) -> VectorEnv:
    # Ends are for us to see, before anything is reset: no observation is lost.
    if workers == "sync":
        return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.DISABLED)
    try:
        # Not a fork: jax has threads, whose locks would stay closed in the child for ever.
        return AsyncVectorEnv(
            makers, shared_memory=share, context="spawn", autoreset_mode=AutoresetMode.DISABLED
        )
    except (EOFError, ConnectionError) as error:
        raise EnvironmentFault(
            "a process of an environment ended before its first step. Where a script trains, it must do so below "
            'if __name__ == "__main__", since every process imports it.'
        ) from error


def _opened(name: str, make: Make, number: int) -> VectorEnv:
    vector = made(name, make)
    assert isinstance(vector, VectorEnv)
    if vector.num_envs != number:
        vector.close()
        raise ValueError(
            f"num_worlds must be the {vector.num_envs} environments that {name} has side by side; got {number}."
        )
    return vector
