"""Action distributions, parameterised by the outputs of the policy head."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from gemax.types import ActionSpec, ContinuousActions

Outputs: TypeAlias = Float[Array, "*batch outputs"]
Action: TypeAlias = Shaped[Array, "*batch_and_parts"]
"""An integer, several integers (one per part of the action), or real numbers in [-1, 1]."""

MIN_STD = 0.1
"""Smallest standard deviation before tanh. It keeps the policy exploring."""
MAX_ABS_MEAN = 2.5
"""Largest absolute mean before tanh; tanh(2.5) = 0.987. It keeps the mean out of the flat part of tanh."""
MAX_ABS_ACTION = 1.0 - 1e-6
"""Actions are clipped to this absolute value, so that arctanh is finite."""
HERMITE_NODES, HERMITE_WEIGHTS = np.polynomial.hermite_e.hermegauss(16)
"""Gauss–Hermite rule for the expectation of a smooth function of a normal variable."""


class ActionDistribution(NamedTuple):
    """Pure functions of the policy's outputs."""

    sample: Callable[[Outputs, PRNGKeyArray], Action]
    mode: Callable[[Outputs], Action]
    """Returns the action of a greedy agent."""
    log_prob_and_entropy: Callable[[Outputs, Action], tuple[Float[Array, "*batch"], Float[Array, "*batch"]]]
    """Returns the log-probability or log-density of an action, and the entropy of the distribution."""


def distribution_of(spec: ActionSpec) -> ActionDistribution:
    """Returns the distribution for an action spec."""
    if isinstance(spec, ContinuousActions):
        return SQUASHED_GAUSSIAN
    return CATEGORICAL if spec.is_single else multi_categorical(spec.sizes)


def _sample_categorical(logits: Outputs, key: PRNGKeyArray) -> Action:
    return jax.random.categorical(key, logits)


def _mode_categorical(logits: Outputs) -> Action:
    return jnp.argmax(logits, axis=-1)


def _log_prob_and_entropy_categorical(logits: Outputs, action: Action):
    log_policy = jax.nn.log_softmax(logits)
    log_prob = jnp.take_along_axis(log_policy, action[..., None], axis=-1)[..., 0]
    return log_prob, -jnp.sum(jnp.exp(log_policy) * log_policy, axis=-1)


CATEGORICAL = ActionDistribution(_sample_categorical, _mode_categorical, _log_prob_and_entropy_categorical)
"""One discrete action. The outputs are its logits."""


def multi_categorical(sizes: tuple[int, ...]) -> ActionDistribution:
    """Returns the distribution of several independent discrete actions. The outputs are their concatenated logits."""
    ends = np.cumsum(sizes)[:-1]

    def sample(logits: Outputs, key: PRNGKeyArray) -> Action:
        keys = jax.random.split(key, len(sizes))
        parts = jnp.split(logits, ends, axis=-1)
        return jnp.stack([jax.random.categorical(k, part) for k, part in zip(keys, parts, strict=True)], -1)

    def mode(logits: Outputs) -> Action:
        return jnp.stack([jnp.argmax(part, axis=-1) for part in jnp.split(logits, ends, axis=-1)], axis=-1)

    def log_prob_and_entropy(logits: Outputs, action: Action):
        parts = enumerate(jnp.split(logits, ends, axis=-1))
        results = [_log_prob_and_entropy_categorical(part, action[..., i]) for i, part in parts]
        log_prob, entropy = (jnp.stack(values) for values in zip(*results, strict=True))
        return log_prob.sum(axis=0), entropy.sum(axis=0)

    return ActionDistribution(sample, mode, log_prob_and_entropy)


def _mean_and_std(outputs: Outputs) -> tuple[Array, Array]:
    raw_mean, raw_std = jnp.split(outputs, 2, axis=-1)
    mean = MAX_ABS_MEAN * jnp.tanh(raw_mean / MAX_ABS_MEAN)
    return mean, jax.nn.softplus(raw_std) + MIN_STD


def _squash(pre_tanh: Array) -> Array:
    return jnp.clip(jnp.tanh(pre_tanh), -MAX_ABS_ACTION, MAX_ABS_ACTION)


def _log_tanh_slope(pre_tanh: Array) -> Array:
    """Returns `ln (1 - tanh² u)` in a numerically stable form."""
    return 2.0 * (jnp.log(2.0) - pre_tanh - jax.nn.softplus(-2.0 * pre_tanh))


def _sample_gaussian(outputs: Outputs, key: PRNGKeyArray) -> Action:
    mean, std = _mean_and_std(outputs)
    return _squash(mean + std * jax.random.normal(key, mean.shape))


def _mode_gaussian(outputs: Outputs) -> Action:
    return _squash(_mean_and_std(outputs)[0])


def _log_prob_and_entropy_gaussian(outputs: Outputs, action: Action):
    mean, std = _mean_and_std(outputs)
    pre_tanh = jnp.arctanh(action)
    log_density = jax.scipy.stats.norm.logpdf(pre_tanh, mean, std) - _log_tanh_slope(pre_tanh)
    return jnp.sum(log_density, axis=-1), jnp.sum(_squashed_entropy(mean, std), axis=-1)


def _squashed_entropy(mean: Array, std: Array) -> Array:
    """Returns the entropy of tanh(u): the entropy of the normal variable u plus E[ln (1 - tanh² u)].

    Without the second term, the entropy bonus would increase the standard deviation without limit.
    """
    nodes = HERMITE_NODES.reshape((-1,) + (1,) * mean.ndim).astype(np.float32)
    weights = (HERMITE_WEIGHTS / HERMITE_WEIGHTS.sum()).reshape(nodes.shape).astype(np.float32)
    log_slope = jnp.sum(weights * _log_tanh_slope(mean[None] + std[None] * nodes), axis=0)
    return 0.5 * jnp.log(2.0 * jnp.pi * jnp.e) + jnp.log(std) + log_slope


SQUASHED_GAUSSIAN = ActionDistribution(_sample_gaussian, _mode_gaussian, _log_prob_and_entropy_gaussian)
"""Real numbers in [-1, 1]: normal variables passed through tanh. The first half of the outputs are the
means before they are bounded by `MAX_ABS_MEAN`, the second half the standard deviations before softplus."""
