"""From a function that makes environments to what training knows of them."""

from functools import partial
from typing import Literal, TypeAlias

from gymnasium.vector import VectorEnv

from gemax.environments.actions import translation_of
from gemax.environments.base import Environment, Episodes
from gemax.environments.flattening import batch_of_one, flattening_of
from gemax.environments.making import Make, made
from gemax.environments.processes import ProcessEpisodes
from gemax.environments.vector import VectorEpisodes, side_by_side
from gemax.worlds.base import ObservationSpec

Workers: TypeAlias = Literal["sync", "async"]


def environment_of(
    name: str,
    make: Make,
    *,
    horizon: int,
    workers: Workers = "sync",
    num_processes: int = 0,
    timeout_seconds: float = 60.0,
) -> Environment:
    """Looks at an environment, once, and tells how to open it.

    Args:
        name: What it is called.
        make: Makes a new one, alone or as many as a run asks for.
        horizon: For environments that do not say how long an episode may be.
        workers: Whether single environments are stepped one after the other, or by several processes.
        num_processes: By how many; 0 is four a core.
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

    def open_many(number: int, longest: int | None = None) -> Episodes:
        if is_vector:
            return VectorEpisodes(
                _opened(name, make, number), *parts, timeout_seconds, looks=True, longest=longest
            )
        open_share = partial(side_by_side, name, make, timeout_seconds, longest)
        if workers == "async":
            return ProcessEpisodes(open_share, translation.translate, number, num_processes, timeout_seconds)
        return open_share(range(number), translation.translate)

    parts = flattening, translation.translate
    notes = []
    if flattening.left_out:
        notes.append(f"The agent does not see {', '.join(flattening.left_out)} of {name}.")
    if is_vector and workers == "async":
        notes.append(f"env_workers async is for single environments: {name} steps as its vector does.")
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
        notes=tuple(notes),
    )


def _opened(name: str, make: Make, number: int) -> VectorEnv:
    vector = made(name, make)
    assert isinstance(vector, VectorEnv)
    if vector.num_envs != number:
        vector.close()
        raise ValueError(
            f"num_worlds must be the {vector.num_envs} environments that {name} has side by side; got {number}."
        )
    return vector
