"""A run directory belongs to one process, holds what was logged, and nothing is written outside of it."""

import contextlib
import errno
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemax.runs import locks
from gemax.runs.directory import (
    RunDirectory,
    check_space,
    create_run,
    open_below,
    plain,
    read_metrics,
    resume_run,
    run_path,
)

CONFIG = {"world": "two-rooms", "seed": 3, "δ": 0.005, "layers": [64, 64], "none": None}


def tree_of(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture
def run(tmp_path):
    with create_run(tmp_path / "run", CONFIG) as run:
        yield run


@contextlib.contextmanager
def mounted(folder, options):
    """A small disk of its own kind, where that is allowed."""
    try:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        is_mounted = subprocess.run(command, capture_output=True, timeout=10).returncode == 0
    except OSError:
        is_mounted = False
    if not is_mounted:
        pytest.skip("mounting is not allowed here")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True, timeout=10)


# Creating and resuming


def test_a_new_run_holds_its_configuration_and_an_empty_log(tmp_path):
    with create_run(tmp_path / "run", CONFIG) as run:
        assert run.path == tmp_path / "run"
        assert run.messages == ()
        assert run.checkpoints == tmp_path / "run" / "checkpoints"
    assert RunDirectory(tmp_path / "run").read_config() == CONFIG
    assert read_metrics(run.metrics) == []
    assert sorted(path.name for path in run.path.iterdir()) == ["config.json", "metrics.jsonl"]


def test_an_empty_folder_and_one_with_other_things_can_become_a_run(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with create_run(tmp_path, CONFIG):
        pass
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "sign", ["config.json", "summary.json", "metrics.jsonl", "checkpoints/update-00000001"]
)
def test_a_folder_with_a_run_is_refused_and_stays_as_it_was(tmp_path, sign):
    (tmp_path / sign).parent.mkdir(exist_ok=True)
    (tmp_path / sign).write_text('{"update": 1}\n')
    before = tree_of(tmp_path)
    with pytest.raises(ValueError, match="already holds a run"), create_run(tmp_path, CONFIG):
        pytest.fail("it must not get here")
    assert tree_of(tmp_path) == before


def test_a_run_is_resumed_with_what_it_had(tmp_path):
    with create_run(tmp_path / "run", CONFIG) as run:
        run.append_metrics(1, {"loss": 0.5})
    with resume_run(tmp_path / "run") as run:
        run.append_metrics(2, {"loss": 0.25})
        assert run.read_config() == CONFIG
    assert [record["update"] for record in read_metrics(run.metrics)] == [1, 2]


@pytest.mark.parametrize("exists", [True, False])
def test_where_there_is_no_run_nothing_is_resumed_and_nothing_made(tmp_path, exists):
    path = tmp_path if exists else tmp_path / "nowhere"
    with pytest.raises(ValueError, match="holds no run to resume"), resume_run(path):
        pytest.fail("it must not get here")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_parent_is_told_before_anything_is_made(tmp_path):
    with (
        pytest.raises(ValueError, match="missing is not a folder"),
        create_run(tmp_path / "missing" / "run", CONFIG),
    ):
        pytest.fail("it must not get here")
    assert list(tmp_path.iterdir()) == []


def test_a_parent_that_is_a_file_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with (
            pytest.raises((ValueError, OSError), match=r"is not a folder|Cannot write"),
            create_run(path, CONFIG),
        ):
            pytest.fail("it must not get here")


def test_a_folder_that_cannot_be_written_to_is_told_in_one_line(tmp_path, monkeypatch):
    def read_only(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    with create_run(tmp_path / "old", CONFIG):
        pass
    monkeypatch.setattr("os.open", read_only)
    for opening in (create_run(tmp_path / "new", CONFIG), resume_run(tmp_path / "old")):
        with pytest.raises(OSError, match=r"Cannot write to .*: Read-only file system") as caught, opening:
            pytest.fail("it must not get here")
        assert "\n" not in str(caught.value)


def test_a_real_read_only_disk_is_told(tmp_path):
    with (
        mounted(tmp_path, "ro"),
        pytest.raises(OSError, match=r"Cannot write to .*Read-only file system"),
        create_run(tmp_path / "run", CONFIG),
    ):
        pytest.fail("it must not get here")


@pytest.mark.parametrize("config", [{"a": math.nan}, {"a": math.inf}, {"a": object()}])
def test_a_configuration_that_would_not_come_back_is_refused(tmp_path, config):
    with (
        pytest.raises(ValueError, match="configuration cannot be written"),
        create_run(tmp_path / "run", config),
    ):
        pytest.fail("it must not get here")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b"[" * 100_000, b""])
