"""RND against rsl_rl, with the same weights and observations."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gemax.networks import mlp
from gemax.rewards.rnd import RndSettings, distillation
from gemax.testing import example_transitions, slice_steps, without_table

rsl_rl = pytest.importorskip("rsl_rl.extensions", reason="rsl_rl is not installed; `make test-peers` has it")
tensordict = pytest.importorskip("tensordict")
torch = pytest.importorskip("torch")

pytestmark = pytest.mark.peers
ENVS, STEPS, ROLLOUTS, ROWS, FEATURES, HIDDEN, OUTPUTS, RATE = 4, 8, 5, 40, 6, 16, 12, 0.01


def ours():
    """Returns RND as in rsl_rl: observations are not clipped, and their moments do not decay."""
    settings = RndSettings(observation_decay=1.0, max_observation=1e6)
    return distillation(mlp((HIDDEN, OUTPUTS)), optax.adam(RATE), settings)


def theirs(state):
    """Returns their module with our weights, without the 0.01 that it adds to standard deviations."""
    module = rsl_rl.RandomNetworkDistillation(
        FEATURES,
        {"rnd_state": ["observation"]},
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
            for weight, values in zip(network.parameters(), in_their_order(parameters), strict=True):
                weight.copy_(torch.from_numpy(values))
    return module


def in_their_order(parameters):
    """Returns weight and bias of each layer, transposed as in PyTorch."""
    layers = parameters["params"]
    return [np.array(layers[name][part].T) for name in sorted(layers) for part in ("kernel", "bias")]


def test_errors_losses_and_predictor_updates_equal_rsl_rl(key):
    rows = 3.0 * jax.random.normal(key, (ROWS, FEATURES)) + jnp.arange(float(FEATURES))[None]
    whole = example_transitions(0, rows, ENVS, STEPS * ROLLOUTS)
    method = ours()
    step, state = jax.jit(method.step), method.init(key, rows)
    module = theirs(state)
    for index in range(ROLLOUTS):
        transitions = slice_steps(whole, STEPS * index, STEPS * (index + 1))
        error, state, metrics = step(state, transitions)
        observation = torch.from_numpy(np.array(without_table(transitions).next_observation.rows))
        observation = tensordict.TensorDict({"observation": observation}, batch_size=len(observation))
        # As in gemax, the moments include the rollout before its reward is computed.
        module.update_normalization(observation)
        distance = module.get_intrinsic_reward(observation).numpy()
        np.testing.assert_allclose(np.asarray(error).ravel(), distance**2 / OUTPUTS, rtol=1e-5, atol=1e-5)
        loss = module.compute_loss(observation)
        np.testing.assert_allclose(metrics["rnd_loss"], loss.item(), rtol=1e-5)
        module.optimizer.zero_grad()
        loss.backward()
        module.optimizer.step()
        for found, weight in zip(in_their_order(state.predictor), module.predictor.parameters(), strict=True):
            np.testing.assert_allclose(found, weight.detach().numpy(), rtol=1e-5, atol=1e-5)
