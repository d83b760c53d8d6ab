"""The checkpoint folder survives damage, hostile files, full disks and killed processes."""

import errno
import hashlib
import json
import os
import pickle
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.runs.disks import mounted
from tests.runs.trees import assert_same, small_tree

import gemax
from gemax.errors import CheckpointError
from gemax.runs.checkpoint_format import ARRAYS, FORMAT, MANIFEST
from gemax.runs.checkpoints import load_checkpoint, save_checkpoint


def path_of(folder, update):
    return folder / f"update-{update:08d}"


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def rewrite_manifest(path, **changes):
    """Changes the manifest and seals it again, as an attacker or a later version would."""
    content = json.loads((path / MANIFEST).read_bytes()) | changes
    del content["seal"]
    seal = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    (path / MANIFEST).write_bytes(json.dumps({**content, "seal": seal}, indent=1).encode())


def rewrite_arrays(path, content, **changes):
    (path / ARRAYS).write_bytes(content)
    arrays = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    rewrite_manifest(path, arrays=arrays, **changes)


@pytest.fixture
def two(tmp_path):
    """Creates a folder with the checkpoints of updates 1 and 2."""
    for update in (1, 2):
        save_checkpoint(tmp_path, update, small_tree(update), {"seconds": float(update)})
    return tmp_path


# Keeping, replacing and finding checkpoints


def test_only_the_newest_checkpoints_are_kept(tmp_path):
    for update in range(0, 50, 10):
        save_checkpoint(tmp_path, update, small_tree(update), {}, keep=2)
    assert names_in(tmp_path) == ["update-00000030", "update-00000040"]


def test_a_checkpoint_of_the_same_update_is_replaced(two):
    save_checkpoint(two, 2, small_tree(99), {"seconds": 3.0})
    loaded = load_checkpoint(two, small_tree())
    assert_same(loaded.tree, small_tree(99))
    assert loaded.metadata == {"seconds": 3.0}
    assert names_in(two) == ["update-00000001", "update-00000002"]


def test_damaged_checkpoints_of_later_updates_do_not_evict_new_ones(two):
    for update in (8, 9):
        path_of(two, update).mkdir()
        (path_of(two, update) / MANIFEST).write_text("damaged")
    save_checkpoint(two, 3, small_tree(3), {}, keep=1)
    assert load_checkpoint(two, small_tree()).update == 3


@pytest.mark.fault(5)
def test_empty_folders_and_files_of_other_names_are_ignored(two):
    path_of(two, 9).mkdir()
    path_of(two, 10).write_text("a file")
    path_of(two, 11).symlink_to(path_of(two, 1))
    for name in (
        "update-best",
        "update-3",
        "update-00000003.zip",
        "update-٣",
        "update--0000004",
        ".DS_Store",
    ):
        (two / name).write_text("foreign")
    loaded = load_checkpoint(two, small_tree())
    assert (loaded.update, loaded.messages) == (2, [])
    save_checkpoint(two, 12, small_tree(12), {}, keep=1)
    assert (two / "update-best").read_text() == "foreign"
    assert path_of(two, 10).read_text() == "a file"


def test_a_folder_without_checkpoints_is_named_in_the_error(tmp_path):
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(CheckpointError, match=f"There is no checkpoint in {folder}"):
            load_checkpoint(folder, small_tree())


@pytest.mark.fault(6)
def test_a_newer_format_is_refused_and_both_versions_are_named(two):
    rewrite_manifest(path_of(two, 2), format=FORMAT + 1, gemax="99.0")
    with pytest.raises(CheckpointError, match=rf"written by version 99\.0 .* this is {gemax.__version__}"):
        load_checkpoint(two, small_tree())


@pytest.mark.fault(33)
def test_links_are_not_followed_when_reading_writing_or_deleting(tmp_path):
    outside, folder = tmp_path / "outside", tmp_path / "run"
    for update in (1, 50):
        save_checkpoint(outside, update, small_tree(), {})
    save_checkpoint(folder, 2, small_tree(), {})
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    (folder / "update-00000001").symlink_to(outside / "update-00000001")
    (folder / "update-00000050").symlink_to(outside / "update-00000050")
    (folder / ".update-00000060.tmp").symlink_to(outside)
    assert load_checkpoint(folder, small_tree()).update == 2
    save_checkpoint(folder, 3, small_tree(), {}, keep=1)
    with pytest.raises(OSError, match="Not a directory"):
        save_checkpoint(folder, 50, small_tree(), {}, keep=1)
    assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before


def test_a_folder_without_a_checkpoint_is_never_overwritten(tmp_path):
    (tmp_path / "update-00000002").mkdir()
    (tmp_path / "update-00000002" / "mine").write_text("precious")
    with pytest.raises(OSError, match="not empty"):
        save_checkpoint(tmp_path, 2, small_tree(), {})
    assert (tmp_path / "update-00000002" / "mine").read_text() == "precious"
    assert names_in(tmp_path) == ["update-00000002"]


