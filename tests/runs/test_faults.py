"""A run meets a full disk, loses its directory or its numbers, and nothing that was saved is lost."""

import json
import os
import shutil
import signal
import time

import jax.numpy as jnp
import pytest
from tests.runs.children import CONFIG, checkpoints, leftovers
from tests.runs.disks import mounted

from gemax.cli import main
from gemax.errors import CheckpointError
from gemax.rewards.base import no_reward
from gemax.runs.checkpoints import load_arrays
from gemax.runs.metrics_file import MAX_WAITING_LINES, MetricsWriter, read_metrics
from gemax.runs.run_directory import RunDirectory, RunLostError
from gemax.runs.session import LATE_SECONDS, Hooks, resume, start_run
from gemax.training.assemble import CustomParts

FILLER = "filler"


def fill(folder, leave=0):
    """Fills a disk completely, apart from `leave` bytes."""
    status = os.statvfs(folder)
    with (folder / FILLER).open("wb") as file:
        file.write(bytes(status.f_bavail * status.f_frsize - leave))
    if not leave:
        with pytest.raises(OSError, match="No space left"), (folder / "more").open("wb") as file:
            file.write(bytes(2**16))
        (folder / "more").unlink()


def train(path, said, at=None, config=CONFIG, custom=None):
    """Trains in this process. Calls the functions of `at` after their updates."""

    def callback(metrics):
        if metrics["update"] in (at or {}):
            at[metrics["update"]]()

    return start_run(config, path, custom, Hooks(said.append, callback, plots=False))


def updates(path):
    return [line["update"] for line in read_metrics(path / "metrics.jsonl")]


# Full disks


@pytest.mark.fault(12)
@pytest.mark.fault(48)
def test_a_disk_without_a_free_byte_for_a_while_costs_checkpoints_and_no_metrics(tmp_path):
    said = []
    with mounted(tmp_path, "size=16m"):
        # Long enough to need more than the rest of the block that the last line is in.
        at = {4: lambda: fill(tmp_path), 22: lambda: (tmp_path / FILLER).unlink()}
        run = train(tmp_path / "run", said, at, CONFIG.replace(updates=24))
        assert run.summary["status"] == "finished"
        assert updates(run.path) == list(range(2, 25, 2))
        assert [path.name for path in checkpoints(run.path)] == [f"update-{n:08d}" for n in (2, 4, 24)]
        assert leftovers(run.path) == []
    assert sum("Metrics wait in memory" in words for words in said) == 1
    assert sum("that waited are written" in words for words in said) == 1


@pytest.mark.fault(12)
@pytest.mark.fault(48)
def test_a_disk_that_stays_full_keeps_the_last_good_checkpoint_and_says_so(tmp_path):
    with mounted(tmp_path, "size=16m"):
        path = tmp_path / "run"
        with pytest.raises(CheckpointError, match=r"[Cc]heckpoints are kept: free some space and resume"):
            train(path, [], {4: lambda: fill(tmp_path)})
        assert updates(path)[:2] == [2, 4]
        assert load_arrays(path / "checkpoints").update == 4
        (tmp_path / FILLER).unlink()
        run = resume(path, hooks=Hooks([].append, plots=False))
        assert (run.summary["status"], updates(path)) == ("finished", [2, 4, 6, 8, 10, 12])


@pytest.mark.fault(48)
def test_metrics_that_wait_are_bounded(tmp_path):
    said = []
    writer = MetricsWriter(tmp_path / "gone" / "metrics.jsonl", said.append)
    for update in range(MAX_WAITING_LINES + 3):
        writer.write(update, {})
    (tmp_path / "gone").mkdir()
    writer.write(update + 1, {})
    written = [line["update"] for line in read_metrics(tmp_path / "gone" / "metrics.jsonl")]
    assert MAX_WAITING_LINES // 2 < len(written) < MAX_WAITING_LINES
    assert written == sorted(written)
    assert (written[0], written[-1], len(said)) == (0, update + 1, 2)


# Lost directories


