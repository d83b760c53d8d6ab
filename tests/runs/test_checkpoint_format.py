"""A tree of arrays is restored bit for bit, and a checkpoint of another tree is refused."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.runs.trees import assert_same, small_tree

from gemax.errors import CheckpointError
from gemax.runs.checkpoints import load_arrays, load_checkpoint, save_checkpoint


class Inner(NamedTuple):
    weights: Any
    nothing: Any
    layers: Any


class Outer(NamedTuple):
    update: Any
    inner: Inner
    table: dict[str, Any]


def difficult_tree():
    special = np.array([np.nan, -np.nan, np.inf, -0.0, 1e-45], np.float32)
    return Outer(
        update=jnp.int32(7),
        inner=Inner(
            weights={"kernel": jnp.arange(6.0).reshape(2, 3), "bias": jnp.asarray(special)},
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


# Round trips


def test_a_difficult_tree_is_restored_bit_for_bit(tmp_path):
    tree = difficult_tree()
    metadata = {"seconds": 1.25, "versions": {"jax": "0"}, "µ": [None, True, 10**20]}
    path = save_checkpoint(tmp_path / "folder", 7, tree, metadata)
    loaded = load_checkpoint(tmp_path / "folder", tree)
    assert (loaded.update, loaded.metadata, loaded.messages) == (7, metadata, [])
    assert path.name == "update-00000007"
    assert_same(loaded.tree, tree)


DTYPES = (bool, "i1", "u1", "<i4", ">i4", "u4", "i8", "f2", "<f4", ">f4", "f8", "c8", ml_dtypes.bfloat16)


@st.composite
def arrays(draw):
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    size = int(np.prod(shape))
    if dtype.kind == "b":
        return np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), bool).reshape(shape)
    # Arbitrary bits, including denormals, negative zeros and NaNs with a payload.
    content = draw(st.binary(min_size=size * dtype.itemsize, max_size=size * dtype.itemsize))
    return np.frombuffer(content, dtype).reshape(shape)


TREES = st.recursive(
    arrays() | st.none(),
    lambda children: (
        st.dictionaries(st.text(max_size=4), children, max_size=3)
        | st.lists(children, max_size=3)
        | st.tuples(children, children)
        | st.builds(Inner, children, children, children)
    ),
    max_leaves=6,
)


@given(tree=TREES)
def test_any_tree_is_restored_bit_for_bit(tmp_path_factory, tree):
    folder = tmp_path_factory.mktemp("any")
    save_checkpoint(folder, 5, tree, {})
    loaded = load_checkpoint(folder, tree).tree
    assert_same(loaded, jax.tree.map(lambda leaf: leaf.astype(leaf.dtype.newbyteorder("=")), tree))


@given(content=st.binary(min_size=8, max_size=8))
def test_jax_arrays_keep_the_bits_of_nan(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("bits")
    tree = jnp.array(np.frombuffer(content, np.float32))
    save_checkpoint(folder, 5, tree, {})
    assert np.asarray(load_checkpoint(folder, tree).tree).tobytes() == content


@pytest.mark.parametrize("value", [0.1, 3, -0.0, 1j])
@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_weak_types_stay_weak(tmp_path, value, shape):
    tree = jnp.full(shape, value)
    save_checkpoint(tmp_path, 1, tree, {})
    for like in (tree, jax.eval_shape(lambda: tree)):
        loaded = load_checkpoint(tmp_path, like).tree
        assert loaded.weak_type
        assert_same(loaded, tree)


def test_64_bits_are_kept_even_if_jax_uses_32(tmp_path):
    save_checkpoint(tmp_path, 1, np.array([2**60 + 1], np.int64), {})
    assert load_checkpoint(tmp_path, jax.ShapeDtypeStruct((1,), np.int64)).tree[0] == 2**60 + 1


def test_a_tree_can_be_loaded_from_its_shapes_alone(tmp_path):
    save_checkpoint(tmp_path, 0, small_tree(3), {})
    loaded = load_checkpoint(tmp_path, jax.eval_shape(lambda: small_tree(3)))
    assert_same(loaded.tree, small_tree(3))


def test_arrays_can_be_loaded_by_name_without_a_tree(tmp_path):
    save_checkpoint(tmp_path, 4, small_tree(3), {})
    loaded = load_arrays(tmp_path)
    assert loaded.update == 4
    np.testing.assert_array_equal(loaded.tree["['weights']"], small_tree(3)["weights"])


def test_a_restored_key_gives_the_same_random_numbers(tmp_path):
    save_checkpoint(tmp_path, 0, small_tree(2), {})
    loaded = load_checkpoint(tmp_path, small_tree())
    np.testing.assert_array_equal(
        jax.random.normal(loaded.tree["key"], 4), jax.random.normal(jax.random.key(2), 4)
    )


def test_a_single_array_is_a_tree(tmp_path):
    save_checkpoint(tmp_path, 0, jnp.arange(3), {})
    assert_same(load_checkpoint(tmp_path, jnp.arange(3)).tree, jnp.arange(3))


# Trees and metadata that cannot be saved


def test_a_leaf_that_is_not_an_array_is_refused_by_name_before_anything_is_written(tmp_path):
    with pytest.raises(TypeError, match=r"\['steps'\] is a int"):
        save_checkpoint(tmp_path, 0, {"steps": 3}, {})
    assert list(tmp_path.iterdir()) == []


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
def test_unsupported_dtypes_are_refused_before_anything_is_written(tmp_path, array):
    with pytest.raises(TypeError, match="cannot hold"):
        save_checkpoint(tmp_path, 1, {"a": array}, {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("metadata", [{"a": np.ones(2)}, {"a": float("nan")}, {1: "a", "1": "b"}])
def test_metadata_that_json_cannot_represent_is_refused_before_anything_is_written(tmp_path, metadata):
    with pytest.raises((TypeError, ValueError)):
        save_checkpoint(tmp_path, 1, small_tree(), metadata)
    assert list(tmp_path.iterdir()) == []


# Other trees


@pytest.mark.fault(7)
def test_a_tree_with_other_shapes_or_leaves_is_refused_by_name(tmp_path):
    save_checkpoint(tmp_path, 0, small_tree(), {})
    like = small_tree() | {
        "weights": jnp.zeros((4, 4)),
        "bias": jnp.zeros(2),
        "key": jax.random.key(0, impl="rbg"),
    }
    del like["update"]
    with pytest.raises(CheckpointError, match="does not fit this run") as caught:
        load_checkpoint(tmp_path, like)
    assert sorted(str(caught.value).splitlines()[1:]) == [
        "  ['bias']: missing in the checkpoint, float32[2] in this run",
        "  ['key']: key<fry>[] in the checkpoint, key<rbg>[] in this run",
        "  ['update']: int32[] in the checkpoint, missing in this run",
        "  ['weights']: float32[16] in the checkpoint, float32[4, 4] in this run",
    ]


@pytest.mark.fault(7)
def test_a_tree_with_another_dtype_is_refused(tmp_path):
    save_checkpoint(tmp_path, 0, small_tree(), {})
    like = small_tree() | {"weights": jnp.zeros(16, jnp.bfloat16)}
    with pytest.raises(CheckpointError, match=r"float32\[16\] in the checkpoint, bfloat16\[16\] in this run"):
        load_checkpoint(tmp_path, like)


def test_a_long_list_of_differences_is_shortened(tmp_path):
    save_checkpoint(tmp_path, 0, {f"a{index}": jnp.zeros(1) for index in range(50)}, {})
    with pytest.raises(CheckpointError, match="and 30 more"):
        load_checkpoint(tmp_path, {f"a{index}": jnp.zeros(2) for index in range(50)})