def test_a_damaged_configuration_is_told_by_name(tmp_path, content):
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"config\.json is damaged"):
        RunDirectory(tmp_path).read_config()


@pytest.mark.parametrize(
    "content",
    ["!!python/object/apply:os.mkdir ['{}']", "__import__('os').mkdir('{}')", '{{"a": "os.mkdir(\'{}\')"}}'],
)
def test_reading_a_configuration_runs_nothing(tmp_path, content):
    canary = tmp_path / "canary"
    (tmp_path / "config.json").write_text(content.format(canary))
    with contextlib.suppress(ValueError):
        RunDirectory(tmp_path).read_config()
    assert not canary.exists()


# Runs that are part of another one


def test_a_run_below_another_is_made_once_and_takes_a_new_configuration(run):
    below = open_below(run, "seed-1", CONFIG)
    below.append_metrics(1, {})
    (below.path / ".config.json.khsbzrt3.tmp").write_bytes(b"half")
    again = open_below(run, "seed-1", {**CONFIG, "updates": 7})
    assert again.read_config()["updates"] == 7
    assert len(read_metrics(again.metrics)) == 1
    assert len(again.messages) == 1
    assert sorted(path.name for path in below.path.iterdir()) == ["config.json", "metrics.jsonl"]


def test_a_run_below_another_does_not_lead_out_of_it(run, tmp_path):
    (tmp_path / "outside").mkdir()
    (run.path / "seed-1").symlink_to(tmp_path / "outside")
    with pytest.raises(ValueError, match="is a link"):
        open_below(run, "seed-1", CONFIG)
    assert list((tmp_path / "outside").iterdir()) == []


# Names and links


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../../x", "/etc/x", "a/b", "a\\b", "a\0b", "a" * 300, "é" * 200]
)
def test_a_name_that_could_lead_elsewhere_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match=r"run is named without folders|NUL|at most 255 bytes"):
        run_path(tmp_path, name)


def test_a_name_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(ValueError, match="is a link"):
        run_path(tmp_path / "runs", "link")


def test_the_folder_of_all_runs_may_itself_be_a_link(tmp_path):
    (tmp_path / "big disk").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "big disk")
    assert run_path(tmp_path / "runs", "two-rooms gem_0.5 µ") == tmp_path / "runs" / "two-rooms gem_0.5 µ"


@pytest.mark.parametrize("name", ["a\0b", "a" * 300])
def test_paths_that_no_file_system_takes_are_refused_clearly(tmp_path, name):
    for opening in (create_run(tmp_path / name / "run", CONFIG), resume_run(tmp_path / name)):
        with pytest.raises(ValueError, match=r"NUL|at most 255 bytes"), opening:
            pytest.fail("it must not get here")


@pytest.mark.parametrize(
    "name",
    ["metrics.jsonl", "config.json", "summary.json", "checkpoints", "run.lock", "tensorboard", "wandb"],
)
@pytest.mark.parametrize("is_dangling", [True, False])
def test_nothing_is_written_through_a_link(tmp_path, name, is_dangling):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("precious")
    path = tmp_path / "run"
    with create_run(path, CONFIG):
        pass
    (path / name).unlink(missing_ok=True)
    (path / name).symlink_to(outside / ("new" if is_dangling else "file"))
    before = tree_of(outside)
    for opening in (create_run(path, CONFIG), resume_run(path)):
        with pytest.raises(ValueError, match=r"is a link|holds no run"), opening:
            pytest.fail("it must not get here")
    assert tree_of(outside) == before


# Metrics


