"""Minari reads back the episodes that were collected."""

import os
import signal

import gymnasium
import minari
import numpy as np
import pytest
from tests.envs.host.toys import Counting, Endless

import gemax
from gemax.cli import main
from gemax.integrations.minari import default_dataset_id
from gemax.runs.checkpoint_writer import save
from gemax.runs.run_directory import create_run
from gemax.runs.warm_start import first_state
from gemax.training.assemble import CustomParts, assemble
from gemax.training.config import Config
from gemax.training.presets import configure

TINY = {
    "method": "none", "num_envs": 4, "unroll_length": 4, "unroll_period": 4, "torso_size": 6, "lstm_size": 5,
    "head_size": 5, "embedding_size": 3, "time_buckets": 3, "episodic_weight": 0.0,
}  # fmt: skip


@pytest.fixture(autouse=True)
def datasets(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    return tmp_path / "datasets"


def untrained(path, env, custom=None, **changes):
    """Writes a run that was stopped before its first update."""
    trainer = assemble(configure(env, **(TINY | changes)), custom=custom)
    with create_run(path, trainer.config.to_json()) as run:
        save(run, trainer.config, first_state(trainer, print)[1], seconds=0.0)
    return path


def assert_replays(env, episode, seed=None):
    """Checks that the actions of an episode lead to the same observations and rewards again."""
    observation, _ = env.reset(seed=seed)
    observations, rewards = [observation], []
    for action in episode.actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        observations.append(observation)
        rewards.append(reward)
    np.testing.assert_array_equal(episode.observations, np.stack(observations))
    np.testing.assert_array_equal(episode.rewards, rewards)
    assert (episode.terminations[-1], episode.truncations[-1]) == (terminated, truncated)
    assert not (episode.terminations[:-1] | episode.truncations[:-1]).any()


@pytest.mark.parametrize("settings", [{}, {"observation": "pixels"}, {"map_text": "S.G", "horizon": 4}])
def test_episodes_of_a_gemax_environment_can_be_replayed(settings, tmp_path):
    env_id = "corridor" if "map_text" in settings else "two-rooms"
    run = untrained(tmp_path / "run", env_id, **settings)
    dataset = minari.load_dataset(gemax.collect(run, episodes=6, seed=3))
    assert dataset.total_episodes == 6
    env = dataset.recover_environment()
    for episode in dataset:
        # Gridworlds are deterministic, and these maps have one start.
        assert_replays(env, episode)
        assert len(episode.observations) == len(episode.actions) + 1
    facts = dataset.storage.metadata
    assert facts["algorithm_name"] == "gemax none"
    assert (facts["gemax"]["seed"], facts["gemax"]["run"], facts["gemax"]["update"]) == (3, "run", 0)
    assert "commit" in facts["gemax"]
    assert facts["gemax"]["config"]["run"]["start_from"] == ""


def test_a_reward_free_environment_is_recovered_without_its_reward(tmp_path):
    run = untrained(tmp_path / "run", "mountain-car", reward_free=True)
    dataset = minari.load_dataset(gemax.collect(run, episodes=2))
    env = dataset.recover_environment()
    env.reset(seed=0)
    assert env.step(1)[1] == 0.0
    assert all((episode.rewards == 0).all() for episode in dataset)
    start = dataset[0].observations[0]
    assert start.dtype == np.float32
    assert start[2] == 0


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory):
    return untrained(tmp_path_factory.mktemp("runs") / "cartpole", "gym:CartPole-v1")


@pytest.mark.parametrize("reward_free", [False, True])
def test_episodes_of_a_gymnasium_environment_are_replayed_from_their_seeds(reward_free, cartpole, tmp_path):
    run = untrained(tmp_path / "run", "gym:CartPole-v1", reward_free=True) if reward_free else cartpole
    dataset = minari.load_dataset(gemax.collect(run, episodes=5))
    env = dataset.recover_environment()
    seeds = [facts["seed"] for facts in dataset.storage.get_episode_metadata(range(5))]
    assert len(set(seeds)) == 5
    for seed, episode in zip(seeds, dataset, strict=True):
        assert_replays(env, episode, seed)


def test_dictionary_observations_with_texts_are_kept(tmp_path):
    run = untrained(tmp_path / "run", "gym:MiniGrid-Empty-5x5-v0")
    dataset = minari.load_dataset(gemax.collect(run, episodes=2))
    observation = dataset[0].observations
    assert observation["image"].shape[1:] == (7, 7, 3)
    assert observation["mission"][0] == "get to the green goal square"


def test_a_custom_environment_is_collected_but_cannot_be_recovered(tmp_path):
    run = untrained(tmp_path / "run", "gym:custom", CustomParts(make_env=Counting))
    messages = []
    name = gemax.collect(run, episodes=10, make_env=Counting, log=messages.append)
    assert "cannot recover it" in messages[0]
    dataset = minari.load_dataset(name)
    for episode in dataset:
        np.testing.assert_array_equal(episode.observations[:, 1], np.arange(len(episode.observations)))
        np.testing.assert_array_equal(episode.rewards, 1 + np.arange(len(episode.rewards)) + episode.actions)


