"""Compares `learn` on several virtual devices with `learn` on one. Run in a process of its own: the number of devices
cannot change after JAX has started, and float64 is for all arrays.

`python device_child.py ENV METHOD NUM_DEVICES...` prints JSON, with one number for each number of devices: relative
differences, and the flops of each device relative to one device. With the environment variables of `jax.distributed`,
the devices are divided between the processes.
"""

import json
import os
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec

from gemax.training.assemble import assemble
from gemax.training.learn import initial_state, learn
from gemax.training.presets import configure
from gemax.training.rollout import collect
from gemax.training.sharding import ENVS_AXIS, device_mesh, divide_envs, on_all_devices

TINY = {"torso_size": 16, "lstm_size": 8, "head_size": 8, "embedding_size": 4, "num_envs": 16}
UNROLL = {"unroll_length": 8, "unroll_period": 8}
NUM_CALLS, NUM_RECORDED = 50, 5


def relative_difference(one, other):
    """Norm of the difference of two trees, divided by the norm of the first one."""
    one, other = (
        np.concatenate([np.ravel(leaf).astype(float) for leaf in jax.tree.leaves(tree)])
        for tree in (one, other)
    )
    assert np.isfinite(one).all()
    return float(np.linalg.norm(one - other) / np.linalg.norm(one))


def largest_difference(ones, others):
    """Largest relative difference of several pairs of trees."""
    return max(relative_difference(one, other) for one, other in zip(ones, others, strict=True))


def without_key(state):
    """The parts of a state without its random key, which is not a number."""
    return [part for part in state._replace(key=()) if jax.tree.leaves(part)]


def doubles(tree):
    """All floating-point arrays as float64."""

    def double(leaf):
        return leaf.astype(jnp.float64) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    return jax.tree.map(double, tree)


def record(trainer, state):
    """Transitions of a few rollouts of the first policy."""
    rollout = jax.jit(partial(collect, trainer.collector.env, trainer, state, num_steps=8))
    actor, recorded = state.actor, []
    for number in range(NUM_RECORDED):
        actor, transitions = rollout(actor, key=jax.random.key(number))
        recorded.append((actor, transitions))
    return recorded


def learner(trainer, mesh):
    """`learn` with the environments divided between the devices of a mesh."""

    def step(state, actor, transitions, key):
        state = state._replace(actor=actor)
        if mesh is not None:
            by_env = NamedSharding(mesh, PartitionSpec(None, ENVS_AXIS))
            state = divide_envs(trainer, mesh)(state)
            transitions = jax.lax.with_sharding_constraint(transitions, by_env)
        return learn(trainer, state, transitions, key)[0]

    return jax.jit(step, out_shardings=None if mesh is None else NamedSharding(mesh, PartitionSpec()))


def gradients(state):
    """The last gradient of each optimiser. With β1 = 0, they are the first moments of Adam."""
    trees = (state.opt_state, state.reward)
    return [moment for _, moment in optax.tree_utils.tree_get_all_with_path(trees, "mu")]


def placed(tree, mesh):
    """The arrays on all devices of a mesh."""
    return tree if mesh is None else on_all_devices(tree, mesh)


def main(env_id, method, *num_devices):
    config = configure(env_id, method=method, **TINY, **UNROLL)
    assert config.agent.adam_beta1 == 0
    trainer = assemble(config)
    meshes = [None, *map(device_mesh, num_devices)]
    initial = jax.jit(partial(initial_state, trainer))(jax.random.key(0))
    recorded = record(trainer, initial)
    steps = [learner(trainer, mesh) for mesh in meshes]

    first, flops = [], []
    for step, mesh in zip(steps, meshes, strict=True):
        arguments = *placed((initial, *recorded[0]), mesh), jax.random.key(0)
        program = step.lower(*arguments).compile()
        first.append(gradients(program(*arguments)))
        flops.append(program.cost_analysis()["flops"])

    jax.config.update("jax_enable_x64", True)
    inputs, last = doubles((initial, recorded)), []
    for step, mesh in zip(steps, meshes, strict=True):
        state, transitions = placed(inputs, mesh)
        for number in range(NUM_CALLS):
            state = step(state, *transitions[number % NUM_RECORDED], jax.random.key(number))
        last.append(without_key(state))
    answer = {
        "gradients": [largest_difference(first[0], other) for other in first[1:]],
        "states": [largest_difference(last[0], other) for other in last[1:]],
        "moved": relative_difference(initial.parameters, state.parameters),
        "dtype": str(jax.tree.leaves(state.parameters)[0].dtype),
        "flops": [other / flops[0] for other in flops[1:]],
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    env_id, method, *numbers = sys.argv[1:]
    num_devices = list(map(int, numbers))
    num_processes = int(os.environ.get("JAX_NUM_PROCESSES", "1"))
    jax.config.update("jax_num_cpu_devices", max(num_devices) // num_processes)
    if num_processes > 1:
        address, process_id = os.environ["JAX_COORDINATOR_ADDRESS"], int(os.environ["JAX_PROCESS_ID"])
        jax.distributed.initialize(address, num_processes, process_id)
    main(env_id, method, *num_devices)
