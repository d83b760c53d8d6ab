"""The best checkpoint is the state with the highest return of 100 episodes. Crashes and later updates keep it."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import gymnasium
import jax
import minari
import numpy as np
import pytest
from gymnasium import spaces
from tests.runs.trees import assert_same, small_tree

import gemax
from gemax.cli import main
from gemax.errors import CheckpointError, EnvFault
from gemax.runs import best_checkpoint
from gemax.runs.best_checkpoint import BestCheckpoint, why_there_is_no_best
from gemax.runs.checkpoint_format import ARRAYS, MANIFEST
from gemax.runs.checkpoints import load_arrays, load_checkpoint, read_best, save_best, save_checkpoint
from gemax.runs.evaluation import load_run
from gemax.runs.metrics_file import append_metrics, read_metrics
from gemax.runs.run_directory import RunDirectory
from gemax.runs.session import Hooks, resume, start_run
from gemax.training.presets import configure

pytestmark = pytest.mark.whole_runs

# The folder of checkpoints


@pytest.fixture
def folder(tmp_path):
    """The checkpoints of updates 3 and 4, and the best one, of update 1."""
    save_best(tmp_path, 1, small_tree(1), {"recent_return": 0.5})
    for update in (2, 3, 4):
        save_checkpoint(tmp_path, update, small_tree(update), {}, keep=2)
    return tmp_path


def damage(path):
    (path / ARRAYS).write_bytes(b"")


@pytest.mark.parametrize(("choice", "update"), [("newest", 4), ("best", 1), (3, 3), (4, 4), (1, 1)])
def test_each_choice_loads_its_checkpoint(folder, choice, update):
    loaded = load_checkpoint(folder, small_tree(), choice)
    assert (loaded.update, loaded.messages) == (update, [])
    assert_same(loaded.tree, small_tree(update))
    assert load_arrays(folder, choice).update == update


def test_a_new_best_checkpoint_replaces_the_old_one_and_nothing_else(folder):
    # A run that was resumed further back can have a better state at an earlier update.
    for update in (9, 2):
        save_best(folder, update, small_tree(update), {})
        assert_same(load_checkpoint(folder, small_tree(), "best").tree, small_tree(update))
    assert sorted(path.name for path in folder.iterdir()) == ["best", "update-00000003", "update-00000004"]


def test_an_update_that_is_not_kept_is_refused_with_those_that_are(folder):
    with pytest.raises(
        CheckpointError, match=r"no checkpoint of update 2 in .* kept: 3, 4, 1 \(the best\)\."
    ):
        load_checkpoint(folder, small_tree(), 2)
    shutil.rmtree(folder / "best")
    with pytest.raises(CheckpointError, match=r"Choose one that is kept: 3, 4\."):
        load_arrays(folder, 1)
    damage(folder / "update-00000003")
    with pytest.raises(CheckpointError, match=r"The checkpoint of update 3 is damaged, .*update-00000003"):
        load_checkpoint(folder, small_tree(), 3)


def test_without_a_best_checkpoint_none_is_made_up(tmp_path):
    save_checkpoint(tmp_path, 1, small_tree(), {})
    with pytest.raises(CheckpointError, match="There is no best checkpoint in"):
        load_checkpoint(tmp_path, small_tree(), "best")


@pytest.mark.parametrize("name", [ARRAYS, MANIFEST])
def test_a_damaged_best_checkpoint_falls_back_to_the_newest_with_a_message(folder, name):
    (folder / "best" / name).write_bytes(b"half")
    loaded = load_checkpoint(folder, small_tree(), "best")
    assert_same(loaded.tree, small_tree(4))
    (message,) = loaded.messages
    assert message.startswith(f"The best checkpoint is damaged, {folder / 'best'}: ")
    assert message.endswith(" The newest good one, of update 4, is used instead.")
    for update in (3, 4):
        damage(folder / f"update-0000000{update}")
    with pytest.raises(
        CheckpointError, match=r"best checkpoint is damaged(.|\n)*All checkpoints in .* damaged"
    ):
        load_checkpoint(folder, small_tree(), "best")


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_a_failing_system_call_keeps_the_best_checkpoint(folder, monkeypatch, call):
    original, failures = getattr(os, call), 0
    for successes in range(4):
        calls = []

        def fails_once(*arguments, successes=successes, calls=calls):
            calls.append(arguments)
            if len(calls) == successes + 1:
                raise OSError(errno.ENOSPC, "No space left on device")
            return original(*arguments)

        monkeypatch.setattr(f"os.{call}", fails_once)
        try:
            save_best(folder, 7, small_tree(7), {})
        except OSError:
            failures += 1
        monkeypatch.undo()
        loaded = load_checkpoint(folder, small_tree(), "best")
        assert_same(loaded.tree, small_tree(loaded.update))
        assert loaded.update in (1, 7)
        assert not any(path.name.startswith(".") for path in folder.iterdir())
    assert failures >= 2


KILLED_AT_EVERY_CALL = """
import os, sys
import numpy as np
from pathlib import Path
from gemax.runs.checkpoints import save_best

