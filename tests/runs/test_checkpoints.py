import errno
import hashlib
import json
import os
import pickle
import random
import resource
import signal
import subprocess
import sys
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gemax
from gemax.runs.checkpoints import ARRAYS, FORMAT, MANIFEST, CheckpointError, load_checkpoint, save_checkpoint


class Inner(NamedTuple):
    weights: Any
    nothing: None
    layers: tuple[Any, ...]


class Outer(NamedTuple):
    update: Any
    inner: Inner
    table: dict[str, Any]


def nasty_tree():
    strange = np.array([np.nan, -np.nan, np.inf, -0.0, 1e-45], np.float32)
    return Outer(
        update=jnp.int32(7),
        inner=Inner(
            weights={"kernel": jnp.arange(6.0).reshape(2, 3), "bias": jnp.asarray(strange)},
            nothing=None,
            layers=(jnp.array([True, False]), [jnp.uint32(2**32 - 1)], (), {}),
        ),
        table={
            "a.b['c']": jnp.array([1.5, jnp.nan, -0.0], jnp.bfloat16),
            "µ/σ": jnp.array(-3, jnp.int8),
            "empty": jnp.zeros((0, 3)),
            "key": jax.random.key(3),
            "keys": jax.random.split(jax.random.key(4), 5),
            "rbg": jax.random.key(5, impl="rbg"),
            "weak": jnp.asarray(2.0),
            "half": jnp.float16(0.1),
            "numpy": np.array([2**40, -1]),
            "double": np.float64(np.pi),
            "transposed": np.arange(6).reshape(2, 3).T,
        },
    )


def small_tree(value):
    return {
        "weights": jnp.full(16, value, jnp.float32),
        "update": jnp.int32(value),
        "key": jax.random.key(value),
    }


def bits(leaf):
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf).tobytes()


def assert_same(tree, other):
    assert jax.tree.structure(tree) == jax.tree.structure(other)
    for leaf, other_leaf in zip(jax.tree.leaves(tree), jax.tree.leaves(other), strict=True):
        assert (leaf.shape, leaf.dtype, bits(leaf)) == (other_leaf.shape, other_leaf.dtype, bits(other_leaf))
        assert getattr(leaf, "weak_type", False) == getattr(other_leaf, "weak_type", False)


def path_of(folder, update):
    return folder / f"update-{update:08d}"


def rewrite_manifest(path, **changes):
    """As an attacker or a later version would: with a seal that fits."""
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
    """A folder with the checkpoints of updates 1 and 2."""
    for update in (1, 2):
        save_checkpoint(tmp_path, update, small_tree(update), {"seconds": float(update)})
    return tmp_path


# Round trips


def test_a_nasty_tree_comes_back_bit_for_bit(tmp_path):
    tree = nasty_tree()
    facts = {"seconds": 1.25, "versions": {"jax": "0"}, "µ": [None, True, 10**20]}
    path = save_checkpoint(tmp_path / "made" / "here", 7, tree, facts)
    loaded = load_checkpoint(tmp_path / "made" / "here", tree)
    assert (loaded.update, loaded.facts, loaded.messages) == (7, facts, [])
    assert path.name == "update-00000007"
    assert_same(loaded.tree, tree)


def test_a_tree_can_be_loaded_from_its_shapes_alone(tmp_path):
    tree = small_tree(3)
    save_checkpoint(tmp_path, 0, tree, {})
    loaded = load_checkpoint(tmp_path, jax.eval_shape(lambda: small_tree(3)))
    assert_same(loaded.tree, tree)


def test_a_restored_key_draws_what_the_saved_one_would_have_drawn(two):
    loaded = load_checkpoint(two, small_tree(0))
    np.testing.assert_array_equal(
        jax.random.normal(loaded.tree["key"], 4), jax.random.normal(jax.random.key(2), 4)
    )


def test_a_single_array_is_a_tree_too(tmp_path):
    save_checkpoint(tmp_path, 0, jnp.arange(3), {})
    assert_same(load_checkpoint(tmp_path, jnp.arange(3)).tree, jnp.arange(3))


