import gymnasium
import pytest

from gemax.environments.finding import PACKAGES, maker_of


def test_ids_are_made_with_the_package_that_registers_them():
    assert maker_of("gym:MiniGrid-Empty-5x5-v0")().spec.id == "MiniGrid-Empty-5x5-v0"
    assert maker_of("gym:CartPole-v1")().spec.id == "CartPole-v1"


def test_a_package_can_be_named_before_the_id():
    assert maker_of("gym:tests.environments.toys:gemax-test/Counting-v0")().spec.max_episode_steps == 50


def test_an_unknown_id_is_answered_with_the_nearest_ones():
    with pytest.raises(ValueError, match=r"knows no environment 'MountainCarr-v0'.* gym:MountainCar-v0"):
        maker_of("gym:MountainCarr-v0")
    with pytest.raises(ValueError, match=r"gym:MiniGrid-Empty-5x5-v0"):
        maker_of("gym:MiniGrid-Empty-5x55-v0")


def test_a_missing_package_is_named_with_what_to_install(monkeypatch):
    monkeypatch.setitem(PACKAGES, "Robot-", ("no_such_robot", "no-such-robot"))
    with pytest.raises(ValueError, match="pip install no-such-robot"):
        maker_of("gym:Robot-Walk-v0")
    with pytest.raises(ValueError, match="needs the package no_such_package"):
        maker_of("gym:no_such_package:Walk-v0")


def test_an_older_version_than_there_is_is_refused():
    assert "CartPole-v1" in gymnasium.registry
    with pytest.raises(ValueError, match="knows no environment"):
        maker_of("gym:CartPole-v7")
