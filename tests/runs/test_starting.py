"""Pre-train, then fine-tune: a run that starts with what another one has learned."""

import dataclasses
import json
import shutil
from functools import partial

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.environments.toys import Counting, Showing

import gemax
from gemax.cli import main
from gemax.networks import Inputs, lstm_inputs
from gemax.runs.directory import RunDirectory, create_run, read_metrics
from gemax.runs.report import load_run
from gemax.runs.saving import save
from gemax.runs.seeds import begin_seeds
from gemax.runs.starting import begin_run, is_taken
from gemax.training.assemble import Own, assemble
from gemax.training.centring import centre
from gemax.training.presets import configure

TINY = {
    "num_worlds": 8, "trace_length": 6, "trace_period": 6, "updates": 2, "updates_per_call": 2, "torso_size": 6,
    "lstm_size": 5, "head_size": 5, "embedding_size": 3, "time_buckets": 3,
}  # fmt: skip
COUNTING = "gym:tests.environments.toys:gemax-test/Counting-v0"


def flags(**changes):
    return [f"--{name.replace('_', '-')}={value}" for name, value in (TINY | changes).items()]


def untrained(path, world, own=None, **changes):
    """A run that was stopped before its first update: its networks are as good as any to start from."""
    trainer = assemble(configure(world, **(TINY | {"seed": 5} | changes)), own=own)
    with create_run(path, dataclasses.asdict(trainer.config)) as run:
        save(run, trainer.config, begin_run(trainer)[1], seconds=0.0)
    return path


@pytest.fixture(scope="module")
def free(tmp_path_factory):
    """2-Rooms without a reward."""
    return untrained(tmp_path_factory.mktemp("free") / "run", "two-rooms", reward_free=True)


@pytest.fixture(scope="module")
def counting(tmp_path_factory):
    """An environment on the host, whose reward nobody looks at."""
    path = tmp_path_factory.mktemp("counting") / "run"
    assert main(["train", COUNTING, "--reward-free", "--seed=5", *flags(), "--out", str(path)]) == 0
    return path


def begun(world, source, **changes):
    return begin_run(assemble(configure(world, start_from=str(source), **(TINY | changes))))[:2]


def outputs(trainer, state, reward=0.0):
    """What policy and value say to the same observations, step after step."""
    network, parameters, shape = trainer.network, state.parameters, trainer.centring.mean.shape
    memory, said = network.initial_memory(1), []
    for time, observation in enumerate(np.random.default_rng(0).uniform(0, 255, (4, 1, *shape))):
        terms = network.row_terms(parameters, centre(state.centring, jnp.asarray(observation)))
        inputs = Inputs(jnp.full(1, 1), jnp.full(1, reward), jnp.full(1, time))
        memory = network.step(parameters, lstm_inputs(network.tables(parameters), terms, inputs), memory)
        said.append(network.heads(parameters, memory.hidden))
    return tuple(np.stack(parts) for parts in zip(*said, strict=True))


def assert_trees_equal(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)


# What is taken over


