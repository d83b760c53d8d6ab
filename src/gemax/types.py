"""Records and array types that several packages share."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

Weight: TypeAlias = Float[Array, " N"] | Bool[Array, " N"]
"""Weights of N states: a mask, a histogram or a probability. They need not sum to one."""

Metrics: TypeAlias = dict[str, Float[Array, ""]]
"""Scalars to log, by name."""

Tree: TypeAlias = Any
"""A pytree of arrays."""

HostArray: TypeAlias = Any
"""A NumPy array that compiled functions also accept. Type checkers would otherwise ask for a JAX array."""


class FiniteActions(NamedTuple):
    """Discrete actions: one choice, or several independent choices per action."""

    sizes: tuple[int, ...]
    """Number of options of each choice."""

    @property
    def is_single(self) -> bool:
        """Whether an action is a single integer."""
        return len(self.sizes) == 1

    @property
    def num_inputs(self) -> int:
        """Size of the one-hot encoded previous action."""
        return sum(self.sizes)

    @property
    def num_outputs(self) -> int:
        """Size of the policy output: one logit per option."""
        return sum(self.sizes)

    def null_input(self, num_envs: int) -> Int[Array, "envs *parts"]:
        """Returns the network input that means "no previous action", for the first step of an episode."""
        shape = (num_envs,) if self.is_single else (num_envs, len(self.sizes))
        return jnp.full(shape, self.num_inputs, jnp.int32)

    def as_input(self, action: Int[Array, "..."]) -> Int[Array, "..."]:
        """Returns the network input for this previous action: row indices of one table for all choices."""
        if self.is_single:
            return action
        offsets = jnp.cumsum(jnp.asarray((0, *self.sizes[:-1])))
        return action + offsets.reshape((1,) * (action.ndim - 1) + (-1,))


class ContinuousActions(NamedTuple):
    """Continuous actions: a vector with entries in [-1, 1]."""

    size: int

    @property
    def num_inputs(self) -> int:
        """Size of the previous action."""
        return self.size

    @property
    def num_outputs(self) -> int:
        """Size of the policy output: mean and standard deviation of each entry."""
        return 2 * self.size

    def null_input(self, num_envs: int) -> Float[Array, "envs size"]:
        """Returns the network input that means "no previous action", for the first step of an episode."""
        return jnp.zeros((num_envs, self.size))

    def as_input(self, action: Float[Array, "..."]) -> Float[Array, "..."]:
        """Returns the network input for this previous action: the action itself."""
        return action


ActionSpec: TypeAlias = FiniteActions | ContinuousActions
"""The action space of an agent."""


class ObservationSpec(NamedTuple):
    """The box that contains every observation."""

    low: Shaped[np.ndarray, "*shape"]
    high: Shaped[np.ndarray, "*shape"]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one observation."""
        return self.low.shape

    @property
    def dtype(self) -> np.dtype:
        """uint8 or float32 for images, float32 for vectors."""
        return self.low.dtype


MIN_IMAGE_SIZE = 36
"""Smallest height and width of an image for the three convolutions of the torso."""


def default_pixels_per_cell(shape: tuple[int, ...]) -> int | None:
    """Returns `EnvSpec.pixels_per_cell` for observations of this shape that are not maps of cells.

    It is 1 for images and None for vectors and for images that are too small for convolutions.
    """
    return 1 if len(shape) == 3 and min(shape[:2]) >= MIN_IMAGE_SIZE else None


class EnvSpec(NamedTuple):
    """Describes an environment to the agent, the intrinsic reward and the reports."""

    name: str
    observation: ObservationSpec
    actions: ActionSpec
    horizon: int
    """Maximum number of steps of an episode, as far as known. The time is encoded up to it."""
    solved_return: float = float("inf")
    """Mean return from which the environment counts as solved."""
    num_cells: int | None = None
    """Number of cells (of a map, or bins) in which visits are counted. None if visits cannot be counted."""
    num_states: int | None = None
    """Number of true states, which the oracle counts. The number of cells if states are not enumerated."""
    time_feature: int | None = None
    """Index of the time in the observation vector, if it is there."""
    min_episode_steps: int = 1
    """Minimum number of steps of an episode."""
    pixels_per_cell: int | None = None
    """Each stored pixel is a block of this height and width when rendered. None if no convolutions are applied."""
    truncation_bootstraps: bool = False
    """Whether the return of a truncated episode includes the value of its last observation."""
    encode_observation: Callable[[Any], Any] = np.asarray
    """Converts one observation of the environment into the array that is stored and fed to the networks."""
    has_batch_axis: Callable[[Any], bool] | None = None
    """Whether an observation is a batch. None if batches are arrays with one axis more than `observation`."""
    decode_action: Callable[[np.ndarray], Any] = int
    """Converts one action of the policy into an action of the environment."""
    notes: tuple[str, ...] = ()
    """Messages for the user, logged when a run starts."""

    def is_batch(self, observation: Any) -> bool:
        """Returns whether this is a batch of observations, in the format of the environment."""
        if self.has_batch_axis is not None:
            return self.has_batch_axis(observation)
        return np.ndim(observation) == len(self.observation.shape) + 1

    @property
    def num_actions(self) -> int:
        """Number of actions of an environment with a single discrete choice."""
        assert isinstance(self.actions, FiniteActions)
        assert self.actions.is_single
        return self.actions.sizes[0]


