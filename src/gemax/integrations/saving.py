"""What an intrinsic reward has learned, in files beside a model. No pickle: arrays and their checksums."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from gemax.integrations.learner import LearnerState
from gemax.runs.checkpoints import load_checkpoint, save_checkpoint

SUFFIX = ".intrinsic"


def save_learner(path: str | Path, state: LearnerState) -> Path:
    """Saves beside the model of this path: a folder of the same name, with `.intrinsic` in place of `.zip`."""
    folder = folder_beside(path)
    save_checkpoint(folder, int(state.updates), state, {}, keep=1)
    return folder


def load_learner(path: str | Path, like: LearnerState) -> LearnerState:
    """What was saved beside the model of this path; refused if it does not fit what is expected."""
    return load_checkpoint(folder_beside(path), like).tree


def folder_beside(model: str | Path) -> Path:
    """Where the intrinsic reward of a model is saved."""
    model = Path(model)
    return model.with_name(model.name.removesuffix(".zip") + SUFFIX)


def arrays_of(state: LearnerState) -> list[np.ndarray]:
    """The state as plain arrays, in a fixed order."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(state._replace(key=jax.random.key_data(state.key)))]


def with_arrays(like: LearnerState, arrays: list[np.ndarray]) -> LearnerState:
    """The state that `arrays_of` was given, built like another one."""
    structure = jax.tree.structure(like._replace(key=jax.random.key_data(like.key)))
    state = jax.tree.unflatten(structure, [jnp.asarray(array) for array in arrays])
    return state._replace(key=jax.random.wrap_key_data(state.key))