@pytest.mark.parametrize("world", ["two-rooms", COUNTING])
def test_a_run_starts_with_the_policy_of_the_other(world, free, counting):
    path = free if world == "two-rooms" else counting
    source, states, _ = load_run(path)
    trainer, state = begun(world, path, reward_free=True, seed=7)
    for ours, theirs in zip(outputs(trainer, state), outputs(source, states[5]), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert int(state.update) == 0


def test_where_the_method_stays_the_intrinsic_reward_and_the_values_go_on(free):
    _, states, _ = load_run(free)
    trainer, state = begun("two-rooms", free)
    assert_trees_equal(state.reward.parameters, states[5].reward.parameters)
    assert_trees_equal(state.reward.normaliser, states[5].reward.normaliser)
    assert_trees_equal(state.parameters["value"], states[5].parameters["value"])
    assert_trees_equal(state.optimiser, trainer.optimiser.init(state.parameters))
    assert_trees_equal(state.reward.optimiser, trainer.optimiser.init(state.reward.parameters))


def test_the_intrinsic_reward_may_be_dropped(free):
    learned = load_run(free).states[5].parameters
    _, state = begun("two-rooms", free, method="none")
    assert state.reward == ()
    for part in ("torso", "policy", "value"):
        assert_trees_equal(state.parameters[part], learned[part])


@pytest.mark.parametrize("method", ["gem", "rnd", "ngu", "ngu-rnd", "oracle", "none"])
def test_every_method_goes_on_in_another_number_of_worlds(method, tmp_path):
    source = untrained(tmp_path / "run", "two-rooms", method=method)
    trainer, state = begun("two-rooms", source, method=method, num_worlds=12)
    fresh = begin_seeds(trainer)
    assert jax.tree.map(jnp.shape, state) == jax.tree.map(jnp.shape, fresh)
    if method in ("gem", "ngu"):
        assert_trees_equal(state.reward.parameters, load_run(source).states[5].reward.parameters)
    if method == "ngu":
        assert_trees_equal(state.reward.memory, fresh.reward.memory)


@pytest.mark.parametrize("leaf", ["inner.optimiser.count", "paid.mean", "visits", "episodic.memory"])
def test_what_belongs_to_the_other_runs_scale_places_and_episodes_starts_anew(leaf):
    assert not is_taken(f".reward.{leaf}", keeps_reward=True, keeps_centring=True)
    assert is_taken(".reward.inner.parameters", keeps_reward=True, keeps_centring=True)


def test_a_reward_says_nothing_at_first_to_who_never_saw_one(free):
    trainer, state = begun("two-rooms", free)
    for without, with_reward in zip(outputs(trainer, state), outputs(trainer, state, 9.0), strict=True):
        np.testing.assert_array_equal(without, with_reward)


def test_seeds_of_a_group_start_alike(free):
    state = begun("two-rooms", free, seeds=2)[1]
    first, second = (jax.tree.map(lambda leaf, i=i: leaf[i], state) for i in range(2))
    assert_trees_equal(first.parameters, second.parameters)
    assert_trees_equal(first.reward.parameters, second.reward.parameters)
    assert (jax.random.key_data(first.key) != jax.random.key_data(second.key)).any()


def test_a_run_may_start_in_another_world_that_looks_alike(free):
    state = begun("two-keys", free)[1]
    assert_trees_equal(state.parameters["policy"], load_run(free).states[5].parameters["policy"])


# Runs


def test_the_run_says_where_it_started_and_needs_the_other_no_more(free, tmp_path):
    source, path = tmp_path / "source", tmp_path / "run"
    shutil.copytree(free, source)
    start = ["train", "two-rooms", "--from", str(source), "--method", "none", *flags()]
    assert main([*start, "--out", str(path)]) == 0
    config = json.loads((path / "config.json").read_text())
    assert (config["start_from"], config["start_update"], config["method"]) == (str(source), 0, "none")
    assert (path / "checkpoints" / "update-00000000").is_dir()
    shutil.rmtree(source)
    assert main(["resume", str(path), "--updates", "4"]) == 0
    assert [line["update"] for line in read_metrics(path / "metrics.jsonl")] == [2, 4]


def test_a_run_killed_before_its_first_checkpoint_starts_from_the_other_again(free, tmp_path):
    config = configure("two-rooms", start_from=str(free), method="none", **(TINY | {"learning_rate": 1e-9}))
    (tmp_path / "config.json").write_text(json.dumps(dataclasses.asdict(config)))
    (tmp_path / "metrics.jsonl").touch()
    gemax.resume(tmp_path)
    learned, trained = load_run(free).states[5], load_run(tmp_path).states[0]
    np.testing.assert_allclose(
        trained.parameters["lstm"]["hidden"], learned.parameters["lstm"]["hidden"], atol=1e-6
    )


def test_an_environment_on_the_host_is_fine_tuned(counting, tmp_path):
    path = tmp_path / "run"
    assert main(["train", COUNTING, "--from", str(counting), *flags(), "--out", str(path)]) == 0
    assert RunDirectory(path).read_config()["start_update"] == 2
    assert RunDirectory(path).read_summary()["return"] > 0


# Reward-free on the host


class Generous(Counting):
    """Pays a thousand times as much."""

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, 1000 * reward, *rest


def test_nothing_is_learned_from_a_reward_that_is_left_out(tmp_path):
    settings = TINY | {"reward_free": True, "method": "rnd", "updates": 2}
    runs = [gemax.train(make, out=tmp_path / make.__name__, **settings) for make in (Counting, Generous)]
    one, other = (
        load_run(run.path, Own(environment=make)).states[0]
        for run, make in zip(runs, (Counting, Generous), strict=True)
    )
    assert_trees_equal(one.parameters, other.parameters)
    assert_trees_equal(one.reward, other.reward)
    earned = [run.summary["return"] for run in runs]
    assert earned[1] == pytest.approx(1000 * earned[0])
    assert earned[0] > 0
    acts = []
    for paid in (0.0, 50.0):
        policy = gemax.load(runs[0].path, environment=Counting)
        acts.append([policy.act(np.zeros(2, np.float32), paid) for _ in range(20)])
    assert acts[0] == acts[1]


# What is refused


@pytest.mark.parametrize(
    ("world", "changes", "message"),
    [
        (
            "sixteen-leaves",
            {},
            r"observations must have the shape \(9, 7, 3\), as in .*; those of sixteen-leaves have",
        ),
        ("two-rooms", {"lstm_size": 9}, "lstm_size must be 5, as in .*; got 9"),
        ("two-rooms", {"embedding_size": 4}, "embedding_size must be 3, as in .*; got 4"),
        ("two-rooms", {"observation": "pixels"}, "observation must be squares, as in .*; got pixels"),
    ],
)
def test_networks_of_other_shapes_are_refused(world, changes, message, free):
    with pytest.raises(ValueError, match=message):
        begun(world, free, **changes)


def test_another_number_of_actions_is_refused(tmp_path):
    box = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    two, three = (partial(Showing, box, gymnasium.spaces.Discrete(number)) for number in (2, 3))
    run = untrained(tmp_path / "two", "gym:own", Own(environment=two))
    with pytest.raises(ValueError, match=r"actions must be 2, as in .*; gym:own has 3"):
        gemax.train(three, start_from=run, out=tmp_path / "three", **TINY)
    assert not (tmp_path / "three").exists()


def test_another_kind_of_actions_is_refused(tmp_path):
    seen = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    choices = partial(Showing, seen, gymnasium.spaces.Discrete(2))
    numbers = partial(Showing, seen, gymnasium.spaces.Box(-1.0, 1.0, (2,)))
    run = untrained(tmp_path / "choices", "gym:own", Own(environment=choices))
    with pytest.raises(ValueError, match=r"'policy'.*must have the shape .*; it has the shape"):
        gemax.train(numbers, start_from=run, out=tmp_path / "numbers", **TINY)


def test_a_place_without_a_run_is_refused(tmp_path, capsys):
    assert main(["train", "two-rooms", "--from", str(tmp_path), "--out", str(tmp_path / "run")]) == 2
    assert "holds no run to start from: config.json is missing" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_run_of_several_seeds_is_refused(free, tmp_path, capsys):
    config = RunDirectory(free).read_config() | {"seeds": 2}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert main(["train", "two-rooms", "--from", str(tmp_path), *flags()]) == 2
    assert "Start from one of those below it: seed-5, seed-6" in capsys.readouterr().err


def test_a_run_without_a_checkpoint_is_refused(free, tmp_path, capsys):
    shutil.copy(free / "config.json", tmp_path)
    assert main(["train", "two-rooms", "--from", str(tmp_path), *flags()]) == 4
    assert "There is no checkpoint in" in capsys.readouterr().err
