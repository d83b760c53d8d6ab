"""The optimiser of all networks."""

import jax.numpy as jnp
import optax

from gemax.agent.config import AgentConfig


def make_optimiser(config: AgentConfig, learning_rate: float) -> optax.GradientTransformation:
    """Returns Adam with clipped gradients. Non-finite updates are skipped; the training loop counts them."""
    adam = optax.adam(learning_rate, b1=config.adam_beta1, b2=config.adam_beta2)
    if config.max_grad_norm:
        adam = optax.chain(optax.clip_by_global_norm(config.max_grad_norm), adam)
    return optax.apply_if_finite(adam, max_consecutive_errors=jnp.iinfo(jnp.int32).max)