# Damaged files


def assert_falls_back(folder):
    loaded = load_checkpoint(folder, small_tree())
    assert loaded.update == 1
    assert_same(loaded.tree, small_tree(1))
    (message,) = loaded.messages
    assert "update 2" in message
    assert str(path_of(folder, 2)) in message


@pytest.mark.parametrize("name", [ARRAYS, MANIFEST])
@pytest.mark.fault(3, times=60)
def test_a_checkpoint_with_a_flipped_bit_is_never_loaded(two, name):
    path = path_of(two, 2) / name
    whole = path.read_bytes()
    rng = random.Random(0)
    for position in rng.sample(range(8 * len(whole)), 60):
        damaged = bytearray(whole)
        damaged[position // 8] ^= 1 << position % 8
        path.write_bytes(damaged)
        assert_falls_back(two)
    path.write_bytes(whole)
    assert load_checkpoint(two, small_tree()).update == 2


@pytest.mark.parametrize("name", [ARRAYS, MANIFEST])
@pytest.mark.fault(2, times=10)
def test_a_file_with_another_length_is_never_loaded(two, name):
    path = path_of(two, 2) / name
    whole = path.read_bytes()
    for length in (0, 1, 7, 8, 9, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert_falls_back(two)
    for longer in (whole + b"\0", whole + b"\n", whole * 2):
        path.write_bytes(longer)
        assert_falls_back(two)


@pytest.mark.parametrize("name", [ARRAYS, MANIFEST])
@pytest.mark.fault(2, times=3)
def test_a_missing_file_a_link_or_a_pipe_is_skipped(two, name):
    path = path_of(two, 2) / name
    path.rename(two / "elsewhere")
    assert_falls_back(two)
    path.symlink_to(two / "elsewhere")
    assert_falls_back(two)
    path.unlink()
    os.mkfifo(path)
    assert_falls_back(two)


def test_a_checkpoint_under_the_name_of_another_update_is_skipped(two):
    path_of(two, 2).rename(path_of(two, 5))
    assert "update 5" in load_checkpoint(two, small_tree()).messages[0]


@pytest.mark.fault(34, times=2)
def test_files_of_absurd_size_are_not_read(tmp_path):
    save_checkpoint(tmp_path, 1, small_tree(), {})
    path = save_checkpoint(tmp_path, 2, small_tree(), {})
    os.truncate(path / "manifest.json", 10 * 2**30)
    os.truncate(path / "arrays.safetensors", 10 * 2**30)
    assert load_checkpoint(tmp_path, small_tree()).update == 1


@pytest.mark.fault(4)
def test_if_all_checkpoints_are_damaged_each_is_listed_with_its_reason(two):
    (path_of(two, 1) / ARRAYS).unlink()
    (path_of(two, 2) / MANIFEST).write_bytes(b"")
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(two, small_tree())
    _, newest, oldest = str(caught.value).splitlines()
    assert newest.startswith(f"  update 2: {path_of(two, 2)}: JSONDecodeError")
    assert oldest.startswith(f"  update 1: {path_of(two, 1)}: FileNotFoundError")
    assert ARRAYS in oldest
    assert caught.value.exit_code == 4


# Hostile files


class Bomb:
    def __init__(self, canary):
        self.canary = canary

    def __reduce__(self):
        return (os.mkdir, (str(self.canary),))


def bombs(folder, canary):
    with (folder / "bomb.npz").open("wb") as file:
        np.savez(file, weights=np.array([Bomb(canary)], object))
    with (folder / "bomb.npy").open("wb") as file:
        np.save(file, np.array([Bomb(canary)], object), allow_pickle=True)
    return [
        pickle.dumps(Bomb(canary)),
        (folder / "bomb.npz").read_bytes(),
        (folder / "bomb.npy").read_bytes(),
    ]


def test_unpickling_a_bomb_executes_its_code(tmp_path):
    pickle.loads(bombs(tmp_path, tmp_path / "canary")[0])
    assert (tmp_path / "canary").exists()


@pytest.mark.fault(31, times=15)
def test_loading_a_checkpoint_never_executes_its_content(two, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("bombs")
    canary = elsewhere / "canary"
    path = path_of(two, 2)
    arrays, manifest = (path / ARRAYS).read_bytes(), (path / MANIFEST).read_bytes()
    for bomb in bombs(elsewhere, canary):
        for name, whole in ((ARRAYS, arrays), (MANIFEST, manifest)):
            (path / name).write_bytes(bomb)
            assert_falls_back(two)
            (path / name).write_bytes(whole)
        # The attacker has also corrected the checksums.
        rewrite_arrays(path, bomb)
        assert_falls_back(two)
        leaves = {"['weights']": {"shape": [1], "dtype": "object"}}
        rewrite_arrays(path, bomb, leaves=leaves)
        assert_falls_back(two)
        rewrite_arrays(path, arrays, leaves=leaves)
        assert_falls_back(two)
        (path / MANIFEST).write_bytes(manifest)
    assert not canary.exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"leaves": []},
        {"leaves": {"['weights']": None}},
        {"leaves": {"['weights']": {"shape": [17], "dtype": "float32"}}},
        {"leaves": {"['key']": {"shape": [], "dtype": "key<fry>", "prng_impl": "os.system"}}},
        {"arrays": {"bytes": "many", "sha256": None}},
        {"arrays": None},
        {"format": "1"},
        {"format": None},
    ],
    ids=str,
)
@pytest.mark.fault(56)
def test_an_invalid_manifest_with_a_correct_seal_is_skipped(two, changes):
    rewrite_manifest(path_of(two, 2), **changes)
    assert_falls_back(two)