def test_what_is_not_an_array_is_refused_by_name_before_anything_is_written(tmp_path):
    with pytest.raises(TypeError, match=r"\['steps'\] is a int"):
        save_checkpoint(tmp_path, 0, {"steps": 3}, {})
    with pytest.raises(TypeError, match="object"):
        save_checkpoint(tmp_path, 0, {"things": np.array([{}], object)}, {})
    with pytest.raises(ValueError, match=r"not JSON compliant|Out of range"):
        save_checkpoint(tmp_path, 0, small_tree(0), {"seconds": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_only_the_newest_checkpoints_stay(tmp_path):
    for update in range(0, 50, 10):
        save_checkpoint(tmp_path, update, small_tree(update), {}, keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["update-00000030", "update-00000040"]


def test_a_checkpoint_of_the_same_update_is_replaced(two):
    save_checkpoint(two, 2, small_tree(99), {"seconds": 3.0})
    loaded = load_checkpoint(two, small_tree(0))
    assert_same(loaded.tree, small_tree(99))
    assert loaded.facts == {"seconds": 3.0}
    assert sorted(path.name for path in two.iterdir()) == ["update-00000001", "update-00000002"]


def test_after_a_fall_back_new_checkpoints_are_not_deleted_in_favour_of_later_damaged_ones(two):
    for update in (8, 9):
        path_of(two, update).mkdir()
        (path_of(two, update) / MANIFEST).write_text("damaged")
    save_checkpoint(two, 3, small_tree(3), {}, keep=1)
    assert load_checkpoint(two, small_tree(0)).update == 3


# Damage


def assert_falls_back(folder):
    loaded = load_checkpoint(folder, small_tree(0))
    assert loaded.update == 1
    assert_same(loaded.tree, small_tree(1))
    (message,) = loaded.messages
    assert "update 2" in message
    assert str(path_of(folder, 2)) in message


@pytest.mark.parametrize("name", [ARRAYS, MANIFEST])
def test_no_single_flipped_bit_is_ever_loaded(two, name):
    path = path_of(two, 2) / name
    whole = path.read_bytes()
    dice = random.Random(0)
    for position in dice.sample(range(8 * len(whole)), 60):
        damaged = bytearray(whole)
        damaged[position // 8] ^= 1 << position % 8
        path.write_bytes(damaged)
        assert_falls_back(two)
    path.write_bytes(whole)
    assert load_checkpoint(two, small_tree(0)).update == 2


@pytest.mark.parametrize("name", [ARRAYS, MANIFEST])
def test_a_file_of_another_length_is_never_loaded(two, name):
    path = path_of(two, 2) / name
    whole = path.read_bytes()
    for length in (0, 1, 7, 8, 9, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert_falls_back(two)
    for longer in (whole + b"\0", whole + b"\n", whole * 2):
        path.write_bytes(longer)
        assert_falls_back(two)


@pytest.mark.parametrize("name", [ARRAYS, MANIFEST])
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
    assert "update 5" in load_checkpoint(two, small_tree(0)).messages[0]


def test_empty_folders_and_foreign_files_are_ignored(two):
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
    loaded = load_checkpoint(two, small_tree(0))
    assert (loaded.update, loaded.messages) == (2, [])
    save_checkpoint(two, 12, small_tree(12), {}, keep=1)
    assert (two / "update-best").read_text() == "foreign"
    assert path_of(two, 10).read_text() == "a file"


def test_if_all_are_damaged_each_is_listed_with_its_reason(two):
    (path_of(two, 1) / ARRAYS).unlink()
    (path_of(two, 2) / MANIFEST).write_bytes(b"")
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(two, small_tree(0))
    assert f"update 1: {path_of(two, 1)}: {ARRAYS} is missing" in str(caught.value)
    assert f"update 2: {path_of(two, 2)}: {MANIFEST} is not as it was written" in str(caught.value)
    assert caught.value.exit_code == 4


def test_where_there_is_none_the_folder_is_named(tmp_path):
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(CheckpointError, match=f"There is no checkpoint in {folder}"):
            load_checkpoint(folder, small_tree(0))


# Other versions and other trees


def test_a_newer_format_is_refused_with_both_versions(two):
    rewrite_manifest(path_of(two, 2), format=FORMAT + 1, gemax="99.0")
    with pytest.raises(CheckpointError, match=rf"written by version 99\.0 .* this is {gemax.__version__}"):
        load_checkpoint(two, small_tree(0))


def test_a_tree_of_other_shapes_or_leaves_is_refused_by_name(two):
    like = small_tree(0) | {
        "weights": jnp.zeros((4, 4)),
        "bias": jnp.zeros(2),
        "key": jax.random.key(0, impl="rbg"),
    }
    del like["update"]
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(two, like)
    rows = [line.split() for line in str(caught.value).splitlines()[2:]]
    assert ["['bias']", "missing", "float32[2]"] in rows
    assert ["['weights']", "float32[16]", "float32[4,", "4]"] in rows
    assert ["['update']", "int32[]", "missing"] in rows
    assert ["['key']", "key<fry>[]", "key<rbg>[]"] in rows


def test_a_tree_of_another_dtype_is_refused(two):
    like = small_tree(0) | {"weights": jnp.zeros(16, jnp.bfloat16)}
    with pytest.raises(CheckpointError, match=r"float32\[16\] +bfloat16\[16\]"):
        load_checkpoint(two, like)


def test_a_long_table_of_differences_is_cut(tmp_path):
    save_checkpoint(tmp_path, 0, {f"a{number}": jnp.zeros(1) for number in range(50)}, {})
    with pytest.raises(CheckpointError, match="and 30 more"):
        load_checkpoint(tmp_path, {f"a{number}": jnp.zeros(2) for number in range(50)})


# Interruptions


def test_leftovers_of_an_interrupted_save_are_removed_and_told(two):
    leftover = two / ".update-00000003.0a1b2c3d.tmp"
    leftover.mkdir()
    (leftover / ARRAYS).write_bytes(b"half")
    loaded = load_checkpoint(two, small_tree(0))
    assert loaded.update == 2
    assert [str(leftover) in message for message in loaded.messages] == [True]
    assert not leftover.exists()


def test_a_checkpoint_that_was_being_replaced_is_brought_back(two):
    path_of(two, 2).rename(two / ".update-00000002.replaced")
    loaded = load_checkpoint(two, small_tree(0))
    assert loaded.update == 2
    assert "Brought back" in loaded.messages[0]
    assert load_checkpoint(two, small_tree(0)).messages == []


def test_a_reader_does_not_tidy_away_what_a_writer_is_writing(two, monkeypatch):
    fsync, seen = os.fsync, []

    def look(descriptor):
        fsync(descriptor)
        seen.append(load_checkpoint(two, small_tree(0)).messages)

    monkeypatch.setattr("os.fsync", look)
    save_checkpoint(two, 3, small_tree(3), {})
    assert len(seen) >= 4
    assert not any(seen)
    monkeypatch.undo()
    assert load_checkpoint(two, small_tree(0)).update == 3


@pytest.mark.parametrize("update", [2, 3])
@pytest.mark.parametrize("call", ["os.fsync", "os.rename"])
def test_a_full_disk_is_told_and_costs_no_earlier_checkpoint(two, monkeypatch, call, update):
    original, calls = getattr(os, call.removeprefix("os.")), []
    for successes in range(4):
        calls.clear()

        def fails_later(*arguments, successes=successes):
            calls.append(arguments)
            # Once only, so that the way back is open: giving an old file its name takes no space.
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
        loaded = load_checkpoint(two, small_tree(0))
        assert not any("damaged" in message for message in loaded.messages)
        assert_same(loaded.tree, small_tree(loaded.update))
        assert loaded.update in (2, update)
        assert all(path.name.startswith("update-") for path in two.iterdir())


def test_a_write_that_stops_halfway_costs_no_earlier_checkpoint(two):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    tree = small_tree(3) | {"large": jnp.zeros(10_000)}
    resource.setrlimit(resource.RLIMIT_FSIZE, (8_192, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            save_checkpoint(two, 3, tree, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert sorted(path.name for path in two.iterdir()) == ["update-00000001", "update-00000002"]
    assert load_checkpoint(two, small_tree(0)).update == 2


SAVE_FOR_EVER = """
import itertools, os, sys, time
from pathlib import Path
import numpy as np
from gemax.runs.checkpoints import save_checkpoint

folder, first, pause = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
fsync = os.fsync
def slow_fsync(descriptor):
    time.sleep(pause)
    fsync(descriptor)
os.fsync = slow_fsync
for update in itertools.count(first):
    for attempt in range(2):
        value = np.int32(2 * update + attempt)
        tree = {"a": np.full(50_000, value), "b": value}
        save_checkpoint(folder, update, tree, {"value": int(value)}, keep=2)
        print(update, attempt, flush=True)
"""


def test_a_kill_at_any_moment_leaves_the_newest_complete_checkpoint(tmp_path):
    folder, dice, first = tmp_path / "checkpoints", random.Random(1), 0
    like = {"a": np.zeros(50_000, np.int32), "b": np.int32(0)}
    started, cleared = time.monotonic(), 0
    for round_ in range(12):
        pause = "0.004" if round_ % 2 else "0"
        command = [sys.executable, "-c", SAVE_FOR_EVER, str(folder), str(first), pause]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            said = child.stdout.readline()
            time.sleep(dice.uniform(0.0, 0.1))
            child.send_signal(signal.SIGKILL)
            said += child.stdout.read()
        assert child.returncode == -signal.SIGKILL
        update, attempt = map(int, said[: said.rindex("\n")].splitlines()[-1].split())
        loaded = load_checkpoint(folder, like)
        # What was said to be saved is there, or something later.
        assert 2 * update + attempt <= loaded.facts["value"] <= 2 * update + attempt + 1
        assert loaded.update == loaded.facts["value"] // 2
        assert (loaded.tree["a"] == loaded.facts["value"]).all()
        assert loaded.tree["b"] == loaded.facts["value"]
        assert not any("damaged" in message for message in loaded.messages)
        assert all(path.name.startswith("update-") for path in folder.iterdir())
        cleared += len(loaded.messages)
        first = loaded.update + 1
    assert cleared > 0, "no kill hit a save: the test has lost its aim"
    assert time.monotonic() - started < 60


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


def test_the_bombs_of_these_tests_would_go_off(tmp_path):
    pickle.loads(bombs(tmp_path, tmp_path / "canary")[0])
    assert (tmp_path / "canary").exists()


def test_nothing_in_a_checkpoint_is_ever_executed(two, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("bombs")
    canary = elsewhere / "canary"
    path = path_of(two, 2)
    arrays, manifest = (path / ARRAYS).read_bytes(), (path / MANIFEST).read_bytes()
    for bomb in bombs(elsewhere, canary):
        for name, whole in ((ARRAYS, arrays), (MANIFEST, manifest)):
            (path / name).write_bytes(bomb)
            assert_falls_back(two)
            (path / name).write_bytes(whole)
        # The worst case: whoever placed it has made the checksums fit.
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
        {"leaves": {"['key']": {"shape": [], "dtype": "key<fry>", "generator": "os.system"}}},
        {"arrays": {"bytes": "many", "sha256": None}},
        {"arrays": None},
        {"format": "1"},
        {"format": None},
    ],
    ids=str,
)
def test_a_manifest_that_fits_its_seal_but_makes_no_sense_is_skipped(two, changes):
    rewrite_manifest(path_of(two, 2), **changes)
    assert_falls_back(two)


def test_a_manifest_that_is_nested_too_deeply_is_skipped(two):
    (path_of(two, 2) / MANIFEST).write_bytes(b"[" * 100_000)
    assert_falls_back(two)
