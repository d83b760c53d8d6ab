"""Converts Gymnasium environments to `HostEnv`: their `EnvSpec`, and a function that opens copies."""

from functools import partial

from gymnasium.vector import VectorEnv

from gemax.envs.config import EnvConfig
from gemax.envs.host.actions import action_decoder
from gemax.envs.host.base import HostEnv, HostVectorEnv, Wrap
from gemax.envs.host.faults import close_in_time
from gemax.envs.host.horizon import find_horizon
from gemax.envs.host.make import MakeEnv, call_maker, make_compiled_vector
from gemax.envs.host.observations import observation_encoder
from gemax.envs.host.rendered import open_rendered
from gemax.envs.host.restarts import RestartLimit
from gemax.envs.host.vector import GymnasiumVectorEnv, open_checked_envs
from gemax.envs.host.workers import ProcessVectorEnv
from gemax.types import EnvSpec, ObservationSpec, default_pixels_per_cell


def make_host_env(config: EnvConfig, make: MakeEnv) -> HostEnv:
    """Returns a Gymnasium environment as a `HostEnv`. Makes one copy to read its spaces, and closes it.

    Args:
        config: Name, horizon, workers and time limit of the environment.
        make: Returns a new environment, or a vector environment.

    Raises:
        ValueError: The agent does not support the observation or action space.
        EnvFault: The environment could not be made.
    """
    name, timeout_seconds = config.env_id, config.env_timeout
    example = call_maker(name, make, timeout_seconds)
    is_vector = isinstance(example, VectorEnv)
    encoder = observation_encoder(
        example.single_observation_space if is_vector else example.observation_space
    )
    decoder = action_decoder(example.single_action_space if is_vector else example.action_space)
    gym_spec = example.spec
    horizon, notes = find_horizon(name, example, config.horizon, timeout_seconds)
    close_in_time(example, name)
    restarts = None
    if config.on_env_fault == "restart":
        restarts = RestartLimit(config.max_env_restarts, config.env_restart_steps)

    def open_vector(vector: VectorEnv, max_episode_steps: int | None) -> HostVectorEnv:
        return GymnasiumVectorEnv(
            vector, encoder, decoder.decode, timeout_seconds, max_episode_steps, is_checked=False
        )

    def open_envs(
        num_envs: int, max_episode_steps: int | None = None, wrap: Wrap | None = None
    ) -> HostVectorEnv:
        if is_vector:
            if wrap is not None:
                raise ValueError(
                    f"{name} must make single environments to record episodes; got vector environments."
                )
            return open_vector(_make_vector(name, make, num_envs, timeout_seconds), max_episode_steps)
        make_one = make if wrap is None else lambda: wrap(make())
        open_envs = partial(open_checked_envs, name, make_one, timeout_seconds, max_episode_steps, restarts)
        if config.vectorization_mode == "async" and wrap is None:
            return ProcessVectorEnv(
                open_envs, decoder.decode, num_envs, config.num_workers, timeout_seconds, restarts
            )
        compiled = make_compiled_vector(make_one, num_envs)
        if compiled is not None:
            return open_vector(compiled, max_episode_steps)
        return open_envs(range(num_envs), decoder.decode)

    if encoder.ignored:
        notes.append(f"The agent does not observe {', '.join(encoder.ignored)} of {name}.")
    if is_vector and config.vectorization_mode == "async":
        notes.append(f"vectorization_mode async has no effect: {name} makes vector environments.")
    if is_vector and restarts is not None:
        notes.append(f"on_env_fault restart has no effect: {name} makes vector environments.")
    threshold = None if gym_spec is None else gym_spec.reward_threshold
    spec = EnvSpec(
        name=name,
        observation=ObservationSpec(encoder.low, encoder.high),
        actions=decoder.spec,
        horizon=horizon,
        solved_return=float("inf") if threshold is None else threshold,
        pixels_per_cell=default_pixels_per_cell(encoder.shape),
        truncation_bootstraps=True,
        encode_observation=encoder.encode_one,
        has_batch_axis=encoder.is_batch,
        decode_action=lambda action: decoder.decode(action[None])[0],
        notes=tuple(notes),
    )
    return HostEnv(spec, open_envs, partial(open_rendered, name, make, timeout_seconds))


def _make_vector(name: str, make: MakeEnv, num_envs: int, timeout_seconds: float) -> VectorEnv:
    vector = call_maker(name, make, timeout_seconds)
    assert isinstance(vector, VectorEnv)
    if vector.num_envs != num_envs:
        vector.close()
        raise ValueError(
            f"num_envs must be {vector.num_envs}, the number of environments that {name} steps; got {num_envs}."
        )
    return vector
