"""The state of a training run: everything that changes and is saved in checkpoints."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from gemax.core.moments import Moments
from gemax.networks import AgentInputs, LSTMState, Parameters
from gemax.training.config import NUM_RECENT_RETURNS, NUM_RETURNS
from gemax.types import Transition, Tree

NUM_RECENT_UPDATES = 100
"""`largest_return_size` is the maximum over this many of the last updates."""
FAILING_SHARE = 0.1
"""`return_progress` ignores this share of the recent episodes, those with the lowest returns."""
ENOUGH_SHARE = 0.25
"""Episodes that get this far from the lowest to the highest return earn enough to learn from without a bonus."""


class ActorState(NamedTuple):
    """The state of the actor in every environment, before it chooses an action."""

    env: Tree
    """States of the environments. Empty for environments on the host."""
    observation: Shaped[Array, "envs *shape"]
    """Row of the observation table, or the observation itself."""
    inputs: AgentInputs
    """Inputs of the network besides the observation: the previous action and reward, and the time step."""
    is_first: Bool[Array, " envs"]
    lstm_state: LSTMState
    episode_return: Float[Array, " envs"]
    """Return of the current episode so far."""
    discounted_return: Float[Array, " envs"]
    """Discounted sum of the rewards of the episode so far, `discount * previous + reward`."""
    is_partial: Bool[Array, " envs"]
    """Whether this is an incomplete first episode: it started after time 0, or will be truncated before the horizon."""


class Window(NamedTuple):
    """Steps that the actor-critic trains on."""

    transitions: Transition
    reward: Float[Array, "time envs"]
    """Sum of the extrinsic and the weighted intrinsic reward."""


class RunningStatistics(NamedTuple):
    """Visits to cells and returns of episodes."""

    visits: Float[Array, " cells"]
    """Moving average of the visits to each cell per update."""
    returns: Float[Array, " kept"]
    """Ring buffer of the last returns."""
    counts_fully: Bool[Array, " kept"]
    """Whether each of these episodes terminated or earned a positive return, for `return_progress`."""
    num_returns: Int[Array, ""]
    """Number of finished episodes."""
    lowest_return: Float[Array, ""]
    highest_return: Float[Array, ""]
    """Lowest and highest return of all episodes. 0 before the first one ends."""
    return_sizes: Float[Array, " updates"]
    """Ring buffer of the `return_size` of each update."""
    rewarded_updates: Float[Array, ""]
    """Sum over all updates of the squared progress towards `ENOUGH_SHARE` of the best return. The weight of the
    intrinsic reward falls with it."""
    successful_updates: Float[Array, ""]
    """The same for the best return itself. The learning rate falls with it."""


class TrainState(NamedTuple):
    """Everything that changes during training."""

    update: Int[Array, ""]
    key: PRNGKeyArray
    actor: ActorState
    window: Window
    parameters: Parameters
    """Parameters of policy and value."""
    opt_state: Tree
    reward: Tree
    """State of the intrinsic reward."""
    observation_moments: Moments
    """Moments that observations are standardised with."""
    statistics: RunningStatistics


def count_returns(
    statistics: RunningStatistics,
    returns: Float[Array, "time envs"],
    ended: Bool[Array, "time envs"],
    terminated: Bool[Array, "time envs"],
) -> RunningStatistics:
    """Appends the returns of the episodes that ended to the ring buffer."""
    ended, returns, terminated = (values.reshape(-1) for values in (ended, returns, terminated))
    slot = (statistics.num_returns + jnp.cumsum(ended) - 1) % NUM_RETURNS
    # Steps that end no episode are written beyond the buffer, where they are dropped.
    slot = jnp.where(ended, slot, NUM_RETURNS)
    num_returns = statistics.num_returns + jnp.sum(ended)
    has_returns = statistics.num_returns > 0
    lowest = jnp.where(has_returns, statistics.lowest_return, jnp.inf)
    highest = jnp.where(has_returns, statistics.highest_return, -jnp.inf)
    lowest = jnp.minimum(lowest, jnp.min(jnp.where(ended, returns, jnp.inf)))
    highest = jnp.maximum(highest, jnp.max(jnp.where(ended, returns, -jnp.inf)))
    return statistics._replace(
        returns=statistics.returns.at[slot].set(returns, mode="drop"),
        counts_fully=statistics.counts_fully.at[slot].set(terminated | (returns > 0), mode="drop"),
        num_returns=num_returns,
        lowest_return=jnp.where(num_returns > 0, lowest, 0.0),
        highest_return=jnp.where(num_returns > 0, highest, 0.0),
    )


def initial_statistics(num_cells: int) -> RunningStatistics:
    """Returns the statistics before the first step."""
    return RunningStatistics(
        visits=jnp.zeros(num_cells),
        returns=jnp.zeros(NUM_RETURNS),
        counts_fully=jnp.zeros(NUM_RETURNS, bool),
        num_returns=jnp.zeros((), int),
        lowest_return=jnp.zeros(()),
        highest_return=jnp.zeros(()),
        return_sizes=jnp.zeros(NUM_RECENT_UPDATES),
        rewarded_updates=jnp.zeros(()),
        successful_updates=jnp.zeros(()),
    )


def return_size(transitions: Transition) -> Float[Array, ""]:
    """Returns the size of returns that rewards are scaled by.

    It is the largest discounted sum of past rewards, or the lowest undiscounted return within an episode with its sign
    reversed, if that is larger. With undiscounted gains, rewards of many steps would be too small beside the intrinsic
    reward. With discounted losses, costs of many steps would be so large that the agent stops exploring.
    """
    return jnp.maximum(jnp.max(transitions.discounted_return), jnp.max(-transitions.episode_return))


def keep_return_size(
    statistics: RunningStatistics, transitions: Transition, update: Int[Array, ""]
) -> RunningStatistics:
    """Keeps the `return_size` of an update in the ring buffer."""
    sizes = statistics.return_sizes.at[update % NUM_RECENT_UPDATES].set(return_size(transitions))
    return statistics._replace(return_sizes=sizes)


def largest_return_size(statistics: RunningStatistics) -> Float[Array, ""]:
    """Returns the largest `return_size` of the last 100 updates, and at least 1."""
    return jnp.maximum(jnp.max(statistics.return_sizes), 1.0)


def count_progress(statistics: RunningStatistics) -> RunningStatistics:
    """Counts an update as rewarded and as successful, each with the squared progress of the return.

    Squared, because a policy that is far from its best return still has to explore.
    """
    return statistics._replace(
        rewarded_updates=statistics.rewarded_updates + return_progress(statistics, ENOUGH_SHARE) ** 2,
        successful_updates=statistics.successful_updates + return_progress(statistics) ** 2,
    )


def return_progress(statistics: RunningStatistics, enough: float = 1.0) -> Float[Array, ""]:
    """Returns how far nine of ten recent episodes get towards a share `enough` of the way from the lowest return, where
    it is 0, to the highest.

    It stays at 0 as long as more than a tenth of the episodes fails, such as those of layouts that the policy has not
    solved. Episodes that are truncated without a positive return count half: a policy that only avoids costs may have
    found nothing yet. Less than a return of 1 is never enough, so that small costs of actions hardly count.
    """
    count = jnp.minimum(statistics.num_returns, NUM_RECENT_RETURNS)
    lowest, highest = statistics.lowest_return, statistics.highest_return
    needed = jnp.maximum(enough * (highest - lowest), 1.0)
    progress = jnp.clip((statistics.returns - lowest) / needed, 0.0, 1.0)
    counted = jnp.where(statistics.counts_fully, progress, progress / 2)
    recent = jnp.where(_is_among_last(statistics, count), counted, jnp.inf)
    reached = jnp.sort(recent)[(FAILING_SHARE * count).astype(int)]
    return jnp.where(count > 0, reached, 0.0)


def return_moments(
    statistics: RunningStatistics, num_episodes: int
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Returns mean and standard deviation of the last `num_episodes` returns, of which 1,000 are kept. Both are 0
    before an episode ends.
    """
    count = jnp.minimum(statistics.num_returns, num_episodes)
    is_counted = _is_among_last(statistics, count)
    count = jnp.maximum(count, 1)
    mean = jnp.sum(jnp.where(is_counted, statistics.returns, 0.0)) / count
    variance = jnp.sum(jnp.where(is_counted, (statistics.returns - mean) ** 2, 0.0)) / count
    return mean, jnp.sqrt(variance)


def _is_among_last(statistics: RunningStatistics, count: Int[Array, ""]) -> Bool[Array, " kept"]:
    """Returns which entries of the ring buffer are the last `count` returns."""
    age = (statistics.num_returns - 1 - jnp.arange(NUM_RETURNS)) % NUM_RETURNS
    return age < count


def count_visits(
    statistics: RunningStatistics, cell: Int[Array, "time envs"], decay: float
) -> RunningStatistics:
    """Adds the visits of one update to the moving average."""
    counts = jnp.zeros_like(statistics.visits).at[cell.reshape(-1)].add(1.0)
    return statistics._replace(visits=decay * statistics.visits + (1.0 - decay) * counts)
