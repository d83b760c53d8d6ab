"""The table of methods: each row has a method's name, title, plot colour, factory and requirements.

Rows name their factory instead of importing it, so that `gemax --help` need not import JAX.
"""

from typing import TYPE_CHECKING, NamedTuple

from gemax.rewards.config import IntrinsicConfig
from gemax.settings import import_function

if TYPE_CHECKING:
    from gemax.rewards.base import IntrinsicReward
    from gemax.rewards.build import RewardInputs


class MethodRow(NamedTuple):
    """One intrinsic reward."""

    name: str
    title: str
    """Name in plots and tables."""
    colour: str
    """Colour in plots."""
    factory: str
    """`module:function` in `gemax.rewards` that builds the reward from its configuration and `RewardInputs`."""
    needs_states: bool = False
    """Whether the environment must tell its true state."""
    needs_discrete_actions: bool = False
    """Whether the environment must have a single discrete action."""
    is_in_paper: bool = True
    """Whether the paper has the method, so that its figures and tables show it."""


ROWS = (
    MethodRow("gem", "GEM", "tab:blue", "build:build_gem"),
    MethodRow("rnd", "RND", "tab:green", "build:build_rnd"),
    MethodRow("ngu", "NGU", "tab:orange", "build:build_ngu", needs_discrete_actions=True),
    MethodRow("ngu-rnd", "NGU+RND", "tab:red", "build:build_ngu_rnd", needs_discrete_actions=True),
    MethodRow("e3b", "E3B", "tab:brown", "build:build_e3b", needs_discrete_actions=True, is_in_paper=False),
    MethodRow("re3", "RE3", "tab:cyan", "build:build_re3", is_in_paper=False),
    MethodRow("oracle", "oracle", "tab:purple", "build:build_oracle", needs_states=True),
    MethodRow("none", "none", "0.5", "build:build_none"),
)
METHODS = {row.name: row for row in ROWS}
PAPER_METHODS = {row.name: row for row in ROWS if row.is_in_paper}
"""The methods of the paper, which `gemax reproduce` compares."""


def build_reward(config: IntrinsicConfig, inputs: "RewardInputs") -> "IntrinsicReward":
    """Builds the intrinsic reward of a configuration. The method `custom` is passed from Python instead.

    Raises:
        ValueError: The method needs countable states or discrete actions, and the environment has none.
    """
    row = METHODS[config.method]
    if row.needs_states and inputs.num_states is None:
        raise ValueError(
            f"method {row.name} counts visits to the true states, which this environment does not tell. "
            "Choose gem or rnd."
        )
    if row.needs_discrete_actions and inputs.num_actions is None:
        raise ValueError(
            f"method {row.name} predicts the action and needs discrete actions, which this environment does not have. "
            "Choose gem, rnd or re3."
        )
    if not config.hide_time:
        inputs = inputs._replace(time_feature=None)
    return import_function("gemax.rewards", row.factory)(config, inputs)
