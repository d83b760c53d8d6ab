"""Nothing that was learned is lost: a run that was killed, stopped or damaged ends as if it had not been."""

import contextlib
import dataclasses
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gemax.runs.checkpoints import ARRAYS
from gemax.runs.directory import RunDirectory, read_metrics
from gemax.training.presets import configure

TINY = {
    "updates_per_call": 2,
    "num_worlds": 8,
    "trace_length": 6,
    "trace_period": 6,
    "lstm_size": 8,
    "torso_size": 16,
    "head_size": 8,
    "embedding_size": 4,
}
CONFIG = configure("two-rooms", updates=12, checkpoint_every=2, **TINY)

CHILD = """
import errno, json, os, signal, sys, time
from pathlib import Path
from gemax.runs import session
from gemax.training.config import Config

path, verb, mischief, config = Path(sys.argv[1]), sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
fsync, save = os.fsync, session.save_checkpoint

def say(*words):
    print(*words, flush=True)

def slow_fsync(descriptor):
    say("fsync")
    time.sleep(0.02)
    fsync(descriptor)

def full_disk(folder, update, *arguments, **options):
    if mischief == f"full disk at update {update}":
        raise OSError(errno.ENOSPC, "No space left on device")
    return save(folder, update, *arguments, **options)

def watch(metrics):
    say("update", metrics["update"])
    if mischief == "unhurried":
        time.sleep(0.1)
    if mischief == "signal between saving and stopping" and metrics["update"] == 4:
        os.kill(os.getpid(), signal.SIGTERM)

if mischief == "slow":
    os.fsync = slow_fsync
if mischief.startswith("full disk"):
    session.save_checkpoint = full_disk
if verb == "start":
    session.start_run(Config(**config), path, watch=watch)
else:
    session.resume(path, watch=watch, tell=lambda words: say("told", words))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """One cache for all children: only the first one compiles."""
    cache = tmp_path_factory.mktemp("compiled")
    return os.environ | {
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "PYTHONUNBUFFERED": "1",
        "COLUMNS": "400",
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory, environment):
    """The run that nothing happens to."""
    path = tmp_path_factory.mktemp("whole") / "run"
    finish(path, "start", environment)
    return path


def command(path, verb, mischief="none", config=CONFIG):
    return [sys.executable, "-c", CHILD, str(path), verb, mischief, json.dumps(dataclasses.asdict(config))]


def finish(path, verb, environment, mischief="none"):
    """Runs a child to its end and gives what it said."""
    answer = subprocess.run(
        command(path, verb, mischief),
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def cli(*arguments, environment):
    return subprocess.run(
        [sys.executable, "-m", "gemax.cli", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@contextlib.contextmanager
def started(arguments, environment):
    """A process that does not outlive the test, whatever becomes of the test."""
    child = subprocess.Popen(
        arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def kill_after(path, verb, environment, lines, delay, mischief):
    """Kills a child some seconds after so many of its lines, counted from the first checkpoint on."""
    with started(command(path, verb, mischief), environment) as child:
        for line in child.stdout:
            lines -= line.startswith(("update", "fsync")) and bool(checkpoints(path))
            if lines <= 0:
                break
        time.sleep(delay)
        child.send_signal(signal.SIGKILL)
        return child.wait() == -signal.SIGKILL


def checkpoints(path):
    return sorted((path / "checkpoints").glob("update-*"))


def last_arrays(path):
    last = checkpoints(path)[-1]
    assert last.name == f"update-{CONFIG.updates:08d}"
    return (last / ARRAYS).read_bytes()


def metrics_but_seconds(path):
    return [
        {name: value for name, value in line.items() if name != "seconds"}
        for line in read_metrics(path / "metrics.jsonl")
    ]


def assert_ends_like(whole, path):
    assert last_arrays(path) == last_arrays(whole)
    assert metrics_but_seconds(path) == metrics_but_seconds(whole)
    assert [line["update"] for line in metrics_but_seconds(path)] == [2, 4, 6, 8, 10, 12]
    assert RunDirectory(path).read_summary()["status"] == "finished"
    assert [entry for entry in path.rglob("*") if entry.name.endswith((".tmp", ".replaced", ".lock"))] == []


# Killed


def test_a_run_killed_at_random_moments_ends_like_one_that_was_not(whole, tmp_path, environment):
    path, dice = tmp_path / "run", random.Random(2)
    kills = [
        kill_after(path, verb, environment, 1, delay=dice.uniform(0.0, 0.15), mischief="unhurried")
        for verb in ("start", "resume", "resume")
    ]
    assert sum(kills) >= 2, "the test has lost its aim"
    assert not (path / "summary.json").exists()
    finish(path, "resume", environment)
    assert_ends_like(whole, path)


def test_a_run_killed_in_the_middle_of_its_checkpoints_ends_like_one_that_was_not(
    whole, tmp_path, environment
):
    path = tmp_path / "run"
    # The last flush of the first save is line 1. Each save flushes arrays, manifest, folder and name; a resumed run
    # may first rewrite its metrics. Hit are a folder, the metrics, a name and arrays.
    kills = [
        kill_after(path, verb, environment, lines, delay=0.0, mischief="slow")
        for verb, lines in (("start", 4), ("resume", 1), ("resume", 5), ("resume", 1))
    ]
    assert all(kills), "the test has lost its aim"
    finish(path, "resume", environment)
    assert_ends_like(whole, path)


# Stopped


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_a_run_after_a_checkpoint_and_it_can_go_on(
    tmp_path, environment, whole, number, exit_code
):
    path = tmp_path / "run"
    # Long enough to be hit; `whole` has compiled the same call.
    config = {**TINY, "updates": 1000, "checkpoint_every": 400}
    flags = [word for name, value in config.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    arguments = [sys.executable, "-m", "gemax.cli", "train", "two-rooms", "--out", str(path), *flags]
    with started(arguments, environment) as child:
        wait_for_metrics(path, child)
        child.send_signal(number)
        said, errors = child.communicate(timeout=60)
    assert child.returncode == exit_code, errors
    assert f"gemax resume {path}" in said
    assert "Traceback" not in errors
    summary = RunDirectory(path).read_summary()
    assert summary["status"] == "stopped"
    assert 0 < summary["updates"] < 1000
    assert checkpoints(path)[-1].name == f"update-{summary['updates']:08d}"
    assert read_metrics(path / "metrics.jsonl")[-1]["update"] == summary["updates"]
    answer = cli("resume", str(path), environment=environment)
    assert answer.returncode == 0, answer.stderr
    assert RunDirectory(path).read_summary()["status"] == "finished"
    assert [line["update"] for line in metrics_but_seconds(path)] == list(range(2, 1001, 2))


def wait_for_metrics(path, child):
    end = time.monotonic() + 60
    while not ((path / "metrics.jsonl").exists() and (path / "metrics.jsonl").stat().st_size):
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_signal_between_saving_and_stopping_loses_nothing(whole, tmp_path, environment):
    path = tmp_path / "run"
    config = dataclasses.replace(CONFIG, checkpoint_every=6)
    mischief = "signal between saving and stopping"
    arguments = command(path, "start", mischief, config)
    subprocess.run(arguments, env=environment, capture_output=True, timeout=120, check=True)
    updates = RunDirectory(path).read_summary()["updates"]
    assert checkpoints(path)[-1].name == f"update-{updates:08d}"


# Damaged


def test_a_damaged_newest_checkpoint_costs_time_but_changes_nothing(whole, tmp_path, environment):
    path = Path(shutil.copytree(whole, tmp_path / "run"))
    arrays = checkpoints(path)[-1] / ARRAYS
    content = bytearray(arrays.read_bytes())
    content[len(content) // 2] ^= 1
    arrays.write_bytes(content)
    with (path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"update": 14, "ret')
    said = finish(path, "resume", environment)
    assert "told Skipped a damaged checkpoint, update 12" in said
    assert "told Dropped line 7" in said
    assert "update 12\n" in said
    assert_ends_like(whole, path)


def test_if_all_checkpoints_are_damaged_the_run_does_not_begin_anew(whole, tmp_path, environment):
    path = Path(shutil.copytree(whole, tmp_path / "run"))
    metrics = (path / "metrics.jsonl").read_bytes()
    for checkpoint in checkpoints(path):
        (checkpoint / ARRAYS).write_bytes(b"")
    answer = cli("resume", str(path), environment=environment)
    assert answer.returncode == 4
    assert all(f"update {update}: " in answer.stderr for update in (8, 10, 12))
    assert "Traceback" not in answer.stderr
    assert (path / "metrics.jsonl").read_bytes() == metrics


def test_resuming_a_finished_run_ends_at_once_and_changes_no_metrics(whole, tmp_path, environment):
    path = Path(shutil.copytree(whole, tmp_path / "run"))
    metrics = (path / "metrics.jsonl").read_bytes()
    answer = cli("resume", str(path), environment=environment)
    assert answer.returncode == 0, answer.stderr
    assert "finished after 12 updates" in answer.stdout
    assert (path / "metrics.jsonl").read_bytes() == metrics
    assert_ends_like(whole, path)


def test_a_disk_that_is_full_for_a_while_costs_one_checkpoint_and_not_the_run(whole, tmp_path, environment):
    path = tmp_path / "run"
    said = finish(path, "start", environment, "full disk at update 6")
    assert said.count("the checkpoint of update 6 could not be written") == 1
    assert "No space left on device" in said
    assert [checkpoint.name for checkpoint in checkpoints(path)][-2:] == [
        "update-00000010",
        "update-00000012",
    ]
    assert_ends_like(whole, path)


def test_a_disk_that_is_full_at_the_end_is_an_error_and_the_run_can_go_on(whole, tmp_path, environment):
    path = tmp_path / "run"
    arguments = command(path, "start", "full disk at update 12")
    answer = subprocess.run(
        arguments, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert "CheckpointError: the checkpoint of update 12 could not be written" in answer.stderr
    assert checkpoints(path)[-1].name == "update-00000010"
    finish(path, "resume", environment)
    assert_ends_like(whole, path)
