"""RND against that of rsl_rl, the library that legged robots are trained with: same weights, same observations."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gemax.networks import mlp
from gemax.rewards.rnd import RndSettings, distillation
from gemax.testing import example_rollout, part_of, without_table

rsl_rl = pytest.importorskip("rsl_rl.extensions", reason="rsl_rl is not installed; `make test-peers` has it")
tensordict = pytest.importorskip("tensordict")
torch = pytest.importorskip("torch")

pytestmark = pytest.mark.peers
WORLDS, STEPS, ROLLOUTS, ROWS, FEATURES, HIDDEN, OUTPUTS, RATE = 4, 8, 5, 40, 6, 16, 12, 0.01


def ours():
    """With what rsl_rl has too: no observation is cut, and all that were ever seen count alike."""
    settings = RndSettings(observation_decay=1.0, largest_observation=1e6)
    return distillation(mlp((HIDDEN, OUTPUTS)), optax.adam(RATE), settings)


def theirs(state):
    """Their module with our weights. Deviations are divided by as they are: without the 0.01 that they add."""
    module = rsl_rl.RandomNetworkDistillation(
        FEATURES,
        {"rnd_state": ["seen"]},
        OUTPUTS,
        (HIDDEN,),
        (HIDDEN,),
        activation="relu",
        state_normalization=True,
        weight=1.0,
        learning_rate=RATE,
    )
    module.state_normalizer.eps = 0.0
    with torch.no_grad():
        for network, parameters in ((module.target, state.target), (module.predictor, state.predictor)):
            for weight, number in zip(network.parameters(), in_their_order(parameters), strict=True):
                weight.copy_(torch.from_numpy(number))
    return module


def in_their_order(parameters):
    """Weight and bias, layer by layer; they multiply from the other side."""
    layers = parameters["params"]
    return [np.array(layers[name][part].T) for name in sorted(layers) for part in ("kernel", "bias")]


def test_errors_losses_and_steps_of_the_predictor_are_those_of_rsl_rl(key):
    rows = 3.0 * jax.random.normal(key, (ROWS, FEATURES)) + jnp.arange(float(FEATURES))[None]
    whole = example_rollout(0, rows, WORLDS, STEPS * ROLLOUTS)
    method = ours()
    step, state = jax.jit(method.step), method.init(key, rows)
    module = theirs(state)
    for number in range(ROLLOUTS):
        rollout = part_of(whole, STEPS * number, STEPS * (number + 1))
        error, state, metrics = step(state, rollout)
        seen = torch.from_numpy(np.array(without_table(rollout).arrived.rows))
        seen = tensordict.TensorDict({"seen": seen}, batch_size=len(seen))
        # A rollout counts in the moments before it is paid: in our order.
        module.update_normalization(seen)
        distance = module.get_intrinsic_reward(seen).numpy()
        np.testing.assert_allclose(np.asarray(error).ravel(), distance**2 / OUTPUTS, rtol=1e-5, atol=1e-5)
        loss = module.compute_loss(seen)
        np.testing.assert_allclose(metrics["rnd_loss"], loss.item(), rtol=1e-5)
        module.optimizer.zero_grad()
        loss.backward()
        module.optimizer.step()
        for found, weight in zip(in_their_order(state.predictor), module.predictor.parameters(), strict=True):
            np.testing.assert_allclose(found, weight.detach().numpy(), rtol=1e-5, atol=1e-5)
