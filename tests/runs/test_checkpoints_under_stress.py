"""Checkpoints under stress: odd trees, links, the order of flushes, a disk that is really full, and kills."""

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gemax.runs.checkpoints import load_checkpoint, save_checkpoint


class Inner(NamedTuple):
    kernel: Any
    bias: Any


def small_tree(value: float = 1.0):
    return {"a": np.full((3, 4), value, np.float32), "b": np.array(value, np.float32)}


def assert_same_bits(one, two):
    assert jax.tree_util.tree_structure(one) == jax.tree_util.tree_structure(two)
    for left, right in zip(jax.tree_util.tree_leaves(one), jax.tree_util.tree_leaves(two), strict=True):
        assert (left.shape, left.dtype) == (right.shape, right.dtype)
        assert np.asarray(left).tobytes() == np.asarray(right).tobytes()


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


DTYPES = (bool, "i1", "u1", "<i4", ">i4", "u4", "i8", "f2", "<f4", ">f4", "f8", "c8", ml_dtypes.bfloat16)


@st.composite
def arrays(draw):
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    size = int(np.prod(shape))
    if dtype.kind == "b":
        return np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), bool).reshape(shape)
    # Any bits at all: denormals, negative zeros, NaNs with a payload.
    bits = draw(st.binary(min_size=size * dtype.itemsize, max_size=size * dtype.itemsize))
    return np.frombuffer(bits, dtype).reshape(shape)


TREES = st.recursive(
    arrays() | st.none(),
    lambda children: (
        st.dictionaries(st.text(max_size=4), children, max_size=3)
        | st.lists(children, max_size=3)
        | st.tuples(children, children)
        | st.builds(Inner, children, children)
    ),
    max_leaves=6,
)


@given(tree=TREES)
def test_any_tree_comes_back_bit_for_bit(tmp_path_factory, tree):
    folder = tmp_path_factory.mktemp("any")
    save_checkpoint(folder, 5, tree, {})
    loaded = load_checkpoint(folder, tree).tree
    assert_same_bits(loaded, jax.tree.map(lambda leaf: leaf.astype(leaf.dtype.newbyteorder("=")), tree))


@given(bits=st.binary(min_size=8, max_size=8))
def test_jax_arrays_keep_bits_that_are_no_numbers(tmp_path_factory, bits):
    folder = tmp_path_factory.mktemp("bits")
    tree = jnp.array(np.frombuffer(bits, np.float32))
    save_checkpoint(folder, 5, tree, {})
    assert np.asarray(load_checkpoint(folder, tree).tree).tobytes() == bits


@pytest.mark.parametrize("value", [0.1, 3, -0.0, 1j])
@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_weak_types_stay_weak_so_that_a_resumed_run_promotes_alike(tmp_path, value, shape):
    tree = jnp.full(shape, value)
    save_checkpoint(tmp_path, 1, tree, {})
    for like in (tree, jax.eval_shape(lambda: tree)):
        loaded = load_checkpoint(tmp_path, like).tree
        assert loaded.weak_type
        assert_same_bits(loaded, tree)


def test_64_bits_are_kept_even_where_jax_has_only_32(tmp_path):
    save_checkpoint(tmp_path, 1, np.array([2**60 + 1], np.int64), {})
    assert load_checkpoint(tmp_path, jax.ShapeDtypeStruct((1,), np.int64)).tree[0] == 2**60 + 1


@pytest.mark.parametrize(
    "array",
    [
        np.array([None]),
        np.array(["a"]),
        np.array(["2020"], "M8[s]"),
        np.zeros(2, "i4,f4"),
        np.zeros(2, "c16"),
    ],
)
def test_dtypes_without_a_place_in_a_checkpoint_are_refused(tmp_path, array):
    with pytest.raises(TypeError, match="cannot hold"):
        save_checkpoint(tmp_path, 1, {"a": array}, {})


@pytest.mark.parametrize("facts", [{"a": np.ones(2)}, {"a": float("nan")}, {1: "a", "1": "b"}])
def test_facts_that_json_cannot_say_are_refused_before_anything_is_written(tmp_path, facts):
    with pytest.raises((TypeError, ValueError)):
        save_checkpoint(tmp_path, 1, small_tree(), facts)
    assert names_in(tmp_path) == []


def test_files_reach_the_disk_before_the_name_and_the_name_before_a_deletion(tmp_path, monkeypatch):
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


def test_links_are_neither_read_nor_followed_nor_deleted_through(tmp_path):
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