def test_metrics_are_one_object_a_line_with_null_for_what_is_no_number(run):
    run.append_metrics(1, {"loss": math.nan, "return": -math.inf, "update": 77, "note": "µ\n"})
    run.append_metrics(
        2, {"loss": jnp.float32(0.5), "visits": np.array([1, 2]), "b": jnp.bfloat16(1.5), "n": None}
    )
    text = run.metrics.read_text()
    assert text.count("\n") == 2
    assert "NaN" not in text
    assert read_metrics(run.metrics) == [
        {"update": 1, "loss": None, "return": None, "note": "µ\n"},
        {"update": 2, "loss": 0.5, "visits": [1, 2], "b": 1.5, "n": None},
    ]
    assert text.startswith('{"update": 1, ')


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda items: st.lists(items, max_size=3) | st.dictionaries(st.text(), items, max_size=3),
    max_leaves=8,
)


@given(metrics=st.dictionaries(st.text(), JSON, max_size=4))
def test_any_metrics_are_read_as_they_were_meant(tmp_path_factory, metrics):
    run = RunDirectory(tmp_path_factory.mktemp("any"))
    run.append_metrics(3, metrics)
    run.append_metrics(4, metrics)
    assert read_metrics(run.metrics) == [plain({**metrics, "update": update}) for update in (3, 4)]


@pytest.mark.parametrize("value", [object(), {1, 2}, 1j, np.array([None]), np.array(["a"]), b"bytes"])
def test_what_is_no_number_is_refused_and_leaves_no_line(run, value):
    with pytest.raises(TypeError, match="JSON takes"):
        run.append_metrics(1, {"a": value})
    assert run.metrics.read_bytes() == b""


def test_each_line_is_there_for_others_at_once(run):
    for update in range(3):
        run.append_metrics(update, {})
        assert len(read_metrics(run.metrics)) == update + 1


def test_resuming_forgets_what_came_after_the_checkpoint(run):
    for update in (10, 20, 30, 40):
        run.append_metrics(update, {"loss": 1 / 3})
    first_two = run.metrics.read_bytes().splitlines(keepends=True)[:2]
    assert run.rewind_metrics(20) == []
    assert run.metrics.read_bytes() == b"".join(first_two)
    run.append_metrics(30, {})
    assert [record["update"] for record in read_metrics(run.metrics)] == [10, 20, 30]


def test_a_last_line_cut_anywhere_is_dropped_with_a_message(run):
    run.append_metrics(1, {"loss": 0.5})
    whole = run.metrics.read_bytes()
    run.append_metrics(2, {"loss": 0.25})
    both = run.metrics.read_bytes()
    for length in range(len(whole) + 1, len(both) - 1):
        run.metrics.write_bytes(both[:length])
        assert [record["update"] for record in read_metrics(run.metrics)] == [1]
        messages = run.rewind_metrics(5)
        assert len(messages) == 1
        assert "line 2" in messages[0]
        assert run.metrics.read_bytes() == whole


def test_a_last_line_that_only_lacks_its_end_is_kept(run):
    run.append_metrics(1, {})
    run.metrics.write_bytes(run.metrics.read_bytes()[:-1])
    assert run.rewind_metrics(1) == []
    run.append_metrics(2, {})
    assert [record["update"] for record in read_metrics(run.metrics)] == [1, 2]


@pytest.mark.parametrize("damage", [b"\0\0\0", b"[1]", b'{"loss": 1}', b"\xff", b"[" * 100_000])
def test_damage_in_the_middle_is_an_error_to_readers_and_goes_on_resuming(run, damage):
    run.append_metrics(1, {})
    with run.metrics.open("ab") as file:
        file.write(damage + b"\n")
    run.append_metrics(3, {})
    with pytest.raises(ValueError, match=r"Line 2 of .*metrics\.jsonl is damaged"):
        read_metrics(run.metrics)
    assert len(run.rewind_metrics(9)) == 1
    assert [record["update"] for record in read_metrics(run.metrics)] == [1, 3]