folder, fsync, rename = Path(sys.argv[1]), os.fsync, os.rename

def killed_at(last_call):
    left = [last_call]
    def count(call):
        def counted(*arguments):
            left[0] -= 1
            if left[0] == 0:
                os._exit(9)
            return call(*arguments)
        return counted
    os.fsync, os.rename = count(fsync), count(rename)

for last_call in range(1, 20):
    path = folder / str(last_call)
    save_best(path, 1, {"a": np.full(1000, 1)}, {})
    child = os.fork()  # saves importing again; JAX has not started any threads yet
    if child == 0:
        killed_at(last_call)
        save_best(path, 2, {"a": np.full(1000, 2)}, {})
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
"""


def test_a_process_killed_while_it_writes_the_best_checkpoint_leaves_the_old_or_the_new_one(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", KILLED_AT_EVERY_CALL, str(tmp_path)]
    subprocess.run(command, check=True, timeout=120)
    like = {"a": jax.ShapeDtypeStruct((1000,), np.int64)}
    found = []
    for path in sorted(tmp_path.iterdir(), key=lambda path: int(path.name)):
        loaded = load_checkpoint(path, like, "best")
        assert not any("damaged" in message for message in loaded.messages)
        assert (loaded.tree["a"] == loaded.update).all()
        assert [entry.name for entry in path.iterdir()] == ["best"]
        found.append(loaded.update)
    # The old one up to some call, the new one from then on. The last process was not killed.
    assert found == sorted(found)
    assert len(found) >= 6
    assert (found[0], found[-1]) == (1, 2)


# Which state is the best


def line(update, recent_return, episodes=100.0, spread=0.1, long_return=0.0):
    return {
        "update": update,
        "seconds": float(update),
        "episodes": episodes,
        "return": long_return,
        "recent_return": recent_return,
        "recent_return_std": spread,
    }


def consider(best, *lines):
    for values in lines:
        best.consider(values, lambda update=values["update"]: small_tree(update))


def stored(run):
    best = read_best(run.checkpoints)
    return best.update, best.metadata["recent_return"]


@pytest.fixture
def run(tmp_path):
    return RunDirectory(tmp_path)


@pytest.mark.parametrize("offset", [0.0, -200.0])
def test_the_best_state_between_two_checkpoints_is_kept(run, offset):
    best = BestCheckpoint(run, print)
    consider(best, *(line(update, offset + value) for update, value in enumerate([0.2, 0.9, 0.9, 0.1])))
    assert not run.checkpoints.exists()
    best.write()
    assert stored(run) == (1, offset + 0.9)
    loaded = load_checkpoint(run.checkpoints, small_tree(), "best")
    assert_same(loaded.tree, small_tree(1))
    assert best.summary() == {"best_update": 1, "best_return": offset + 0.9}


def test_the_best_state_is_written_once(run, monkeypatch):
    writes = []
    monkeypatch.setattr(best_checkpoint, "save_best", lambda *arguments: writes.append(arguments))
    best = BestCheckpoint(run, print)
    for update, value in enumerate([0.2, 0.1, 0.2 + 1e-9, 0.3]):
        consider(best, line(update, value))
        best.write()
        best.write()
    assert [update for _, update, *_ in writes] == [0, 3]


@pytest.mark.parametrize(
    ("unusable", "reason"),
    [
        (line(5, 0.5, episodes=99.0), "99 of the 100 episodes that it needs have ended"),
        (line(5, None, episodes=0.0), "0 of the 100 episodes that it needs have ended"),
        (line(5, -200.0, spread=0.0, long_return=-200.0), "all episodes had the same return, -200"),
        (line(5, 0.0, spread=0.0, long_return=0.0), "all episodes had the same return, 0"),
    ],
)
def test_there_is_no_best_state_without_100_episodes_or_any_difference(run, unusable, reason):
    best = BestCheckpoint(run, print)
    consider(best, unusable)
    best.write()
    assert not run.checkpoints.exists()
    assert best.summary() == {"best_update": None, "best_return": None}
    append_metrics(run.metrics, 5, unusable)
    message = why_there_is_no_best(run, configure("two-rooms"))
    assert message.startswith(
        f"{run.path} has no best checkpoint yet: {reason}. Choose the newest one, or train"
    )
    # A policy that never fails is the best one, if others have failed.
    consider(best, line(6, 1.0, spread=0.0, long_return=0.9))
    assert best.summary()["best_update"] == 6


def test_the_error_without_a_best_checkpoint_says_what_to_do(run):
    run.metrics.touch()
    config = configure("two-rooms")
    assert "yet: nothing has been logged yet. Choose the newest one" in why_there_is_no_best(run, config)
    append_metrics(run.metrics, 5, line(5, 0.5))
    assert "is written together with the next checkpoint" in why_there_is_no_best(run, config)
    free = why_there_is_no_best(run, config.replace(reward_free=True))
    assert "trained reward-free. Choose the newest one." in free


def test_a_resumed_run_knows_the_best_return_so_far(run):
    best = BestCheckpoint(run, print)
    consider(best, line(8, 0.9))
    best.write()
    best = BestCheckpoint(run, print)
    consider(best, line(4, 0.5))
    best.write()
    assert stored(run) == (8, 0.9)
    # The run was resumed before the update of the best state, and is better there this time.
    consider(best, line(6, 0.95))
    best.write()
    assert stored(run) == (6, 0.95)


def test_a_damaged_best_checkpoint_is_reported_and_replaced(run):
    best = BestCheckpoint(run, print)
    consider(best, line(8, 0.9))
    best.write()
    damage(run.checkpoints / "best")
    messages = []
    best = BestCheckpoint(run, messages.append)
    assert len(messages) == 1
    assert "is damaged: " in messages[0]
    assert "The next best state replaces it." in messages[0]
    consider(best, line(9, 0.2))
    best.write()
    assert stored(run) == (9, 0.2)


def test_a_full_disk_costs_no_best_state(run, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    messages = []
    best = BestCheckpoint(run, messages.append)
    consider(best, line(8, 0.9))
    monkeypatch.setattr("os.fsync", full)
    best.write()
    monkeypatch.undo()
    assert len(messages) == 1
    assert "the best checkpoint, of update 8, could not be written" in messages[0]
    consider(best, line(9, 0.1))
    best.write()
    assert stored(run) == (8, 0.9)


# Whole runs


class Fading(gymnasium.Env):
    """Episodes of one step. Their reward is 1 from episode 40 to 89 of every environment, otherwise 0 or 0.1."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)
    episode, fault_at = 0, None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode += 1
        if self.episode == self.fault_at:
            raise RuntimeError("the robot fell over")
        return np.zeros(2, np.float32), {}

    def step(self, action):
        reward = 1.0 if 40 <= self.episode < 90 else float(self.np_random.choice([0.0, 0.1]))
        return np.ones(2, np.float32), reward, True, False, {}


