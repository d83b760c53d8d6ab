"""What a policy's outputs mean: how likely each action is. Acting and losses know actions by these functions only."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from gemax.types import ActionSpec, ContinuousActions

Outputs: TypeAlias = Float[Array, "*batch outputs"]
Action: TypeAlias = Shaped[Array, "*batch_and_parts"]
"""A whole number; or several, a part of the action each; or numbers from -1 to 1."""

SMALLEST_DEVIATION = 0.1
"""Before squashing. A policy that is surer than this cannot learn from what it does: nothing else is tried."""
FARTHEST_MEAN = 2.5
"""Before squashing: 0.987 of the way to an end. Farther out actions hardly differ, and means would run away."""
LARGEST_ACTION = 1.0 - 1e-6
"""Nearer to an end of its range a number no longer tells what it was before it was squashed."""
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(16)
"""Of the Gauss-Hermite rule: the mean of a smooth function of a normal variable, without drawing any."""


class ActionDistribution(NamedTuple):
    """Pure functions of what the policy's head puts out."""

    draw: Callable[[Outputs, PRNGKeyArray], Action]
    likeliest: Callable[[Outputs], Action]
    """The action of a greedy agent."""
    judge: Callable[[Outputs, Action], tuple[Float[Array, "*batch"], Float[Array, "*batch"]]]
    """The logarithm of an action's probability or density, and the entropy of all that could have been done."""


def distribution_of(spec: ActionSpec) -> ActionDistribution:
    """How a policy chooses from these actions."""
    if isinstance(spec, ContinuousActions):
        return SQUASHED_GAUSSIAN
    return CATEGORICAL if spec.is_single else categoricals(spec.sizes)


def _draw_categorical(logits: Outputs, key: PRNGKeyArray) -> Action:
    return jax.random.categorical(key, logits)


def _likeliest_categorical(logits: Outputs) -> Action:
    return jnp.argmax(logits, axis=-1)


def _judge_categorical(logits: Outputs, action: Action):
    log_policy = jax.nn.log_softmax(logits)
    log_probability = jnp.take_along_axis(log_policy, action[..., None], axis=-1)[..., 0]
    return log_probability, -jnp.sum(jnp.exp(log_policy) * log_policy, axis=-1)


CATEGORICAL = ActionDistribution(_draw_categorical, _likeliest_categorical, _judge_categorical)
"""One action of finitely many; the outputs are its logits."""


def categoricals(sizes: tuple[int, ...]) -> ActionDistribution:
    """Several choices at a time, each of finitely many and independent of the others; the logits stand side by side."""
    ends = np.cumsum(sizes)[:-1]

    def draw(logits: Outputs, key: PRNGKeyArray) -> Action:
        keys = jax.random.split(key, len(sizes))
        parts = jnp.split(logits, ends, axis=-1)
        return jnp.stack([jax.random.categorical(k, part) for k, part in zip(keys, parts, strict=True)], -1)

    def likeliest(logits: Outputs) -> Action:
        return jnp.stack([jnp.argmax(part, axis=-1) for part in jnp.split(logits, ends, axis=-1)], axis=-1)

    def judge(logits: Outputs, action: Action):
        parts = enumerate(jnp.split(logits, ends, axis=-1))
        judged = [_judge_categorical(part, action[..., index]) for index, part in parts]
        log_probability, entropy = (jnp.stack(numbers) for numbers in zip(*judged, strict=True))
        return log_probability.sum(axis=0), entropy.sum(axis=0)

    return ActionDistribution(draw, likeliest, judge)


def _moments(outputs: Outputs) -> tuple[Array, Array]:
    mean, spread = jnp.split(outputs, 2, axis=-1)
    mean = FARTHEST_MEAN * jnp.tanh(mean / FARTHEST_MEAN)
    return mean, jax.nn.softplus(spread) + SMALLEST_DEVIATION


def _squash(before: Array) -> Array:
    return jnp.clip(jnp.tanh(before), -LARGEST_ACTION, LARGEST_ACTION)


def _log_slope(before: Array) -> Array:
    """`ln (1 - tanh² u)`, in a form that does not run out of digits."""
    return 2.0 * (jnp.log(2.0) - before - jax.nn.softplus(-2.0 * before))


def _draw_gaussian(outputs: Outputs, key: PRNGKeyArray) -> Action:
    mean, deviation = _moments(outputs)
    return _squash(mean + deviation * jax.random.normal(key, mean.shape))


def _likeliest_gaussian(outputs: Outputs) -> Action:
    return _squash(_moments(outputs)[0])


def _judge_gaussian(outputs: Outputs, action: Action):
    mean, deviation = _moments(outputs)
    before = jnp.arctanh(action)
    log_density = jax.scipy.stats.norm.logpdf(before, mean, deviation) - _log_slope(before)
    return jnp.sum(log_density, axis=-1), jnp.sum(_squashed_entropy(mean, deviation), axis=-1)


def _squashed_entropy(mean: Array, deviation: Array) -> Array:
    """That of the normal variable, and the mean logarithm of the slope that it is squashed by.

    Without the second term the deviation could grow for ever, and all actions would lie at the ends.
    """
    nodes = NODES.reshape((-1,) + (1,) * mean.ndim).astype(np.float32)
    weights = (WEIGHTS / WEIGHTS.sum()).reshape(nodes.shape).astype(np.float32)
    slope = jnp.sum(weights * _log_slope(mean[None] + deviation[None] * nodes), axis=0)
    return 0.5 * jnp.log(2.0 * jnp.pi * jnp.e) + jnp.log(deviation) + slope


SQUASHED_GAUSSIAN = ActionDistribution(_draw_gaussian, _likeliest_gaussian, _judge_gaussian)
"""Numbers from -1 to 1: normal variables, squashed by tanh. The outputs are their means before these are bounded, and
their deviations before softplus."""