def test_a_foreign_folder_is_never_overwritten(tmp_path):
    (tmp_path / "update-00000002").mkdir()
    (tmp_path / "update-00000002" / "mine").write_text("precious")
    with pytest.raises(OSError, match="not empty"):
        save_checkpoint(tmp_path, 2, small_tree(), {})
    assert (tmp_path / "update-00000002" / "mine").read_text() == "precious"
    assert names_in(tmp_path) == ["update-00000002"]


def test_leftovers_that_cannot_be_removed_do_not_keep_a_reader_from_loading(tmp_path, monkeypatch):
    save_checkpoint(tmp_path, 1, small_tree(), {})
    (tmp_path / ".update-00000002.1a2b.tmp").mkdir()

    def read_only(*_):
        raise PermissionError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("shutil.rmtree", read_only)
    assert "Read-only" in load_checkpoint(tmp_path, small_tree()).messages[0]


def test_files_of_absurd_size_are_not_read(tmp_path):
    save_checkpoint(tmp_path, 1, small_tree(), {})
    path = save_checkpoint(tmp_path, 2, small_tree(), {})
    os.truncate(path / "manifest.json", 10 * 2**30)
    os.truncate(path / "arrays.safetensors", 10 * 2**30)
    assert load_checkpoint(tmp_path, small_tree()).update == 1


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system of 64 kB, where that is allowed."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True, timeout=10).returncode:
        pytest.skip("mounting is not allowed here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True, timeout=10)


def test_a_full_disk_keeps_the_old_checkpoint_and_later_saves_succeed(tiny_disk):
    save_checkpoint(tiny_disk, 1, small_tree(1), {})
    for update in (1, 2, 3):
        with pytest.raises(OSError, match="No space left"):
            save_checkpoint(tiny_disk, update, {"a": np.zeros(100_000, np.uint8)}, {}, keep=1)
    assert names_in(tiny_disk) == ["update-00000001"]
    assert_same_bits(load_checkpoint(tiny_disk, small_tree()).tree, small_tree(1))
    save_checkpoint(tiny_disk, 4, small_tree(4), {}, keep=1)
    assert load_checkpoint(tiny_disk, small_tree()).update == 4


SAVE_UNTIL_KILLED = """
import os, sys
import numpy as np
from pathlib import Path
from gemax.runs.checkpoints import save_checkpoint

def save_for_ever(folder, first, step):
    done = open(folder.with_suffix(".done"), "a", buffering=1)
    update = count = first
    while True:
        count += 1
        update += step
        save_checkpoint(folder, update, {"a": np.full(20_000, count), "b": np.array(count)}, {"count": count}, keep=2)
        print(count, file=done)

for line in sys.stdin:
    folder, first, step = line.rsplit(maxsplit=2)
    child = os.fork()  # nothing of JAX has started yet, and the imports need not be paid for again
    if child == 0:
        save_for_ever(Path(folder), int(first), int(step))
    print(child, flush=True)
    os.waitpid(child, 0)
    print("dead", flush=True)
"""


@pytest.fixture(scope="module")
def nursery():
    """A process that starts others which save until they are killed."""
    command = [sys.executable, "-W", "ignore", "-c", SAVE_UNTIL_KILLED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.stdin.close()
        process.wait(timeout=10)


def read_lines(path):
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize("step", [1, 0], ids=["new updates", "the same update again and again"])
def test_a_killed_process_leaves_its_newest_complete_checkpoint(tmp_path, nursery, step):
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    done = folder.with_suffix(".done")
    like = {"a": jax.ShapeDtypeStruct((20_000,), np.int64), "b": jax.ShapeDtypeStruct((), np.int64)}
    moments = random.Random(step)
    count, messages = 0, []
    for _ in range(int(os.environ.get("ROUNDS", "30"))):
        print(f"{folder} {count} {step}", file=nursery.stdin, flush=True)
        child = int(nursery.stdout.readline())
        while not (lines := read_lines(done)) or int(lines[-1]) <= count:
            time.sleep(0.001)
        time.sleep(moments.uniform(0.0, 0.1))
        os.kill(child, signal.SIGKILL)
        assert nursery.stdout.readline() == "dead\n"
        loaded = load_checkpoint(folder, like)
        messages += loaded.messages
        finished, count = int(read_lines(done)[-1]), loaded.facts["count"]
        assert finished <= count <= finished + 1
        assert (loaded.tree["a"] == count).all()
        assert loaded.tree["b"] == count
        assert all(name.startswith("update-") for name in names_in(folder))
    assert not any("damaged" in message for message in messages)
    assert messages, "no kill came in the middle of a save: the test is too kind"
    brought = sum("Brought" in message for message in messages)
    print(
        f"kills {os.environ.get('ROUNDS', 30)}, leftovers {len(messages) - brought}, brought back {brought}"
    )