FADING = "gym:gemax-test/Fading-v0"
TINY = {
    "method": "none", "num_envs": 4, "unroll_length": 4, "unroll_period": 4, "updates": 50, "checkpoint_every": 15,
    "keep_checkpoints": 2, "torso_size": 6, "lstm_size": 5, "head_size": 5, "time_buckets": 3,
}  # fmt: skip


@pytest.fixture(scope="module")
def faded(tmp_path_factory):
    """A run that found a reward and lost it, and its messages."""
    gymnasium.register("gemax-test/Fading-v0", entry_point=Fading)
    path, messages = tmp_path_factory.mktemp("runs") / "run", []
    start_run(configure(FADING, **TINY), path, hooks=Hooks(messages.append, plots=False))
    yield path, messages
    gymnasium.registry.pop("gemax-test/Fading-v0")


def best_line(path):
    """Returns the first line with the highest return of 100 episodes."""
    lines = [line for line in read_metrics(path / "metrics.jsonl") if line["episodes"] >= 100]
    return max(lines, key=lambda line: (round(line["recent_return"], 5), -line["update"]))


def test_the_best_checkpoint_of_a_run_is_at_the_peak_of_its_return(faded):
    path, _ = faded
    peak = best_line(path)
    assert peak["recent_return"] == pytest.approx(1.0)
    assert 15 < peak["update"] < 45
    assert stored(RunDirectory(path)) == (peak["update"], peak["recent_return"])
    assert sorted(folder.name for folder in (path / "checkpoints").iterdir()) == [
        "best", "update-00000045", "update-00000050",
    ]  # fmt: skip
    summary = RunDirectory(path).read_summary()
    assert (summary["best_update"], summary["best_return"]) == (peak["update"], peak["recent_return"])
    assert summary["recent_return"] < 0.1 < summary["return"]