@pytest.mark.fault(56)
def test_a_manifest_with_very_deep_nesting_is_skipped(two):
    (path_of(two, 2) / MANIFEST).write_bytes(b"[" * 100_000)
    assert_falls_back(two)


# Interrupted saves


@pytest.mark.fault(1)
def test_leftovers_of_an_interrupted_save_are_removed_with_a_message(two):
    leftover = two / ".update-00000003.0a1b2c3d.tmp"
    leftover.mkdir()
    (leftover / ARRAYS).write_bytes(b"half")
    loaded = load_checkpoint(two, small_tree())
    assert loaded.update == 2
    assert [str(leftover) in message for message in loaded.messages] == [True]
    assert not leftover.exists()


def test_a_checkpoint_that_was_being_replaced_is_restored(two):
    path_of(two, 2).rename(two / ".update-00000002.replaced")
    loaded = load_checkpoint(two, small_tree())
    assert loaded.update == 2
    assert "Restored" in loaded.messages[0]
    assert load_checkpoint(two, small_tree()).messages == []


def test_leftovers_that_cannot_be_removed_do_not_prevent_loading(tmp_path, monkeypatch):
    save_checkpoint(tmp_path, 1, small_tree(), {})
    (tmp_path / ".update-00000002.1a2b.tmp").mkdir()

    def read_only(*_):
        raise PermissionError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("shutil.rmtree", read_only)
    assert "Read-only" in load_checkpoint(tmp_path, small_tree()).messages[0]


def test_a_reader_does_not_remove_the_folder_of_a_running_save(two, monkeypatch):
    fsync, messages = os.fsync, []

    def load_during_fsync(descriptor):
        fsync(descriptor)
        messages.append(load_checkpoint(two, small_tree()).messages)

    monkeypatch.setattr("os.fsync", load_during_fsync)
    save_checkpoint(two, 3, small_tree(3), {})
    assert len(messages) >= 4
    assert not any(messages)
    monkeypatch.undo()
    assert load_checkpoint(two, small_tree()).update == 3


def test_files_are_flushed_before_the_rename_and_the_rename_before_a_deletion(tmp_path, monkeypatch):
    save_checkpoint(tmp_path, 1, small_tree(), {})
    events = []
    fsync, rename, rmtree = os.fsync, os.rename, shutil.rmtree

    def record(event, action):
        def recorded(*arguments, **options):
            events.append(event(*arguments))
            return action(*arguments, **options)

        return recorded

    monkeypatch.setattr(
        "os.fsync", record(lambda file: Path(os.readlink(f"/proc/self/fd/{file}")).name, fsync)
    )
    monkeypatch.setattr("os.rename", record(lambda _, to: f"rename to {to.name[:16]}", rename))
    monkeypatch.setattr("shutil.rmtree", record(lambda path: f"delete {path.name[:16]}", rmtree))
    save_checkpoint(tmp_path, 2, small_tree(), {}, keep=1)
    assert events[:2] == ["arrays.safetensors", "manifest.json"]
    assert events[2].startswith(".update-00000002")
    assert events[3:5] == ["rename to update-00000002", tmp_path.name]
    assert events[-1] == "delete .update-00000001"


# Full disks


