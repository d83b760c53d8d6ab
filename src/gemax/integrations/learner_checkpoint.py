"""Saves the state of an intrinsic reward beside a model, as arrays with checksums instead of a pickle."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from gemax.integrations.intrinsic_learner import LearnerState
from gemax.runs.checkpoints import load_checkpoint, save_checkpoint


def save_learner(model: str | Path, state: LearnerState) -> None:
    """Saves the state in `MODEL.intrinsic`, beside the model."""
    save_checkpoint(checkpoint_folder(model), int(state.updates), state, {}, keep=1)


def load_learner(model: str | Path, like: LearnerState) -> LearnerState:
    """Loads the state that was saved beside a model. Its structure must be that of `like`."""
    return load_checkpoint(checkpoint_folder(model), like).tree


def checkpoint_folder(model: str | Path) -> Path:
    """Returns the folder of the intrinsic reward beside a model. The model's path may end with `.zip`."""
    model = Path(model)
    return model.with_name(model.name.removesuffix(".zip") + ".intrinsic")


def state_to_arrays(state: LearnerState) -> list[np.ndarray]:
    """Returns the leaves of the state as NumPy arrays, in a fixed order."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(_with_key_data(state))]


def state_from_arrays(like: LearnerState, arrays: list[np.ndarray]) -> LearnerState:
    """Returns the state from the arrays of `state_to_arrays`. `like` has its structure."""
    structure = jax.tree.structure(_with_key_data(like))
    state = jax.tree.unflatten(structure, [jnp.asarray(array) for array in arrays])
    return state._replace(key=jax.random.wrap_key_data(state.key))


def _with_key_data(state: LearnerState) -> LearnerState:
    return state._replace(key=jax.random.key_data(state.key))
