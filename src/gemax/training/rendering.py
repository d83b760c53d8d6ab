"""Renders episodes of a policy, image by image, with the visits to every cell where they can be counted."""

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, UInt8

from gemax.envs.base import BINS_PER_AXIS, NUM_BINS, JaxEnv, State, is_last
from gemax.envs.host.base import HostEnv
from gemax.envs.render.canvas import side_by_side, visits_image


@runtime_checkable
class Acting(Protocol):
    """A policy that keeps the state of its episode."""

    def reset(self) -> None:
        """Starts a new episode."""
        ...

    def act(self, observation: Any, reward: float = 0.0, *, greedy: bool = False) -> Any:
        """Returns an action."""
        ...


class RenderedStep(NamedTuple):
    """One image of an episode."""

    image: UInt8[np.ndarray, "height width 3"]
    episode: int
    """Number of the episode, from 1."""
    step: int
    """Number of actions taken so far."""
    episode_return: float
    is_last: bool
    """Whether the episode ends here."""
    coverage: float | None
    """Share of the cells that were visited so far, in all episodes. None if visits are not counted."""


def render_jax_episodes(
    env: JaxEnv, policy: Acting, num_episodes: int, seed: int, greedy: bool
) -> Iterator[RenderedStep]:
    """Yields the images of episodes in a JAX environment. The visits of all episodes so far are drawn as well."""
    reset, step, cell_index = jax.jit(env.reset), jax.jit(env.step), jax.jit(env.cell_index)
    visits = np.zeros(env.spec.num_cells or 0)
    for episode in range(1, num_episodes + 1):
        key = jax.random.fold_in(jax.random.key(seed), episode)
        state, timestep = reset(key)
        policy.reset()
        episode_return = 0.0
        for number in itertools.count():
            reward, is_over = float(timestep.reward), bool(is_last(timestep))
            episode_return += reward
            if number and len(visits):
                visits[int(cell_index(state))] += 1
            image = _draw_visits(env, state, visits)
            coverage = float(np.mean(visits > 0)) if len(visits) else None
            yield RenderedStep(image, episode, number, episode_return, is_over, coverage)
            if is_over:
                break
            action = policy.act(np.asarray(timestep.observation), reward, greedy=greedy)
            state, timestep = step(jax.random.fold_in(key, number), state, jnp.asarray(action))


def _draw_visits(
    env: JaxEnv, state: State, visits: Float[np.ndarray, " cells"]
) -> UInt8[np.ndarray, "h w 3"]:
    """Renders a state with the visits so far: on the map of a gridworld, or beside the image as a grid of bins."""
    if env.render_visits is not None:
        return env.render_visits(state, visits)
    image = env.render(state)
    if len(visits) != NUM_BINS:
        return image
    return side_by_side(image, visits_image(visits.reshape(BINS_PER_AXIS, BINS_PER_AXIS), image.shape[0]))


def render_host_episodes(
    env: HostEnv, policy: Acting, num_episodes: int, seed: int, greedy: bool, max_episode_steps: int
) -> Iterator[RenderedStep]:
    """Yields the images of episodes in a Gymnasium environment. Longer episodes are cut at `max_episode_steps`."""
    with contextlib.closing(env.open_rendered()) as rendered:
        for episode in range(1, num_episodes + 1):
            observation, _ = rendered.reset(seed=seed + episode - 1)
            policy.reset()
            reward = episode_return = 0.0
            is_over = False
            for number in itertools.count():
                yield RenderedStep(rendered.render(), episode, number, episode_return, is_over, None)
                if is_over:
                    break
                action = policy.act(observation, reward, greedy=greedy)
                observation, reward, terminated, truncated, _ = rendered.step(action)
                reward = float(reward)
                episode_return += reward
                is_over = bool(terminated or truncated or number + 1 >= max_episode_steps)
