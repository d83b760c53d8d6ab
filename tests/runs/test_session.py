"""A run that was killed, stopped or damaged and then resumed ends like an undisturbed one."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.runs.children import (
    CONFIG,
    TINY,
    ask,
    checkpoints,
    cli,
    command,
    finish,
    flags_of,
    kill_after,
    last_arrays,
    leftovers,
    metrics_but_seconds,
    started,
    wait_for_metrics,
)

from gemax.runs.checkpoint_format import ARRAYS, MANIFEST
from gemax.runs.metrics_file import read_metrics
from gemax.runs.run_directory import RunDirectory

pytestmark = pytest.mark.whole_runs


def assert_ends_like(whole, path):
    assert last_arrays(path) == last_arrays(whole)
    assert metrics_but_seconds(path) == metrics_but_seconds(whole)
    assert [line["update"] for line in metrics_but_seconds(path)] == [2, 4, 6, 8, 10, 12]
    assert RunDirectory(path).read_summary()["status"] == "finished"
    assert leftovers(path) == []


# Killed


@pytest.mark.fault(1, times=3)
def test_a_run_killed_at_random_moments_ends_like_an_undisturbed_one(whole, tmp_path, environment):
    path, dice = tmp_path / "run", random.Random(2)
    kills = [
        kill_after(path, verb, environment, 1, delay=dice.uniform(0.0, 0.15), fault="slow updates")
        for verb in ("start", "resume", "resume")
    ]
    assert sum(kills) >= 2, "the child ended before it was killed"
    assert not (path / "summary.json").exists()
    finish(path, "resume", environment)
    assert_ends_like(whole, path)


@pytest.mark.fault(1, times=4)
def test_a_run_killed_while_it_saves_ends_like_an_undisturbed_one(whole, tmp_path, environment):
    path = tmp_path / "run"
    # Line 1 is the last fsync of the first save. Each save syncs arrays, manifest, folder and name; a resumed run may
    # rewrite its metrics first. The kills hit a folder, the metrics, a name and the arrays.
    kills = [
        kill_after(path, verb, environment, lines, delay=0.0, fault="slow disk")
        for verb, lines in (("start", 4), ("resume", 1), ("resume", 5), ("resume", 1))
    ]
    assert all(kills), "the child ended before it was killed"
    finish(path, "resume", environment)
    assert_ends_like(whole, path)


# Resumed


@pytest.mark.slow_fault
@pytest.mark.fault(9)
def test_half_a_run_and_the_resumed_half_equal_a_whole_run_bit_for_bit(whole, tmp_path, environment):
    path = tmp_path / "run"
    finish(path, "start", environment, config=CONFIG.replace(updates=6))
    answer = cli("resume", path, "--updates", 12, environment=environment)
    assert answer.returncode == 0, answer.stderr
    assert_ends_like(whole, path)


@pytest.mark.slow_fault
@pytest.mark.fault(10, times=2)
@pytest.mark.skipif(os.cpu_count() == 1, reason="needs two cores")
def test_other_cores_and_another_version_of_jax_are_said(whole, tmp_path, environment):
    path = Path(shutil.copytree(whole, tmp_path / "run"))
    manifest = json.loads((checkpoints(path)[-1] / MANIFEST).read_bytes())
    manifest["metadata"]["jax"] = "0.1.2"
    (checkpoints(path)[-1] / MANIFEST).write_bytes(seal_of(manifest))
    cores = manifest["metadata"]["cores"]
    others = range(os.cpu_count()) if cores == 1 else [0]
    prefix = ["taskset", "--cpu-list", ",".join(map(str, others))]
    answer = ask([*prefix, *command(path, "resume")], environment)
    assert answer.returncode == 0, answer.stderr
    assert "Not bit-exact: the checkpoint was written with jax 0.1.2, this is" in answer.stdout
    assert (
        f"Not bit-exact: the checkpoint was written with cores {cores}, this is {len(others)}."
        in answer.stdout
    )


def seal_of(manifest):
    """Returns a manifest as another program would have written it, with a correct seal."""
    content = {name: value for name, value in manifest.items() if name != "seal"}
    seal = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    return json.dumps({**content, "seal": seal}, indent=1).encode()


@pytest.mark.slow_fault
@pytest.mark.fault(42, times=2)
def test_one_core_and_a_clock_that_jumps_back_change_nothing(whole, tmp_path, environment):
    path = tmp_path / "run"
    answer = ask(
        ["taskset", "--cpu-list", "0", *command(path, "start", "clock jumps back")],
        environment,
    )
    assert answer.returncode == 0, answer.stderr
    lines = read_metrics(path / "metrics.jsonl")
    assert [line["update"] for line in lines] == [2, 4, 6, 8, 10, 12]
    seconds = [line["seconds"] for line in lines]
    assert seconds == sorted(seconds)
    assert seconds[0] > 0
    assert RunDirectory(path).read_summary()["status"] == "finished"


@pytest.mark.slow_fault
@pytest.mark.fault(44)
def test_a_run_needs_no_network_terminal_home_or_utf8(tmp_path, environment):
    folder = tmp_path / "a folder with spaces"
    folder.mkdir()
    kept = ("PATH", "PYTHONPATH", "XDG_STATE_HOME", "XLA_FLAGS")
    bare = {name: value for name, value in environment.items() if name in kept or name.startswith("JAX_")}
    bare |= {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    flags = flags_of({**TINY, "updates": 4})
    # A network namespace of its own has no network.
    prefix = ["unshare", "--net"] if can_unshare() else []
    train = [sys.executable, "-m", "gemax.cli", "train", "two-rooms", "--out", str(folder / "run é"), *flags]
    answer = subprocess.run(
        [*prefix, *train], env=bare, stdin=subprocess.DEVNULL, capture_output=True, timeout=240, check=False
    )
    assert answer.returncode == 0, answer.stderr
    (path,) = folder.iterdir()
    assert RunDirectory(path).read_summary()["status"] == "finished"


def can_unshare():
    """Whether a process may have a network namespace of its own."""
    try:
        return subprocess.run(["unshare", "--net", "true"], capture_output=True, timeout=10).returncode == 0
    except OSError:
        return False


# Stopped


@pytest.mark.fault(15, times=2)
def test_signals_stop_a_run_after_a_checkpoint_and_it_can_be_resumed(tmp_path, environment, whole):
    path = tmp_path / "run"
    # Long enough to be hit; `whole` has compiled the same call.
    flags = flags_of({**TINY, "updates": 1000, "checkpoint_every": 400})
    start = [sys.executable, "-m", "gemax.cli", "train", "two-rooms", "--out", str(path), *flags]
    go_on = [sys.executable, "-m", "gemax.cli", "resume", str(path)]
    reached = 0
    for arguments, number, exit_code in ((start, signal.SIGINT, 130), (go_on, signal.SIGTERM, 143)):
        with started(arguments, environment) as child:
            wait_for_metrics(path, child, lines=reached // 2 + 1)
            child.send_signal(number)
            said, errors = child.communicate(timeout=60)
        assert child.returncode == exit_code, errors
        assert f"gemax resume {path}" in said
        assert "Traceback" not in errors
        summary = RunDirectory(path).read_summary()
        assert summary["status"] == "stopped"
        assert reached < summary["updates"] < 1000
        reached = summary["updates"]
        assert checkpoints(path)[-1].name == f"update-{reached:08d}"
        assert read_metrics(path / "metrics.jsonl")[-1]["update"] == reached
        assert (path / "learning_curve.png").exists() or "No plots were written" in said
    answer = cli("resume", path, "--updates", reached + 4, environment=environment)
    assert answer.returncode == 0, answer.stderr
    assert RunDirectory(path).read_summary()["status"] == "finished"
    assert RunDirectory(path).read_config()["run"]["updates"] == reached + 4
    assert (path / "learning_curve.png").exists()
    assert [line["update"] for line in metrics_but_seconds(path)] == list(range(2, reached + 5, 2))


@pytest.mark.fault(15)
def test_a_signal_between_saving_and_stopping_loses_nothing(whole, tmp_path, environment):
    path = tmp_path / "run"
    config = CONFIG.replace(checkpoint_every=6)
    finish(path, "start", environment, "signal at update 4", config, exit_code=143)
    updates = RunDirectory(path).read_summary()["updates"]
    assert updates < CONFIG.run.updates
    assert checkpoints(path)[-1].name == f"update-{updates:08d}"


# Damaged


@pytest.mark.fault(3, 16)
def test_a_damaged_newest_checkpoint_is_replaced_by_the_one_before(whole, tmp_path, environment):
    path = Path(shutil.copytree(whole, tmp_path / "run"))
    arrays = checkpoints(path)[-1] / ARRAYS
    content = bytearray(arrays.read_bytes())
    content[len(content) // 2] ^= 1
    arrays.write_bytes(content)
    with (path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"update": 14, "ret')
    said = finish(path, "resume", environment)
    assert "logged Skipped a damaged checkpoint, update 12" in said
    assert "logged Dropped line 7" in said
    assert "update 12\n" in said
    assert_ends_like(whole, path)


@pytest.mark.fault(4)
def test_a_run_without_a_good_checkpoint_does_not_start_from_scratch(whole, tmp_path, environment):
    path = Path(shutil.copytree(whole, tmp_path / "run"))
    metrics = (path / "metrics.jsonl").read_bytes()
    for checkpoint in checkpoints(path):
        (checkpoint / ARRAYS).write_bytes(b"")
    answer = cli("resume", path, environment=environment)
    assert answer.returncode == 4
    assert all(f"update {update}: " in answer.stderr for update in (8, 10, 12))
    assert "Traceback" not in answer.stderr
    assert (path / "metrics.jsonl").read_bytes() == metrics


@pytest.mark.fault(11)
def test_resuming_a_finished_run_changes_no_metrics(whole, tmp_path, environment):
    path = Path(shutil.copytree(whole, tmp_path / "run"))
    metrics = (path / "metrics.jsonl").read_bytes()
    said = finish(path, "resume", environment)
    assert "logged Already at 12 of 12 updates" in said
    assert "finished after 12 updates" in said
    assert (path / "metrics.jsonl").read_bytes() == metrics
    assert_ends_like(whole, path)


def test_a_disk_that_is_full_for_a_while_costs_one_checkpoint(whole, tmp_path, environment):
    path = tmp_path / "run"
    said = finish(path, "start", environment, "full disk at update 6")
    assert said.count("the checkpoint of update 6 could not be written") == 1
    assert "No space left on device" in said
    assert [checkpoint.name for checkpoint in checkpoints(path)][-2:] == [
        "update-00000010",
        "update-00000012",
    ]
    assert_ends_like(whole, path)


def test_a_disk_that_is_full_at_the_end_is_an_error_and_the_run_can_be_resumed(whole, tmp_path, environment):
    path = tmp_path / "run"
    answer = ask(command(path, "start", "full disk at update 12"), environment)
    assert "CheckpointError: the checkpoint of update 12 could not be written" in answer.stderr
    assert checkpoints(path)[-1].name == "update-00000010"
    finish(path, "resume", environment)
    assert_ends_like(whole, path)
