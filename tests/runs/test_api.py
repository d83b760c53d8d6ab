import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

import gemax
from gemax.runs.evaluation import load_run
from gemax.training.rollout import collect, reset_actor

SMALL = {
    "num_envs": 8, "unroll_length": 6, "unroll_period": 6, "lstm_size": 8, "torso_size": 16, "head_size": 8,
    "embedding_size": 4, "updates_per_call": 2, "updates": 4, "episodic_weight": 0.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    lines = []
    run = gemax.train(
        "two-rooms",
        method="gem",
        seed=5,
        out=tmp_path_factory.mktemp("runs") / "a",
        callback=lines.append,
        **SMALL,
    )
    assert [metrics["update"] for metrics in lines] == [2, 4]
    return run


def test_a_run_has_a_summary_and_can_be_loaded(run):
    assert run.summary["status"] == "finished"
    assert run.summary["updates"] == 4
    trainer, states, messages = load_run(run.path)
    assert (trainer.config.run.seed, int(states[5].update), messages) == (5, 4, [])
    assert trainer.config.agent.lstm_size == 8


def test_a_loaded_policy_acts_as_the_agent_did(run):
    """Greedy, step by step from observations, against the compiled rollout from table rows."""
    trainer, states, _ = load_run(run.path)
    state = states[5]
    env = trainer.collector.env
    actor = reset_actor(env, trainer, 1, jax.random.key(0))
    _, steps = collect(env, trainer, state, actor, 12, jax.random.key(1), greedy=True)
    policy = run.policy()
    env_state, timestep = env.reset(jax.random.key(0))
    for expected in np.asarray(steps.action)[:, 0]:
        action = policy.act(np.asarray(timestep.observation), float(timestep.reward), greedy=True)
        assert action == expected
        env_state, timestep = env.step(jax.random.key(2), env_state, jax.numpy.asarray(action))


def test_a_damaged_checkpoint_is_skipped_with_a_warning(run, tmp_path):
    path = Path(shutil.copytree(run.path, tmp_path / "run"))
    (path / "checkpoints" / "update-00000004" / "arrays.safetensors").write_bytes(b"")
    with pytest.warns(UserWarning, match="Skipped a damaged checkpoint, update 4"):
        gemax.load(path).policy()


def test_wrong_shapes_and_settings_are_refused(run):
    with pytest.raises(ValueError, match=r"observation must have shape \(9, 7, 3\) in two-rooms; got \(3,\)"):
        run.policy().act(np.zeros(3))
    with pytest.raises(ValueError, match=r"there is no setting 'learning_rat'. Did you mean learning_rate\?"):
        gemax.train("two-rooms", learning_rat=1.0)
    with pytest.raises(ValueError, match="grouped is set by gemax itself"):
        gemax.train("two-rooms", grouped=True)
    with pytest.raises(ValueError, match=r"start_update is set by gemax itself. Leave it out"):
        gemax.train("two-rooms", start_from=run.path, start_update=3)