def test_a_run_that_loses_its_reward_says_so_once_and_what_helps(faded):
    path, messages = faded
    (warning,) = [message for message in messages if message.startswith("Warning")]
    peak = best_line(path)["update"]
    assert f"fell from 1 (update {peak}) to 0." in warning
    assert f"`gemax evaluate {path} --checkpoint best`" in warning
    assert "A lower learning_rate usually helps" in warning


def test_evaluation_takes_each_choice(faded, capsys):
    path, peak = faded[0], best_line(faded[0])["update"]
    for choice, update in (("newest", 50), (45, 45), (peak, peak)):
        report = gemax.evaluate(path, episodes=2, checkpoint=choice)
        assert (report["checkpoint"], report["update"]) == (choice, update)
    assert main(["evaluate", str(path), "--episodes", "2", "--checkpoint", "best"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert f"2 episodes, best checkpoint (update {peak})" in printed
    assert json.loads((path / "evaluation.json").read_text())["checkpoint"] == "best"
    assert main(["evaluate", str(path), "--checkpoint", "30"]) == 4
    assert f"kept: 45, 50, {peak} (the best)." in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["evaluate", str(path), "--checkpoint", "worst"])


def test_a_policy_and_a_dataset_take_each_choice(faded, tmp_path, monkeypatch):
    path, peak = faded[0], best_line(faded[0])["update"]
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    assert gemax.load(path).policy("best").act(np.zeros(2, np.float32)) in (0, 1)
    with pytest.raises(CheckpointError, match="no checkpoint of update 1 in"):
        gemax.load(path).policy(1)
    assert main(["collect", str(path), "--episodes", "2", "--checkpoint", "best", "--id", "best-v0"]) == 0
    assert minari.load_dataset("best-v0").storage.metadata["gemax"]["update"] == peak
    name = gemax.collect(path, episodes=2, checkpoint=45)
    assert minari.load_dataset(name).storage.metadata["gemax"]["update"] == 45


def test_a_run_can_start_from_the_best_checkpoint(faded, tmp_path):
    path, peak = faded[0], best_line(faded[0])["update"]
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in (TINY | {"updates": 1}).items()]
    out = tmp_path / "run"
    source = ["--from", str(path), "--from-checkpoint", "best"]
    assert main(["train", FADING, *flags, *source, "--out", str(out)]) == 0
    settings = RunDirectory(out).read_config()["run"]
    assert (settings["start_checkpoint"], settings["start_update"]) == ("best", peak)
    (start,) = load_run(out, checkpoint=0).states.values()
    (best,) = load_run(path, checkpoint="best").states.values()
    jax.tree.map(np.testing.assert_array_equal, start.parameters, best.parameters)
    with pytest.raises(CheckpointError, match="no best checkpoint yet: 12 of the 100 episodes"):
        gemax.train(FADING, start_from=out, start_checkpoint="best", out=tmp_path / "other", **TINY)
    with pytest.raises(CheckpointError, match="no checkpoint of update 7 in"):
        gemax.train(FADING, start_from=out, start_checkpoint=7, out=tmp_path / "other", **TINY)


