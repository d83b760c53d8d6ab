"""Divides the environments of a compiled update between devices. The compiler inserts the communication.

The program is the same as on one device, so that its objective, its gradients and its random draws are too: negatives
come from all devices, and every environment has the random key of its index.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from gemax.training.learn import Trainer, initial_state
from gemax.training.state import TrainState
from gemax.types import Tree

ENVS_AXIS = "envs"
"""Name of the mesh's only axis, along which the environments are divided."""


def device_mesh(num_devices: int) -> Mesh:
    """Returns the first devices as a mesh. In a program of several processes, these are devices of all processes."""
    axis_types = (AxisType.Auto,)
    return jax.make_mesh((num_devices,), (ENVS_AXIS,), axis_types, devices=jax.devices()[:num_devices])


def divide_envs(trainer: Trainer, mesh: Mesh) -> Callable[[TrainState], TrainState]:
    """Returns a function for compiled code that divides a state between the devices, and changes no value.

    Every array with an axis of environments is divided along it: the actor, the window and the memories of the
    intrinsic reward. Everything else, such as parameters, is on all devices.
    """
    num_envs = trainer.config.env.num_envs

    def shapes(num_envs: int) -> TrainState:
        larger = trainer._replace(config=trainer.config.replace(num_envs=num_envs))
        return jax.eval_shape(lambda key: initial_state(larger, key), jax.random.key(0))

    def sharding(leaf: jax.ShapeDtypeStruct, doubled: jax.ShapeDtypeStruct) -> NamedSharding:
        # An axis of environments is one that grows with their number. This also finds it in custom rewards. The
        # capacity of a memory of limited size shrinks.
        sizes = zip(leaf.shape, doubled.shape, strict=True)
        return NamedSharding(mesh, PartitionSpec(*(ENVS_AXIS if new > old else None for old, new in sizes)))

    shardings = jax.tree.map(sharding, shapes(num_envs), shapes(2 * num_envs))
    return lambda state: jax.lax.with_sharding_constraint(state, shardings)


def on_all_devices(tree: Tree, mesh: Mesh) -> Tree:
    """Copies arrays to all devices of the mesh. In a program of several processes, each has the same arrays."""
    everywhere = NamedSharding(mesh, PartitionSpec())

    def copy(leaf: Array) -> Array:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(copy(jax.random.key_data(leaf)))
        # Only NumPy arrays can be sent to devices of other processes.
        return jax.device_put(np.asarray(leaf), everywhere)

    return jax.tree.map(copy, tree)


def on_one_device(tree: Tree) -> Tree:
    """Returns the first device's copy of arrays that are on all devices. It shares their memory."""
    return jax.tree.map(lambda leaf: leaf.addressable_data(0), tree)
