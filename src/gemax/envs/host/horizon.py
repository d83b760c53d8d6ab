"""The maximum number of steps of an episode: stated by the environment, given by the user, or measured."""

import contextlib

import gymnasium
from gymnasium.vector import VectorEnv

from gemax.envs.host.faults import time_limit, timeout_fault

DEFAULT_HORIZON = 1000
"""Number of random steps that are tried, and the horizon if no episode was truncated in them."""


def find_horizon(
    name: str, env: gymnasium.Env | VectorEnv, given: int, timeout_seconds: float = 0.0
) -> tuple[int, list[str]]:
    """Returns the horizon, and a note for the user if it was measured or assumed.

    Args:
        name: Name of the environment.
        env: A copy that may be stepped.
        given: The user's value, or 0.
        timeout_seconds: Time limit of a measurement. 0 stands for no limit.
    """
    stated = env.spec.max_episode_steps if env.spec else None
    if stated or given:
        return stated or given, []
    measured = None if isinstance(env, VectorEnv) else measure_horizon(env, timeout_seconds)
    if measured is None:
        return DEFAULT_HORIZON, [
            f"{name} states no maximum episode length: {DEFAULT_HORIZON:,} steps are assumed. "
            "Set horizon if that is wrong."
        ]
    return measured, [f"Episodes of {name} are truncated after {measured:,} steps, as measured."]


def measure_horizon(env: gymnasium.Env, timeout_seconds: float = 0.0) -> int | None:
    """Returns the length of the first truncated episode within 1,000 random steps. None if none was truncated."""
    length = 0
    fault = timeout_fault("measuring the horizon", timeout_seconds)
    # Errors of the environment are reported when it is trained, with the number of the environment and the step.
    with contextlib.suppress(Exception, SystemExit), time_limit(timeout_seconds, lambda: fault):
        env.action_space.seed(0)
        env.reset(seed=0)
        for _ in range(DEFAULT_HORIZON):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            length += 1
            if truncated:
                return length
            if terminated:
                env.reset()
                length = 0
    return None
