import dataclasses
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

import gemax
from gemax.runs.report import load_run
from gemax.training.collect import collect, start

SMALL = {
    "num_worlds": 8, "trace_length": 6, "trace_period": 6, "lstm_size": 8, "torso_size": 16, "head_size": 8,
    "embedding_size": 4, "updates_per_call": 2, "updates": 4,
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    shown = []
    run = gemax.train(
        "two-rooms",
        method="gem",
        seed=5,
        out=tmp_path_factory.mktemp("runs") / "a",
        watch=shown.append,
        **SMALL,
    )
    assert [metrics["update"] for metrics in shown] == [2, 4]
    return run


def test_a_run_says_what_became_of_it(run):
    assert run.summary["status"] == "finished"
    assert run.summary["updates"] == 4
    trainer, states, messages = load_run(run.path)
    assert (trainer.config.seed, int(states[5].update), messages) == (5, 4, [])
    assert dataclasses.asdict(trainer.config)["lstm_size"] == 8


def test_a_loaded_policy_acts_as_the_agent_did(run):
    """Greedy, step by step from observations, against the compiled rollout from table rows."""
    trainer, states, _ = load_run(run.path)
    state = states[5]
    position = start(trainer.world, trainer.eyes, trainer.network, 1, jax.random.key(0))
    _, steps = collect(
        trainer.world, trainer.eyes, state.centring, trainer.network, state.parameters, position, 12,
        jax.random.key(1), greedy=True,
    )  # fmt: skip
    policy = gemax.load(run.path)
    world_state, timestep = policy.world.reset(jax.random.key(0))
    for expected in np.asarray(steps.action)[:, 0]:
        action = policy.act(np.asarray(timestep.observation), float(timestep.reward), greedy=True)
        assert action == expected
        world_state, timestep = policy.world.step(jax.random.key(2), world_state, jax.numpy.asarray(action))


def test_a_damaged_checkpoint_is_passed_over_with_a_warning(run, tmp_path):
    path = Path(shutil.copytree(run.path, tmp_path / "run"))
    (path / "checkpoints" / "update-00000004" / "arrays.safetensors").write_bytes(b"")
    with pytest.warns(UserWarning, match="Skipped a damaged checkpoint, update 4"):
        gemax.load(path)


def test_wrong_shapes_and_settings_are_refused_in_words(run):
    with pytest.raises(
        ValueError, match=r"observation must have the shape \(9, 7, 3\) of two-rooms; got \(3,\)"
    ):
        gemax.load(run.path).act(np.zeros(3))
    with pytest.raises(ValueError, match=r"there is no setting 'learning_rat'. Did you mean learning_rate\?"):
        gemax.train("two-rooms", learning_rat=1.0)
    with pytest.raises(ValueError, match="grouped is for gemax to set"):
        gemax.train("two-rooms", grouped=True)
    with pytest.raises(ValueError, match=r"start_update is for gemax to set.* Leave it out"):
        gemax.train("two-rooms", start_from=run.path, start_update=3)