def test_episodes_without_an_end_are_truncated(tmp_path):
    run = untrained(tmp_path / "run", "gym:custom", CustomParts(make_env=Endless))
    messages = []
    name = gemax.collect(run, episodes=5, max_episode_steps=7, make_env=Endless, log=messages.append)
    assert "5 of 5 collected episodes did not end within 7 steps and were truncated." in messages[-1]
    dataset = minari.load_dataset(name)
    assert dataset.total_episodes == 5
    for episode in dataset:
        np.testing.assert_array_equal(episode.observations[:, 1], np.arange(8))
        assert list(episode.truncations) == [False] * 6 + [True]
        assert not episode.terminations.any()


def test_the_same_seed_collects_the_same_data(cartpole):
    names = [
        gemax.collect(cartpole, episodes=3, seed=seed, dataset_id=f"data-v{i}")
        for i, seed in enumerate((1, 1, 2))
    ]
    first, again, other = (minari.load_dataset(name)[0].observations for name in names)
    np.testing.assert_array_equal(first, again)
    assert first.shape != other.shape or (first != other).any()


# The command and its errors


@pytest.fixture(scope="module")
def rooms(tmp_path_factory):
    return untrained(tmp_path_factory.mktemp("runs") / "rooms", "two-rooms")


def test_the_command_tells_how_to_read_the_data_and_does_not_overwrite_it(rooms, capsys):
    assert main(["collect", str(rooms), "--episodes", "3"]) == 0
    assert 'minari.load_dataset("gemax/rooms-v0")' in capsys.readouterr().out
    assert main(["collect", str(rooms), "--episodes", "3"]) == 2
    error = capsys.readouterr().err
    assert "another name (--id)" in error
    assert "minari delete gemax/rooms-v0" in error
    assert main(["collect", str(rooms), "--episodes", "3", "--id", "rooms-v1"]) == 0
    assert set(minari.list_local_datasets()) == {"gemax/rooms-v0", "rooms-v1"}


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_collection_leaves_nothing(number, exit_code, rooms, datasets, monkeypatch, capsys):
    def stop(bar, task, *, completed):
        assert len(list(datasets.iterdir())) == 1
        os.kill(os.getpid(), number)

    monkeypatch.setattr("rich.progress.Progress.update", stop)
    # Ctrl-C is ignored if the tests run in the background.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert main(["collect", str(rooms), "--episodes", "3"]) == exit_code
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "gemax: stopped.\n"
    assert list(datasets.iterdir()) == []


@pytest.mark.parametrize("name", ["rooms", "../rooms-v0", "/rooms-v0", "a b-v0", "a/rooms-v0", "gemax/b/-v0"])
def test_a_wrong_dataset_name_is_refused(name, rooms):
    with pytest.raises(ValueError, match="and end with a version"):
        gemax.collect(rooms, dataset_id=name)


def test_zero_episodes_are_refused(rooms):
    with pytest.raises(ValueError, match="episodes must be at least 1; got 0"):
        gemax.collect(rooms, episodes=0)


def test_max_episode_steps_is_refused_for_gemax_environments(rooms, capsys):
    assert main(["collect", str(rooms), "--max-episode-steps", "7"]) == 2
    assert "Episodes of two-rooms end after 30 steps" in capsys.readouterr().err


def test_vector_environments_are_refused(tmp_path):
    def make():
        return gymnasium.make_vec("CartPole-v1", num_envs=4)

    run = untrained(tmp_path / "run", "gym:custom", CustomParts(make_env=make))
    with pytest.raises(ValueError, match="makes vector environments"):
        gemax.collect(run, episodes=2, make_env=make)


def test_several_seeds_are_refused(tmp_path):
    run = untrained(tmp_path / "run", "two-rooms", seeds=2)
    with pytest.raises(ValueError, match=r"Collect from one of its folders: seed-0, seed-1"):
        gemax.collect(run, episodes=2)


def test_without_minari_the_error_names_the_extra(rooms, monkeypatch, capsys):
    monkeypatch.setattr("gemax.extras.is_installed", lambda extra: False)
    assert main(["collect", str(rooms)]) == 2
    assert "pip install 'gemax[minari]'" in capsys.readouterr().err


def test_the_default_dataset_name_is_that_of_the_run_directory(tmp_path):
    assert default_dataset_id(tmp_path / "My run (2)", Config()) == "gemax/My-run-2--v0"
    grouped = Config().replace(grouped=True)
    assert default_dataset_id(tmp_path / "group" / "seed-0", grouped) == "gemax/group-seed-0-v0"
