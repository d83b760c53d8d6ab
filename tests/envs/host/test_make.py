import gymnasium
import pytest

from gemax.envs.host.make import PACKAGES, gym_maker


def test_well_known_ids_import_the_package_that_registers_them():
    assert gym_maker("gym:MiniGrid-Empty-5x5-v0")().spec.id == "MiniGrid-Empty-5x5-v0"
    assert gym_maker("gym:CartPole-v1")().spec.id == "CartPole-v1"


def test_an_id_can_name_its_package():
    assert gym_maker("gym:tests.envs.host.toys:gemax-test/Counting-v0")().spec.max_episode_steps == 50


@pytest.mark.fault(30)
def test_the_error_for_an_unknown_id_suggests_similar_ids():
    with pytest.raises(ValueError, match=r"knows no environment 'MountainCarr-v0'.* gym:MountainCar-v0"):
        gym_maker("gym:MountainCarr-v0")
    with pytest.raises(ValueError, match=r"gym:MiniGrid-Empty-5x5-v0"):
        gym_maker("gym:MiniGrid-Empty-5x55-v0")


@pytest.mark.fault(30)
def test_the_error_for_a_missing_package_names_it(monkeypatch):
    monkeypatch.setitem(PACKAGES, "Robot-", ("no_such_robot", "no-such-robot"))
    with pytest.raises(ValueError, match="pip install no-such-robot"):
        gym_maker("gym:Robot-Walk-v0")
    with pytest.raises(ValueError, match="needs the package no_such_package"):
        gym_maker("gym:no_such_package:Walk-v0")


def test_an_unknown_version_raises_an_error():
    assert "CartPole-v1" in gymnasium.registry
    with pytest.raises(ValueError, match="knows no environment"):
        gym_maker("gym:CartPole-v7")