def test_a_resumed_run_keeps_its_best_checkpoint_and_does_not_repeat_the_warning(faded, tmp_path):
    path, before, messages = tmp_path / "run", stored(RunDirectory(faded[0])), []
    shutil.copytree(faded[0], path)
    resume(path, {"updates": 55}, hooks=Hooks(messages.append, plots=False))
    assert stored(RunDirectory(path)) == before
    assert RunDirectory(path).read_summary()["best_update"] == before[0]
    assert not any(message.startswith("Warning") for message in messages)
    assert sorted(folder.name for folder in (path / "checkpoints").iterdir()) == [
        "best", "update-00000050", "update-00000055",
    ]  # fmt: skip


def test_an_environment_that_fails_after_the_peak_does_not_cost_the_best_state(faded, tmp_path, monkeypatch):
    monkeypatch.setattr(Fading, "fault_at", 110)
    path, config = tmp_path / "run", configure(FADING, **(TINY | {"checkpoint_every": 1000}))
    with pytest.raises(EnvFault, match="robot fell over"):
        start_run(config, path, hooks=Hooks(plots=False))
    peak = best_line(path)
    assert stored(RunDirectory(path)) == (peak["update"], peak["recent_return"])


def test_an_error_of_the_caller_does_not_cost_the_best_state(faded, tmp_path):
    def callback(metrics):
        if metrics["update"] == 30:
            raise RuntimeError("a bug")

    path, config = tmp_path / "run", configure(FADING, **(TINY | {"checkpoint_every": 1000}))
    with pytest.raises(RuntimeError, match="a bug"):
        start_run(config, path, hooks=Hooks(callback=callback, plots=False))
    assert stored(RunDirectory(path))[0] == best_line(path)["update"]


def test_a_reward_free_run_has_no_best_checkpoint_and_no_warning(faded, tmp_path):
    path, messages = tmp_path / "run", []
    config = configure(FADING, **(TINY | {"reward_free": True}))
    run = start_run(config, path, hooks=Hooks(messages.append, plots=False))
    assert not (path / "checkpoints" / "best").exists()
    assert "best_update" not in run.summary
    assert not any(message.startswith("Warning") for message in messages)
    with pytest.raises(CheckpointError, match="highest return, and this run was trained reward-free"):
        gemax.evaluate(path, checkpoint="best")


def test_every_seed_of_a_group_has_its_own_best_checkpoint(tmp_path):
    settings = {
        "num_envs": 16,
        "unroll_length": 4,
        "unroll_period": 4,
        "horizon": 4,
        "updates": 12,
        "seeds": 2,
    }
    changes = {"updates_per_call": 1, "checkpoint_every": 4, "lstm_size": 8, "torso_size": 8, "head_size": 8}
    config = configure("corridor", map_text="S.G", method="none", **settings, **changes)
    path = Path(tmp_path / "group")
    start_run(config, path, hooks=Hooks(lambda message: None, plots=False))
    together = load_run(path, checkpoint="best")
    for seed in (0, 1):
        directory = RunDirectory(path / f"seed-{seed}")
        peak = best_line(directory.path)
        assert stored(directory) == (peak["update"], peak["recent_return"])
        alone = load_run(directory.path, checkpoint="best").states[seed]
        assert int(alone.update) == peak["update"]
        jax.tree.map(np.testing.assert_array_equal, alone.parameters, together.states[seed].parameters)
        assert directory.read_summary()["best_update"] == peak["update"]
    assert not (path / "checkpoints" / "best").exists()
