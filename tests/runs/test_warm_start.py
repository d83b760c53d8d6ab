"""Pre-train, then fine-tune: a run that is warm-started with the networks of another."""

import json
import shutil
from functools import partial

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.envs.host.toys import Counting, SamplesSpace
from tests.parameters import fast_or_slow
from tests.runs.untrained import TINY, untrained

import gemax
from gemax.cli import main
from gemax.core.moments import standardise
from gemax.networks import AgentInputs, lstm_inputs
from gemax.runs.evaluation import load_run
from gemax.runs.metrics_file import read_metrics
from gemax.runs.run_directory import RunDirectory
from gemax.runs.warm_start import first_state, is_copied
from gemax.training.assemble import CustomParts, assemble
from gemax.training.loop import initial_states
from gemax.training.presets import configure

pytestmark = pytest.mark.whole_runs

COUNTING = "gym:tests.envs.host.toys:gemax-test/Counting-v0"


def flags(**changes):
    return [f"--{name.replace('_', '-')}={value}" for name, value in (TINY | changes).items()]


@pytest.fixture(scope="module")
def free(tmp_path_factory):
    """2-Rooms without a reward."""
    return untrained(tmp_path_factory.mktemp("free") / "run", "two-rooms", reward_free=True)


@pytest.fixture(scope="module")
def counting(tmp_path_factory):
    """A reward-free run in a host environment."""
    path = tmp_path_factory.mktemp("counting") / "run"
    assert main(["train", COUNTING, "--reward-free", "--seed=5", *flags(), "--out", str(path)]) == 0
    return path


def begun(env, source, **changes):
    return first_state(assemble(configure(env, start_from=str(source), **(TINY | changes))), log=print)


def outputs(trainer, state, reward=0.0):
    """Returns outputs of policy and value for fixed observations, step by step."""
    network, parameters, shape = trainer.network, state.parameters, trainer.observation_moments.mean.shape
    lstm_state, steps = network.initial_lstm_state(1), []
    for time, observation in enumerate(np.random.default_rng(0).uniform(0, 255, (4, 1, *shape))):
        terms = network.observation_terms(
            parameters, standardise(state.observation_moments, jnp.asarray(observation))
        )
        inputs = AgentInputs(jnp.full(1, 1), jnp.full(1, reward), jnp.full(1, time))
        lstm_state = network.step(
            parameters, lstm_inputs(network.tables(parameters), terms, inputs), lstm_state
        )
        steps.append(network.heads(parameters, lstm_state.hidden))
    return tuple(np.stack(parts) for parts in zip(*steps, strict=True))


def assert_trees_equal(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)


# What is copied


