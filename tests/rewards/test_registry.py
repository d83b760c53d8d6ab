"""The registry is the one list of methods."""

import subprocess
import sys
from typing import get_args, get_type_hints

import optax
import pytest

from gemax.rewards.base import IntrinsicReward
from gemax.rewards.build import RewardInputs
from gemax.rewards.config import IntrinsicConfig
from gemax.rewards.registry import METHODS, PAPER_METHODS, build_reward

INPUTS = RewardInputs(optax.adam(1e-3), torso_size=8, head_size=8, horizon=5, num_actions=4, num_states=6)


def test_rows_and_configuration_name_the_same_methods():
    assert {*METHODS, "custom"} == set(get_args(get_type_hints(IntrinsicConfig)["method"]))


def test_plots_show_every_method_in_its_own_colour():
    assert len({row.colour for row in METHODS.values()}) == len(METHODS)


def test_the_methods_of_the_paper_are_those_of_its_figures():
    assert list(PAPER_METHODS) == ["gem", "rnd", "ngu", "ngu-rnd", "oracle", "none"]


def test_the_registry_is_imported_without_jax():
    code = "import sys, gemax.rewards.registry; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_be_built(method):
    assert isinstance(build_reward(IntrinsicConfig(method=method), INPUTS), IntrinsicReward)


def test_a_method_that_needs_what_the_environment_lacks_is_refused():
    with pytest.raises(ValueError, match="oracle counts visits to the true states"):
        build_reward(IntrinsicConfig(method="oracle"), INPUTS._replace(num_states=None))
    with pytest.raises(ValueError, match="ngu-rnd predicts the action and needs discrete actions"):
        build_reward(IntrinsicConfig(method="ngu-rnd"), INPUTS._replace(num_actions=None))