def test_an_interrupted_rewind_leaves_the_log_as_it_was(run, monkeypatch):
    run.append_metrics(1, {})
    run.append_metrics(2, {})

    def no_space(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", no_space)
        with pytest.raises(OSError, match=r"No space left on device: '.*metrics\.jsonl'"):
            run.rewind_metrics(1)
    assert len(read_metrics(run.metrics)) == 2


def test_a_log_that_is_gone_can_be_rewound(run):
    run.metrics.unlink()
    assert run.rewind_metrics(3) == []


def test_nan_from_other_writers_is_read_as_null(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"update": 1, "loss": NaN, "best": -Infinity}\n')
    assert read_metrics(tmp_path / "metrics.jsonl") == [{"update": 1, "loss": None, "best": None}]


def test_a_disk_that_fills_in_the_middle_of_a_line_raises_and_leaves_no_half_line(tmp_path):
    with mounted(tmp_path, "size=8k"):
        run = RunDirectory(tmp_path)
        run.append_metrics(1, {"a": "x" * 3_000})
        with pytest.raises(
            OSError,
            match=r"Cannot write to .*metrics\.jsonl: No space left on device\. What was saved is kept",
        ):
            run.append_metrics(2, {"a": "x" * 12_000})
        run.append_metrics(3, {})
        assert [record["update"] for record in read_metrics(run.metrics)] == [1, 3]


def test_a_summary_replaces_the_one_before_as_a_whole(run):
    run.write_summary({"status": "running", "return": math.nan})
    run.write_summary({"status": "finished", "return": jnp.float32(0.5), "nested": {"a": (1, 2)}})
    assert run.read_summary() == {"status": "finished", "return": 0.5, "nested": {"a": [1, 2]}}


def test_a_disk_that_is_too_small_is_told_before_training(tmp_path):
    check_space(tmp_path / "not" / "yet" / "there", 1)
    with pytest.raises(OSError, match=r"MB of free space, but 1,000,000,000\.0 MB are needed"):
        check_space(tmp_path, 10**15)


# The lock

HOLD = """
import sys, time
from pathlib import Path
from gemax.runs.directory import create_run, resume_run

path = Path(sys.argv[1])
with (resume_run(path) if path.exists() else create_run(path, {})) as run:
    print("locked", *run.messages, flush=True)
    sys.stdin.readline()
    if "fail" in sys.argv:
        raise RuntimeError("on purpose")
    if "exit" in sys.argv:
        sys.exit(7)
"""


def hold(path, *how):
    """Another process that has the run until it gets a line."""
    command = [sys.executable, "-c", HOLD, str(path), *how]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert process.stdout.readline().startswith("locked"), process.stderr.read()
    return process


def test_a_second_process_is_refused_and_told_who_is_there(tmp_path):
    path = tmp_path / "run"
    with hold(path) as first:
        before = tree_of(path)
        for opening in (create_run(path, {}), resume_run(path)):
            with (
                pytest.raises(ValueError, match=f"locked by pid {first.pid} on host {os.uname().nodename}"),
                opening,
            ):
                pytest.fail("it must not get here")
        assert tree_of(path) == before
        first.communicate("\n", timeout=20)
    with resume_run(path) as run:
        assert run.messages == ()


def test_the_lock_of_a_killed_process_is_taken_over_with_a_message(tmp_path):
    path = tmp_path / "run"
    with hold(path) as first:
        first.send_signal(signal.SIGKILL)
        first.wait(timeout=20)
        assert (path / "run.lock").exists()
        with resume_run(path) as run:
            assert len(run.messages) == 1
            assert f"pid {first.pid}" in run.messages[0]
            assert json.loads((path / "run.lock").read_text())["pid"] == os.getpid()
    assert not (path / "run.lock").exists()


@pytest.mark.parametrize("how", ["fail", "exit"])
def test_the_lock_is_released_whichever_way_a_process_ends(tmp_path, how):
    with hold(tmp_path / "run", how) as first:
        first.communicate("\n", timeout=20)
        assert first.returncode == {"fail": 1, "exit": 7}[how]
    assert not (tmp_path / "run" / "run.lock").exists()


def test_the_lock_is_released_after_an_exception(tmp_path):
    with pytest.raises(KeyboardInterrupt), create_run(tmp_path / "run", CONFIG):
        raise KeyboardInterrupt
    with resume_run(tmp_path / "run") as run:
        assert run.messages == ()


def test_one_process_does_not_open_a_run_twice(run):
    with pytest.raises(ValueError, match=f"locked by pid {os.getpid()}"), resume_run(run.path):
        pytest.fail("it must not get here")
    with pytest.raises(ValueError, match="locked"), create_run(run.path, CONFIG):
        pytest.fail("it must not get here")


def leave_lock(path, **holder):
    path.mkdir()
    (path / "config.json").write_text("{}")
    (path / "run.lock").write_text(json.dumps(holder))


def test_the_lock_of_another_host_is_not_ours_to_judge(tmp_path):
    leave_lock(tmp_path / "run", pid=1, host="elsewhere", started="2026-01-01T00:00:00+00:00")
    with pytest.raises(ValueError, match=r"locked by pid 1 on host elsewhere .*delete .*run\.lock"):
        resume_run(tmp_path / "run").__enter__()
    assert (tmp_path / "run" / "run.lock").exists()


@pytest.mark.parametrize("content", [b"", b'{"pid": 12', b"\0" * 40, b"[]", b'{"pid": "x"}'])
def test_a_lock_file_that_says_nothing_and_that_nobody_holds_is_taken(tmp_path, content):
    leave_lock(tmp_path / "run")
    (tmp_path / "run" / "run.lock").write_bytes(content)
    with resume_run(tmp_path / "run") as run:
        assert run.messages == ()


def test_a_lock_deleted_by_hand_and_taken_by_another_is_not_released_by_the_first(tmp_path):
    path = tmp_path / "run"
    with create_run(path, CONFIG):
        (path / "run.lock").unlink()
        second = resume_run(path)
        second.__enter__()
    assert (path / "run.lock").exists()
    second.__exit__(None, None, None)
    assert not (path / "run.lock").exists()


def test_a_file_deleted_between_opening_and_locking_is_no_lock(tmp_path, monkeypatch):
    flock = locks._flock
    deleted = []

    def delete_first(descriptor):
        if not deleted:
            deleted.append((tmp_path / "run" / "run.lock").unlink())
        return flock(descriptor)

    monkeypatch.setattr(locks, "_flock", delete_first)
    with create_run(tmp_path / "run", CONFIG) as run:
        assert (run.path / "run.lock").exists()


@pytest.mark.parametrize("is_alive", [True, False])
def test_without_locks_in_the_file_system_the_number_of_the_process_decides(tmp_path, monkeypatch, is_alive):
    monkeypatch.setattr(locks, "_flock", lambda _: None)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        if not is_alive:
            other.communicate(b"\n", timeout=20)
        leave_lock(tmp_path / "run", pid=other.pid, host=os.uname().nodename, started="today")
        if is_alive:
            with pytest.raises(ValueError, match=f"locked by pid {other.pid}"):
                resume_run(tmp_path / "run").__enter__()
        else:
            with resume_run(tmp_path / "run") as run:
                assert f"pid {other.pid}" in run.messages[0]


def test_of_many_processes_at_once_exactly_one_gets_a_run(tmp_path):
    leave_lock(tmp_path / "run", pid=2**22 + 1, host=os.uname().nodename, started="long ago")
    code = HOLD.replace("path = Path", "sys.stdin.readline(); path = Path")
    pipe = subprocess.PIPE
    rivals = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "run")],
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
        )
        for _ in range(4)
    ]
    for rival in rivals:
        rival.stdin.write("go\n")
        rival.stdin.flush()
    first_lines = [rival.stdout.readline() for rival in rivals]
    assert sum(line.startswith("locked") for line in first_lines) == 1
    errors = [rival.communicate("\n", timeout=20)[1] for rival in rivals]
    assert sum("is locked by" in error for error in errors) == 3


def test_paths_are_taken_as_they_are_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with create_run(Path("a folder with spaces"), CONFIG) as run:
        run.append_metrics(1, {})
    assert len(read_metrics(tmp_path / "a folder with spaces" / "metrics.jsonl")) == 1


def test_what_a_killed_process_was_writing_is_removed_and_told(tmp_path):
    path = tmp_path / "run"
    with create_run(path, CONFIG):
        pass
    leftover, foreign = path / ".metrics.jsonl.khsbzrt3.tmp", path / ".notes.txt.khsbzrt3.tmp"
    for file in (leftover, foreign):
        file.write_bytes(b"half")
    with resume_run(path) as run:
        assert [str(leftover) in message for message in run.messages] == [True]
    assert not leftover.exists()
    assert foreign.exists()
