"""Rewards of single steps, with one compiled call per step that changes the memory in place.

For small networks, passing the state to a compiled call and copying its memory takes longer than the reward itself. So
the state is flattened once per update, a call returns only the arrays that a step changes, and these are donated: the
call overwrites them instead of copying them.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from gemax.integrations.intrinsic_learner import IntrinsicLearner, LearnerState
from gemax.types import Transition


class StepRewards:
    """Calls `reward_step` of a learner once per step, on a copy of the arrays that the steps change."""

    def __init__(self, learner: IntrinsicLearner, state: LearnerState):
        self._learner = learner
        self._changed: list[int] | None = None
        """Indices of the leaves of the state that a step changes. Known after the first call."""
        self._call = jax.jit(self._reward_step, donate_argnums=0)
        self.restart(state)

    def restart(self, state: LearnerState) -> None:
        """Continues from this state. It stays valid, because only copies of its arrays are overwritten."""
        self._leaves, self._structure = jax.tree.flatten(state)
        if self._changed is not None:
            self._split_leaves()

    def __call__(
        self, transitions: Transition, is_valid: Bool[np.ndarray, " envs"]
    ) -> Float[np.ndarray, " envs"]:
        """Returns the rewards of one step, and adds the step to the memory."""
        transitions = fill_invalid(transitions, is_valid)
        if self._changed is None:
            self._changed = self._find_changed(transitions, is_valid)
            self._split_leaves()
        rewards, self._memory = self._call(self._memory, self._constant, transitions, is_valid)
        return np.asarray(rewards, np.float64)

    def _find_changed(self, transitions: Transition, is_valid: Bool[np.ndarray, " envs"]) -> list[int]:
        changed = []

        def trace(leaves: list[Array], *step) -> None:
            state = jax.tree.unflatten(self._structure, leaves)
            after = jax.tree.leaves(self._learner.reward_step(state, *step)[1])
            # A leaf that `reward_step` returns unchanged is the same object while it is traced.
            changed.extend(i for i, leaf in enumerate(leaves) if after[i] is not leaf)

        jax.eval_shape(trace, self._leaves, transitions, is_valid)
        return changed

    def _split_leaves(self) -> None:
        assert self._changed is not None
        self._memory = [jnp.array(self._leaves[i], copy=True) for i in self._changed]
        self._constant = [None if i in self._changed else leaf for i, leaf in enumerate(self._leaves)]

    def _reward_step(
        self,
        memory: list[Array],
        constant: list[Array | None],
        transitions: Transition,
        is_valid: Bool[Array, " envs"],
    ) -> tuple[Float[Array, " envs"], list[Array]]:
        assert self._changed is not None
        leaves = list(constant)
        for i, leaf in zip(self._changed, memory, strict=True):
            leaves[i] = leaf
        state = jax.tree.unflatten(self._structure, leaves)
        rewards, after = self._learner.reward_step(state, transitions, is_valid)
        leaves = jax.tree.leaves(after)
        return rewards, [leaves[i] for i in self._changed]


def fill_invalid(transitions: Transition, is_valid: Bool[np.ndarray, " envs"]) -> Transition:
    """Replaces the steps of invalid environments by steps of a valid one, which do not distort batch averages."""
    if is_valid.all():
        return transitions
    source = np.where(is_valid, np.arange(len(is_valid)), np.argmax(is_valid))
    return jax.tree.map(lambda field: field[:, source], transitions)