@pytest.mark.parametrize("update", [2, 3])
@pytest.mark.parametrize("call", ["os.fsync", "os.rename"])
def test_a_failing_system_call_raises_and_keeps_earlier_checkpoints(two, monkeypatch, call, update):
    original, calls = getattr(os, call.removeprefix("os.")), []
    for successes in range(4):
        calls.clear()

        def fails_later(*arguments, successes=successes):
            calls.append(arguments)
            # Fails only once, because renaming the old checkpoint back needs no space.
            if len(calls) == successes + 1:
                raise OSError(errno.ENOSPC, "No space left on device")
            return original(*arguments)

        monkeypatch.setattr(call, fails_later)
        try:
            save_checkpoint(two, update, small_tree(update), {})
            failed = False
        except OSError as error:
            failed = error.errno == errno.ENOSPC
        monkeypatch.undo()
        assert failed == (len(calls) > successes)
        loaded = load_checkpoint(two, small_tree())
        assert not any("damaged" in message for message in loaded.messages)
        assert_same(loaded.tree, small_tree(loaded.update))
        assert loaded.update in (2, update)
        assert all(path.name.startswith("update-") for path in two.iterdir())


@pytest.mark.fault(12)
def test_an_incomplete_write_keeps_earlier_checkpoints(two):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    tree = small_tree(3) | {"large": jnp.zeros(10_000)}
    resource.setrlimit(resource.RLIMIT_FSIZE, (8_192, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            save_checkpoint(two, 3, tree, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert names_in(two) == ["update-00000001", "update-00000002"]
    assert load_checkpoint(two, small_tree()).update == 2


@pytest.mark.fault(12, times=3)
def test_a_full_disk_keeps_the_old_checkpoint_and_later_saves_succeed(tmp_path):
    with mounted(tmp_path, "size=64k"):
        save_checkpoint(tmp_path, 1, small_tree(1), {})
        for update in (1, 2, 3):
            with pytest.raises(OSError, match="No space left"):
                save_checkpoint(tmp_path, update, {"a": np.zeros(100_000, np.uint8)}, {}, keep=1)
        assert names_in(tmp_path) == ["update-00000001"]
        assert_same(load_checkpoint(tmp_path, small_tree()).tree, small_tree(1))
        save_checkpoint(tmp_path, 4, small_tree(4), {}, keep=1)
        assert load_checkpoint(tmp_path, small_tree()).update == 4


# Killed processes

NUM_KILLS = 40
SAVE_UNTIL_KILLED = """
import os, sys, time
import numpy as np
from pathlib import Path
from gemax.runs.checkpoints import save_checkpoint

fsync = os.fsync

def save_for_ever(folder, first, step, pause):
    def slow_fsync(descriptor):
        time.sleep(pause)
        fsync(descriptor)
    os.fsync = slow_fsync
    done = open(folder.with_suffix(".done"), "a", buffering=1)
    update = count = first
    while True:
        count += 1
        update += step
        tree = {"a": np.full(20_000, count), "b": np.array(count)}
        save_checkpoint(folder, update, tree, {"count": count, "update": update}, keep=2)
        print(count, file=done)

for line in sys.stdin:
    folder, first, step, pause = line.rsplit(maxsplit=3)
    child = os.fork()  # saves importing again; JAX has not started any threads yet
    if child == 0:
        save_for_ever(Path(folder), int(first), int(step), float(pause))
    print(child, flush=True)
    os.waitpid(child, 0)
    print("dead", flush=True)
"""


@pytest.fixture(scope="module")
def launcher():
    """Starts a process that forks children which save checkpoints until they are killed."""
    command = [sys.executable, "-W", "ignore", "-c", SAVE_UNTIL_KILLED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.stdin.close()
        process.wait(timeout=10)


def read_lines(path):
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize("step", [1, 0], ids=["new updates", "the same update repeatedly"])
@pytest.mark.fault(1, times=NUM_KILLS)
def test_a_killed_process_leaves_its_newest_complete_checkpoint(tmp_path, launcher, step):
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    done = folder.with_suffix(".done")
    like = {"a": jax.ShapeDtypeStruct((20_000,), np.int64), "b": jax.ShapeDtypeStruct((), np.int64)}
    rng = random.Random(step)
    count, messages = 0, []
    for attempt in range(NUM_KILLS):
        pause = 0.004 if attempt % 4 == 3 else 0.0
        print(f"{folder} {count} {step} {pause}", file=launcher.stdin, flush=True)
        child = int(launcher.stdout.readline())
        while not (lines := read_lines(done)) or int(lines[-1]) <= count:
            time.sleep(0.001)
        time.sleep(rng.uniform(0.0, 0.1))
        os.kill(child, signal.SIGKILL)
        assert launcher.stdout.readline() == "dead\n"
        loaded = load_checkpoint(folder, like)
        messages += loaded.messages
        finished, count = int(read_lines(done)[-1]), loaded.metadata["count"]
        # The last save reported as finished is there, or the one after it.
        assert finished <= count <= finished + 1
        assert loaded.update == loaded.metadata["update"]
        assert (loaded.tree["a"] == count).all()
        assert loaded.tree["b"] == count
        assert all(name.startswith("update-") for name in names_in(folder))
    assert not any("damaged" in message for message in messages)
    assert messages, "no kill interrupted a save, so the test has shown nothing"
