"""The `paper` preset against the tables of the paper, number by number, and what every preset must have."""

from pathlib import Path
from typing import get_args

import pytest

from gemax.agent.config import AgentConfig
from gemax.envs.registry import ENVS, make_env
from gemax.networks.torso import CONVOLUTIONS
from gemax.rewards.registry import PAPER_METHODS
from gemax.training.config import Preset
from gemax.training.presets import configure

COMMON = {  # tab:commonhyper
    "torso_size": 256,
    "head_size": 256,
    "lstm_size": 256,
    "embedding_size": 256,
    "num_envs": 256,  # batch size
    "num_negatives": 32,
    "similarity_scale": 1.0,  # c
    "huber_exponent": 4.0,  # q
    "embedding_penalty": 1e-4,  # w_reg
    "updates": 100_000,
    "learning_rate": 1e-4,
    "reward_learning_rate": 1e-4,
    "adam_beta1": 0.0,
    "adam_beta2": 0.95,
}
ROOMS = {  # tab:envhyper, 2-Rooms
    "entropy_cost": 1e-3,
    "intrinsic_shift": 0.005,
    "intrinsic_scale": 0.005,
    "unroll_length": 20,
    "unroll_period": 10,
}
BY_ENV = {  # tab:envhyper
    "two-rooms": ROOMS,
    "two-rooms-noisy": ROOMS,
    "two-keys": ROOMS,
    "sixteen-leaves": {**ROOMS, "unroll_length": 14, "unroll_period": 7},
    "cartpole-swingup": {**ROOMS, "entropy_cost": 1e-2, "intrinsic_shift": 0.15, "intrinsic_scale": 0.15},
    "mountain-car": {**ROOMS, "entropy_cost": 1e-2, "intrinsic_shift": 0.7, "intrinsic_scale": 0.25},
}
HORIZON = {"two-rooms": 30, "sixteen-leaves": 18, "cartpole-swingup": 1001, "mountain-car": 1000}


def test_every_environment_has_a_column_of_the_paper():
    assert set(BY_ENV) == set(ENVS)


@pytest.mark.parametrize("env", ENVS)
def test_the_paper_preset_has_every_number_of_the_paper(env):
    config = configure(env, "paper")
    expected = {**COMMON, **BY_ENV[env]}
    assert {name: config.flat[name] for name in expected} == expected
    # Decisions of the notes on the paper: its fine setting for δ and C, V-trace as in its text, time not hidden.
    assert (config.intrinsic.huber_offset, config.intrinsic.adjacency_scale, config.agent.returns) == (
        1.0,
        1.0,
        "vtrace",
    )
    assert (config.env.observation, config.intrinsic.hide_time, config.agent.discount) == (
        "pixels",
        False,
        1.0,
    )


def test_the_moments_of_rnd_decay_as_in_the_paper_and_the_setting_changes_no_other_run():
    decays = {
        method: configure("two-rooms", "paper", method=method).intrinsic.rnd_return_decay
        for method in PAPER_METHODS
    }
    assert decays == {method: 0.95 if method == "rnd" else 1.0 for method in PAPER_METHODS}


def test_the_torso_has_the_convolutions_of_the_paper():
    assert CONVOLUTIONS == ((32, 8, 4), (32, 4, 2), (64, 3, 1))


@pytest.mark.parametrize(("env", "horizon"), HORIZON.items())
def test_episodes_are_as_long_as_in_the_paper(env, horizon):
    """bsuite's swing-up lasts 1,001 steps, which the paper calls 1,000."""
    assert make_env(env).spec.horizon == horizon


def test_every_difference_between_the_presets_is_documented():
    text = (Path(__file__).parents[2] / "docs" / "presets.md").read_text()
    for env in ENVS:
        paper, laptop = (configure(env, preset).flat for preset in ("paper", "laptop"))
        for name in paper:
            assert paper[name] == laptop[name] or name == "preset" or f"`{name}`" in text, name


def test_settings_override_the_preset_and_unknown_names_are_refused():
    assert configure("two-rooms", "paper", updates=7).run.updates == 7
    with pytest.raises(
        ValueError, match=r"there is no setting 'learning_rat'\. Did you mean learning_rate\?"
    ):
        configure("two-rooms", learning_rat=1.0)


def test_a_custom_map_has_the_defaults_and_the_paper_preset_of_two_rooms():
    assert configure("my-map", "paper").agent.unroll_length == 20
    assert configure("my-map").agent == AgentConfig()


@pytest.mark.parametrize("env_id", ["two-rooms-noisy", "two-keys"])
@pytest.mark.parametrize("preset", get_args(Preset))
@pytest.mark.parametrize("method", PAPER_METHODS)
def test_variants_of_two_rooms_have_its_settings(env_id, preset, method):
    variant, two_rooms = (configure(name, preset, method=method).flat for name in (env_id, "two-rooms"))
    differing = {name for name in variant if variant[name] != two_rooms[name]}
    assert differing <= {"env_id", "updates"}