@pytest.mark.parametrize("env", ["two-rooms", COUNTING])
def test_a_run_starts_with_the_policy_of_the_other(env, free, counting):
    path = free if env == "two-rooms" else counting
    source, states, _ = load_run(path)
    trainer, state = begun(env, path, reward_free=True, seed=7)
    for ours, theirs in zip(outputs(trainer, state), outputs(source, states[5]), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert int(state.update) == 0


def test_with_the_same_method_the_intrinsic_reward_is_copied_too(free):
    _, states, _ = load_run(free)
    trainer, state = begun("two-rooms", free)
    assert_trees_equal(state.reward.parameters, states[5].reward.parameters)
    assert_trees_equal(state.reward.terms[0].normaliser, states[5].reward.terms[0].normaliser)
    assert_trees_equal(state.parameters["value"], states[5].parameters["value"])
    assert_trees_equal(state.opt_state, trainer.optimiser.init(state.parameters))
    assert_trees_equal(state.reward.opt_state, trainer.optimiser.init(state.reward.parameters))


def test_the_intrinsic_reward_may_be_dropped(free):
    lreturns = load_run(free).states[5].parameters
    _, state = begun("two-rooms", free, method="none")
    assert state.reward == ()
    for part in ("torso", "policy", "value"):
        assert_trees_equal(state.parameters[part], lreturns[part])


@pytest.mark.parametrize(
    "method",
    fast_or_slow(
        ["gem", "rnd", "ngu", "ngu-rnd", "e3b", "re3", "oracle", "none"], ["gem", "ngu-rnd", "oracle"]
    ),
)
def test_every_method_can_be_warm_started_with_another_number_of_environments(method, tmp_path):
    source = untrained(tmp_path / "run", "two-rooms", method=method)
    trainer, state = begun("two-rooms", source, method=method, num_envs=12)
    fresh = initial_states(trainer)
    assert jax.tree.map(jnp.shape, state) == jax.tree.map(jnp.shape, fresh)
    if method in ("gem", "ngu", "e3b"):
        assert_trees_equal(state.reward.parameters, load_run(source).states[5].reward.parameters)
    if method in ("ngu", "e3b"):
        assert_trees_equal(state.reward.memory, fresh.reward.memory)


@pytest.mark.parametrize(
    "leaf", ["inner.opt_state.count", "reward_moments.mean", "visits", "episodic.memory", "intrinsic_return"]
)
def test_moments_counts_and_memories_of_the_other_run_are_not_copied(leaf):
    assert not is_copied(f".reward.{leaf}", copies_reward=True, copies_observation_moments=True)
    for part in ("inner.parameters", "distillation.predictor", "return_moments.mean"):
        assert is_copied(f".reward.{part}", copies_reward=True, copies_observation_moments=True)


def test_a_policy_that_never_saw_a_reward_ignores_it_at_first(free):
    trainer, state = begun("two-rooms", free)
    for without, with_reward in zip(outputs(trainer, state), outputs(trainer, state, 9.0), strict=True):
        np.testing.assert_array_equal(without, with_reward)


def test_all_seeds_of_a_group_start_from_the_same_networks(free):
    state = begun("two-rooms", free, seeds=2)[1]
    first, second = (jax.tree.map(lambda leaf, i=i: leaf[i], state) for i in range(2))
    assert_trees_equal(first.parameters, second.parameters)
    assert_trees_equal(first.reward.parameters, second.reward.parameters)
    assert (jax.random.key_data(first.key) != jax.random.key_data(second.key)).any()


def test_the_environment_may_change_if_observations_keep_their_shape(free):
    state = begun("two-keys", free)[1]
    assert_trees_equal(state.parameters["policy"], load_run(free).states[5].parameters["policy"])


# Runs


def test_a_warm_started_run_records_its_source_and_can_be_resumed_without_it(free, tmp_path):
    source, path = tmp_path / "source", tmp_path / "run"
    shutil.copytree(free, source)
    start = ["train", "two-rooms", "--from", str(source), "--method", "none", *flags()]
    assert main([*start, "--out", str(path)]) == 0
    config = json.loads((path / "config.json").read_text())
    assert (config["run"]["start_from"], config["run"]["start_update"]) == (str(source), 0)
    assert config["intrinsic"]["method"] == "none"
    assert (path / "checkpoints" / "update-00000000").is_dir()
    shutil.rmtree(source)
    assert main(["resume", str(path), "--updates", "4"]) == 0
    assert [line["update"] for line in read_metrics(path / "metrics.jsonl")] == [2, 4]


def test_a_run_killed_before_its_first_checkpoint_is_warm_started_again(free, tmp_path):
    config = configure("two-rooms", start_from=str(free), method="none", **(TINY | {"learning_rate": 1e-9}))
    (tmp_path / "config.json").write_text(json.dumps(config.to_json()))
    (tmp_path / "metrics.jsonl").touch()
    gemax.resume(tmp_path)
    lreturns, trained = load_run(free).states[5], load_run(tmp_path).states[0]
    np.testing.assert_allclose(
        trained.parameters["lstm"]["hidden"], lreturns.parameters["lstm"]["hidden"], atol=1e-6
    )


def test_an_environment_on_the_host_is_fine_tuned(counting, tmp_path):
    path = tmp_path / "run"
    assert main(["train", COUNTING, "--from", str(counting), *flags(), "--out", str(path)]) == 0
    assert RunDirectory(path).read_config()["run"]["start_update"] == 2
    assert RunDirectory(path).read_summary()["return"] > 0


# Reward-free on the host


class LargeRewards(Counting):
    """The same rewards times a thousand."""

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, 1000 * reward, *rest


def test_reward_free_runs_learn_nothing_from_the_reward(tmp_path):
    settings = TINY | {"reward_free": True, "method": "rnd", "updates": 2, "horizon": 20}
    runs = [gemax.train(make, out=tmp_path / make.__name__, **settings) for make in (Counting, LargeRewards)]
    one, other = (
        load_run(run.path, CustomParts(make_env=make)).states[0]
        for run, make in zip(runs, (Counting, LargeRewards), strict=True)
    )
    assert_trees_equal(one.parameters, other.parameters)
    assert_trees_equal(one.reward, other.reward)
    returns = [run.summary["return"] for run in runs]
    assert returns[1] == pytest.approx(1000 * returns[0])
    assert returns[0] > 0
    acts = []
    for reward in (0.0, 50.0):
        policy = runs[0].policy()
        acts.append([policy.act(np.zeros(2, np.float32), reward) for _ in range(20)])
    assert acts[0] == acts[1]


# What is refused


@pytest.mark.parametrize(
    ("env", "changes", "message"),
    [
        (
            "sixteen-leaves",
            {},
            r"observations must have the shape \(9, 7, 3\), as in .*; those of sixteen-leaves have",
        ),
        ("two-rooms", {"lstm_size": 9}, "lstm_size must be 5, as in .*; got 9"),
        ("two-rooms", {"embedding_size": 4}, "embedding_size must be 3, as in .*; got 4"),
        ("two-rooms", {"observation": "pixels"}, "observation must be cells, as in .*; got pixels"),
    ],
)
def test_networks_of_other_shapes_are_refused(env, changes, message, free):
    with pytest.raises(ValueError, match=message):
        begun(env, free, **changes)


def test_another_number_of_actions_is_refused(tmp_path):
    box = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    two, three = (partial(SamplesSpace, box, gymnasium.spaces.Discrete(number)) for number in (2, 3))
    run = untrained(tmp_path / "two", "gym:custom", CustomParts(make_env=two))
    with pytest.raises(ValueError, match=r"actions must be 2, as in .*; gym:custom has 3"):
        gemax.train(three, start_from=run, out=tmp_path / "three", **TINY)
    assert not (tmp_path / "three").exists()


def test_another_kind_of_actions_is_refused(tmp_path):
    observation = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    choices = partial(SamplesSpace, observation, gymnasium.spaces.Discrete(2))
    numbers = partial(SamplesSpace, observation, gymnasium.spaces.Box(-1.0, 1.0, (2,)))
    run = untrained(tmp_path / "choices", "gym:custom", CustomParts(make_env=choices))
    with pytest.raises(ValueError, match=r"'policy'.*must have the shape .*; it has the shape"):
        gemax.train(numbers, start_from=run, out=tmp_path / "numbers", **TINY)


def test_a_folder_without_a_run_is_refused(tmp_path, capsys):
    assert main(["train", "two-rooms", "--from", str(tmp_path), "--out", str(tmp_path / "run")]) == 2
    assert "config.json is missing" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_run_of_several_seeds_is_refused(free, tmp_path, capsys):
    config = RunDirectory(free).read_config()
    config["run"]["seeds"] = 2
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert main(["train", "two-rooms", "--from", str(tmp_path), *flags()]) == 2
    assert "Start from one of its folders: seed-5, seed-6" in capsys.readouterr().err


def test_a_run_without_a_checkpoint_is_refused(free, tmp_path, capsys):
    shutil.copy(free / "config.json", tmp_path)
    assert main(["train", "two-rooms", "--from", str(tmp_path), *flags()]) == 4
    assert "There is no checkpoint in" in capsys.readouterr().err