@pytest.mark.fault(55)
@pytest.mark.parametrize("is_renamed", [True, False])
def test_a_run_whose_directory_is_gone_is_saved_beside_it(is_renamed, tmp_path):
    path, elsewhere = tmp_path / "run", tmp_path / "elsewhere"

    def lose():
        path.rename(elsewhere) if is_renamed else shutil.rmtree(path)

    with pytest.raises(RunLostError, match=r"run was deleted or renamed .* update 6 is saved: `gemax resume"):
        train(path, [], {4: lose})
    assert not path.exists()
    rescued = tmp_path / "run-rescued"
    assert load_arrays(rescued / "checkpoints").update == 6
    assert RunDirectory(rescued).read_config() == CONFIG.to_json()
    if is_renamed:
        assert updates(elsewhere) == [2, 4]
    assert resume(rescued, hooks=Hooks([].append, plots=False)).summary["status"] == "finished"


# Numbers


def poisoned(from_update):
    """A reward whose state is not finite from an update on. The gradients of the agent stay finite."""

    def step(state, transitions, key):
        state = state + 1
        return jnp.zeros_like(transitions.reward), jnp.where(state >= from_update, jnp.nan, state), {}

    return no_reward()._replace(init=lambda key, rows, num_envs: jnp.zeros(()), step=step)


@pytest.mark.fault(50)
@pytest.mark.fault(18)
def test_a_state_that_is_not_finite_is_never_written(tmp_path):
    said = []
    config = CONFIG.replace(method="custom", keep_checkpoints=1)
    run = train(tmp_path / "run", said, config=config, custom=CustomParts(reward=poisoned(7)))
    assert run.summary["updates"] == 12
    assert [path.name for path in checkpoints(run.path)] == ["update-00000006"]
    skipped = [words for words in said if "is not finite and not written" in words]
    assert len(skipped) == 3
    assert "the state of update 8" in skipped[0]
    assert ".reward" in skipped[0]


# Edited configurations


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return train(tmp_path_factory.mktemp("finished") / "run", []).path


@pytest.mark.fault(8)
@pytest.mark.fault(49, times=2)
def test_an_edited_configuration_is_refused_with_the_fields_that_differ(finished, tmp_path, capsys):
    path = tmp_path / "run"
    shutil.copytree(finished, path)
    content = json.loads((path / "config.json").read_text())
    content["run"]["seed"], content["agent"]["learning_rate"] = 7, 0.5
    (path / "config.json").write_text(json.dumps(content))
    metrics = (path / "metrics.jsonl").read_bytes()
    assert main(["resume", str(path), "--updates", "14"]) == 2
    error = capsys.readouterr().err
    assert "seed is 7, was 0" in error
    assert f"learning_rate is 0.5, was {CONFIG.agent.learning_rate}" in error
    assert (path / "metrics.jsonl").read_bytes() == metrics


@pytest.mark.fault(11)
def test_a_longer_run_is_not_an_edit(finished, tmp_path, monkeypatch):
    path = tmp_path / "run"
    shutil.copytree(finished, path)
    # Of another user, so that the signature cannot be checked.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    content = json.loads((path / "config.json").read_text())
    content["run"]["updates"] = 14
    (path / "config.json").write_text(json.dumps(content))
    assert resume(path, hooks=Hooks([].append, plots=False)).summary["updates"] == 14


@pytest.mark.fault(46)
def test_a_run_that_takes_long_to_stop_writes_no_plots(tmp_path):
    path, said = tmp_path / "run", []

    def signal_and_wait(metrics):
        if metrics["update"] == 2:
            signal.raise_signal(signal.SIGINT)
            time.sleep(LATE_SECONDS)

    hooks = Hooks(said.append, signal_and_wait)
    assert start_run(CONFIG, path, hooks=hooks).stop_signal == signal.SIGINT
    assert not list(path.glob("*.png"))
    assert any(line.startswith("No plots were written") for line in said)
    resume(path, hooks=Hooks(said.append))
    assert (path / "learning_curve.png").exists()
    assert (path / "heatmap.png").exists()
