"""Nothing that was learned is lost: a run that was killed, stopped or damaged ends as if it had not been."""

import dataclasses
import random
import shutil
import signal
import sys
from pathlib import Path

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

from gemax.runs.checkpoints import ARRAYS
from gemax.runs.directory import RunDirectory, read_metrics


def assert_ends_like(whole, path):
    assert last_arrays(path) == last_arrays(whole)
    assert metrics_but_seconds(path) == metrics_but_seconds(whole)
    assert [line["update"] for line in metrics_but_seconds(path)] == [2, 4, 6, 8, 10, 12]
    assert RunDirectory(path).read_summary()["status"] == "finished"
    assert leftovers(path) == []


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


def test_signals_stop_a_run_after_a_checkpoint_and_it_can_go_on(tmp_path, environment, whole):
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
    answer = cli("resume", path, "--updates", reached + 4, environment=environment)
    assert answer.returncode == 0, answer.stderr
    assert RunDirectory(path).read_summary()["status"] == "finished"
    assert RunDirectory(path).read_config()["updates"] == reached + 4
    assert [line["update"] for line in metrics_but_seconds(path)] == list(range(2, reached + 5, 2))


def test_a_signal_between_saving_and_stopping_loses_nothing(whole, tmp_path, environment):
    path = tmp_path / "run"
    config = dataclasses.replace(CONFIG, checkpoint_every=6)
    finish(path, "start", environment, "signal at update 4", config, exit_code=143)
    updates = RunDirectory(path).read_summary()["updates"]
    assert updates < CONFIG.updates
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
    answer = cli("resume", path, environment=environment)
    assert answer.returncode == 4
    assert all(f"update {update}: " in answer.stderr for update in (8, 10, 12))
    assert "Traceback" not in answer.stderr
    assert (path / "metrics.jsonl").read_bytes() == metrics


def test_resuming_a_finished_run_ends_at_once_and_changes_no_metrics(whole, tmp_path, environment):
    path = Path(shutil.copytree(whole, tmp_path / "run"))
    metrics = (path / "metrics.jsonl").read_bytes()
    said = finish(path, "resume", environment)
    assert "told Already at 12 of 12 updates" in said
    assert "finished after 12 updates" in said
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
    answer = ask(command(path, "start", "full disk at update 12"), environment)
    assert "CheckpointError: the checkpoint of update 12 could not be written" in answer.stderr
    assert checkpoints(path)[-1].name == "update-00000010"
    finish(path, "resume", environment)
    assert_ends_like(whole, path)
