"""The `paper` preset against the tables of the paper, number by number, and what every preset must have."""

import dataclasses
from pathlib import Path

import pytest

from gemax.networks import CONVOLUTIONS
from gemax.training.presets import LAPTOP, PAPER, configure
from gemax.worlds.registry import WORLDS, make_world

COMMON = {  # tab:commonhyper
    "torso_size": 256,
    "head_size": 256,
    "lstm_size": 256,
    "embedding_size": 256,
    "num_worlds": 256,  # batch size
    "num_negatives": 32,
    "similarity_scale": 1.0,  # c
    "huber_exponent": 4.0,  # q
    "regularisation": 1e-4,  # w_reg
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
    "trace_length": 20,
    "trace_period": 10,
}
BY_WORLD = {  # tab:envhyper
    "two-rooms": ROOMS,
    "two-rooms-noisy": ROOMS,
    "two-keys": ROOMS,
    "sixteen-leaves": {**ROOMS, "trace_length": 14, "trace_period": 7},
    "cartpole-swingup": {**ROOMS, "entropy_cost": 1e-2, "intrinsic_shift": 0.15, "intrinsic_scale": 0.15},
    "mountain-car": {**ROOMS, "entropy_cost": 1e-2, "intrinsic_shift": 0.7, "intrinsic_scale": 0.25},
}
HORIZON = {"two-rooms": 30, "sixteen-leaves": 18, "cartpole-swingup": 1001, "mountain-car": 1000}


def test_every_world_has_every_preset():
    assert set(LAPTOP) == set(PAPER) == set(BY_WORLD) == set(WORLDS)


@pytest.mark.parametrize("world", WORLDS)
def test_the_paper_preset_has_every_number_of_the_paper(world):
    config = configure(world, "paper")
    for name, number in {**COMMON, **BY_WORLD[world]}.items():
        assert getattr(config, name) == number, name
    # Decisions of the notes on the paper: its fine setting for δ and C, V-trace as in its text, time not hidden.
    assert (config.huber_offset, config.adjacency_scale, config.returns) == (1.0, 1.0, "vtrace")
    assert (config.observation, config.hide_time, config.discount) == ("pixels", False, 1.0)


def test_the_torso_has_the_convolutions_of_the_paper():
    assert CONVOLUTIONS == ((32, 8, 4), (32, 4, 2), (64, 3, 1))


@pytest.mark.parametrize(("world", "horizon"), HORIZON.items())
def test_episodes_are_as_long_as_in_the_paper(world, horizon):
    """bsuite's swing-up lasts 1,001 steps, which the paper calls 1,000."""
    assert make_world(world).horizon == horizon


def test_every_difference_between_the_presets_is_documented():
    text = (Path(__file__).parents[2] / "docs" / "presets.md").read_text()
    for world in WORLDS:
        paper, laptop = (dataclasses.asdict(configure(world, preset)) for preset in ("paper", "laptop"))
        for name in paper:
            assert paper[name] == laptop[name] or name == "preset" or f"`{name}`" in text, name


def test_changes_go_over_the_preset_and_wrong_names_are_refused():
    assert configure("two-rooms", "paper", updates=7).updates == 7
    with pytest.raises(
        ValueError, match=r"there is no setting 'learning_rat'\. Did you mean learning_rate\?"
    ):
        configure("two-rooms", learning_rat=1.0)


def test_a_map_of_ones_own_is_a_kind_of_two_rooms():
    assert configure("my-map", "paper").trace_length == 20
    assert configure("my-map").trace_length == configure("two-rooms").trace_length