class Timestep(NamedTuple):
    """The result of a reset or a step of one environment."""

    observation: Shaped[Array, "*shape"]
    """At the end of an episode, this is the terminal observation, never the first one of the next episode."""
    reward: Float[Array, ""]
    """Reward of the action. 0 after a reset."""
    terminated: Bool[Array, ""]
    """Whether the task has ended."""
    truncated: Bool[Array, ""]
    """Whether a time limit has ended the episode. Never true together with `terminated`."""


class Observations(NamedTuple):
    """A batch of observations, with repeated ones stored once.

    A function of single observations is computed once per row, and its results are then gathered by `row_index`.
    """

    rows: Shaped[Array, "rows *shape"]
    """The distinct observations. Without `row_index`: one per step, in order of time and environment."""
    row_index: Int[Array, "time envs"] | None
    """Row of each step. None if there is one row per step."""


class Episode(NamedTuple):
    """One episode, with observations and actions in the format of the environment."""

    observations: Any
    """From the first to the terminal observation. There is one more observation than actions."""
    actions: Any
    rewards: Any
    terminations: Any
    truncations: Any
    seed: int | None = None
    """Seed of the reset, for environments on the host."""


class Transition(NamedTuple):
    """Steps of all environments. Every field is [time, envs, ...].

    The same record goes from the collector to the intrinsic reward, the unroll window and the losses. Observations are
    arrays as stored by the collector; the intrinsic reward gets them as `Observations`. If an external agent acts, such
    as one of Stable-Baselines3, the fields of gemax's own agent are None.
    """

    observation: Any
    """Observation that the action was chosen from."""
    next_observation: Any
    """Observation after the action. At the end of an episode, this is the terminal observation."""
    action: Shaped[Array, "time envs *parts"]
    log_prob: Float[Array, "time envs"]
    """ln π(a) of the policy that acted. Zero if an external agent acts."""
    reward: Float[Array, "time envs"]
    """Extrinsic reward."""
    terminated: Bool[Array, "time envs"]
    truncated: Bool[Array, "time envs"]
    is_first: Bool[Array, "time envs"]
    """Whether `observation` is the first of an episode."""
    cell: Int[Array, "time envs"]
    """Cell of the state after the action. Zero if visits cannot be counted."""
    state_index: Int[Array, "time envs"]
    """Index of the true state after the action, which only the oracle sees. The cell if states are not enumerated."""
    is_valid: Any = None
    """False for padding, which copies an earlier step if an environment took no step."""
    inputs: Any = None
    """The policy's inputs other than the observation, `AgentInputs`."""
    lstm_state: Any = None
    """LSTM state before the step."""
    episode_return: Any = None
    """Return of the episode up to and including this step."""
    discounted_return: Any = None
    """Discounted sum of the rewards of the episode so far, `discount * previous + reward`."""
    is_partial: Any = None
    """Whether this is an incomplete first episode, whose return does not count."""


def ends(transitions: Transition) -> Bool[Array, "time envs"]:
    """Returns whether each step ends its episode, by termination or truncation."""
    return transitions.terminated | transitions.truncated


def valid_steps(transitions: Transition) -> Bool[Array, "time envs"]:
    """Returns whether each step was taken, and is not padding."""
    if transitions.is_valid is None:
        return jnp.ones(transitions.reward.shape, bool)
    return transitions.is_valid


def gather(
    observations: Observations, features: Float[Array, "rows F"], num_envs: int
) -> Float[Array, "time envs F"]:
    """Returns the features of each step's observation, given the features of the rows."""
    if observations.row_index is None:
        return features.reshape(-1, num_envs, features.shape[-1])
    return features[observations.row_index]


def gather_flat(observations: Observations, values: Shaped[Array, "rows *F"]) -> Shaped[Array, "steps *F"]:
    """Like `gather`, with time and environment as one axis."""
    return values if observations.row_index is None else values[observations.row_index.reshape(-1)]


def tree_where(condition: Bool[Array, "..."], new: Tree, old: Tree) -> Tree:
    """Returns `jnp.where` for each leaf of two pytrees. The condition has the leading axes of every leaf."""

    def choose(one: Array, other: Array) -> Array:
        return jnp.where(condition.reshape(condition.shape + (1,) * (one.ndim - condition.ndim)), one, other)

    return jax.tree.map(choose, new, old)
