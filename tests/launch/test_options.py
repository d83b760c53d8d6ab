import importlib.util
import re

import pytest
from tests.launch.conftest import temporary_folders

from gemax.cli import main
from gemax.launch.options import LaunchOptions
from gemax.launch.ray_cluster import ray_cluster
from gemax.training.presets import configure


@pytest.mark.parametrize(
    ("options", "env_id", "message"),
    [
        ({"actors": 4}, "gym:CartPole-v1", "actors needs a launcher: add `--launcher ray`"),
        ({"ray_address": "auto"}, "gym:CartPole-v1", "ray_address needs a launcher"),
        ({"launcher": "ray"}, "gym:CartPole-v1", "needs `--actors N`, or several seeds"),
        ({"launcher": "ray", "actors": 4}, "two-rooms", "use `--devices N`"),
        ({"launcher": "ray", "actors": 33}, "gym:CartPole-v1", r"at most num_envs \(32\), the total"),
        ({"launcher": "ray", "actors": -1}, "gym:CartPole-v1", "actors must be at least 0"),
        ({"devices": 2}, "gym:CartPole-v1", "devices must be 1 for gym:CartPole-v1"),
        ({"devices": 3}, "two-rooms", r"devices must divide num_envs \(64\)"),
        ({"devices": 0}, "two-rooms", "devices must be at least 1"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, env_id, message):
    with pytest.raises(ValueError, match=message):
        LaunchOptions(**options).check(configure(env_id))


def test_actors_need_vtrace():
    config = configure("gym:CartPole-v1", returns="averaged")
    with pytest.raises(ValueError, match="returns must be vtrace for actors"):
        LaunchOptions("ray", actors=2).check(config)


def test_actors_without_launcher_are_a_usage_error(capsys):
    assert main(["train", "gym:CartPole-v1", "--actors", "4"]) == 2
    assert "actors needs a launcher" in capsys.readouterr().err


def refused(tmp_path, capsys, *flags):
    """The message of a command that is refused before anything starts."""
    folders, out = temporary_folders(), tmp_path / "run"
    assert (
        main(["train", "gym:CartPole-v1", "--launcher", "ray", "--actors", "2", "--out", str(out), *flags])
        == 2
    )
    assert not out.exists()
    assert temporary_folders() == folders
    [message] = capsys.readouterr().err.splitlines()
    return message


@pytest.mark.fault(60)
def test_ray_that_is_not_installed_is_named(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "launcher ray needs Ray: pip install 'gemax[ray]'" in refused(tmp_path, capsys)


@pytest.mark.parametrize("address", ["10.0.0.1", "ray://host:10001", "host:port"])
def test_address_must_be_host_and_port(address):
    with pytest.raises(ValueError, match="ray_address must be auto or HOST:PORT"), ray_cluster(address, 1):
        pass


@pytest.mark.fault(60)
def test_address_without_cluster_is_refused_at_once(tmp_path, capsys):
    message = refused(tmp_path, capsys, "--ray-address", "127.0.0.1:1")
    assert re.search("no Ray cluster answers at 127.0.0.1:1: .* refused", message)
