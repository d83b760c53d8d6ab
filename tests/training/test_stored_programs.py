from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemax.envs.gridworld import two_rooms
from gemax.settings import PROGRAM_FOLDER
from gemax.training import stored_programs
from gemax.training.assemble import CustomParts, assemble
from gemax.training.loop import initial_states, train
from gemax.training.presets import configure
from gemax.training.state import ActorState, TrainState
from gemax.training.stored_programs import load_or_compile

SIZES = {
    "updates": 4, "updates_per_call": 2, "num_envs": 8, "unroll_length": 3, "unroll_period": 3, "lstm_size": 4,
    "torso_size": 8, "head_size": 4,
}  # fmt: skip


class Foreign(NamedTuple):
    value: jax.Array


@pytest.fixture(autouse=True)
def jax_stores_nothing():
    """A program that JAX reads from its own cache is not stored again."""
    name = "jax_persistent_cache_min_compile_time_secs"
    before = getattr(jax.config, name)
    jax.config.update(name, float("inf"))
    yield
    jax.config.update(name, before)


def counted(traced: list[str], add: float = 1.0):
    """Returns a jitted function that notes when it is traced."""

    def function(tree):
        traced.append("traced")
        return {"key": jax.random.split(tree["key"])[0], "x": [tree["x"] + add, (None, jnp.zeros(3))]}

    return jax.jit(function, donate_argnums=0, keep_unused=True)


def example():
    return {"key": jax.random.key(3), "x": jnp.arange(4.0), "unused": jnp.zeros(3)}


def equal(left, right) -> bool:
    """Whether two trees are equal in structure, types and every bit."""

    def bits(leaf):
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return str(leaf.dtype), np.asarray(jax.random.key_data(leaf) if is_key else leaf).tobytes()

    left_leaves, left_tree = jax.tree.flatten(left)
    right_leaves, right_tree = jax.tree.flatten(right)
    return left_tree == right_tree and [*map(bits, left_leaves)] == [*map(bits, right_leaves)]


def test_a_stored_program_is_not_traced_and_gives_the_same_bits(tmp_path):
    traced: list[str] = []
    first = load_or_compile(tmp_path, "f", 1, counted(traced), example())(example())
    assert traced == ["traced"]
    second = load_or_compile(tmp_path, "f", 1, counted(traced), example())(example())
    assert traced == ["traced"]
    assert equal(first, second)
    assert equal(first, counted([])(example()))


def test_a_stored_program_takes_the_memory_of_its_arguments(tmp_path):
    load_or_compile(tmp_path, "f", 1, counted([]), example())
    argument = example()
    load_or_compile(tmp_path, "f", 1, counted([]), argument)(argument)
    assert argument["x"].is_deleted()


def test_other_settings_arguments_and_sources_are_other_programs(tmp_path, monkeypatch):
    def is_traced(made_from=1, argument=None):
        traced: list[str] = []
        load_or_compile(tmp_path, "f", made_from, counted(traced), argument or example())
        return bool(traced)

    assert is_traced()
    assert not is_traced()
    assert is_traced(made_from=2)
    assert is_traced(argument=example() | {"x": jnp.arange(5.0)})
    assert not is_traced(argument=example() | {"x": jnp.arange(5.0)})
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false")
    assert is_traced()
    monkeypatch.undo()
    monkeypatch.setattr(stored_programs, "source_digest", lambda: "another")
    assert is_traced()


def test_a_change_of_the_source_that_does_not_change_the_program_compiles_nothing(tmp_path):
    load_or_compile(tmp_path, "f", "source", counted([]), example())
    files = set(tmp_path.iterdir())
    program = load_or_compile(tmp_path, "f", "changed source", counted([]), example())
    assert not isinstance(program, jax.stages.Compiled)
    assert len(set(tmp_path.iterdir()) - files) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-9],
        lambda data: b"",
        lambda data: data[:200] + b"?" + data[201:],
        lambda data: b"x" * 99,
    ],
)
def test_a_damaged_file_is_ignored_and_replaced(tmp_path, damage):
    expected = load_or_compile(tmp_path, "f", 1, counted([]), example())(example())
    for file in tmp_path.iterdir():
        file.write_bytes(damage(file.read_bytes()))
    traced: list[str] = []
    assert equal(load_or_compile(tmp_path, "f", 1, counted(traced), example())(example()), expected)
    assert traced
    load_or_compile(tmp_path, "f", 1, counted(traced), example())
    assert len(traced) == 1


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    program = load_or_compile(tmp_path / "missing", "f", 1, counted([]), example())
    assert equal(program(example()), counted([])(example()))


def test_results_of_foreign_types_are_not_stored(tmp_path):
    function = jax.jit(lambda x: Foreign(x + 1), keep_unused=True)
    assert isinstance(load_or_compile(tmp_path, "f", 1, function, jnp.zeros(2))(jnp.zeros(2)), Foreign)
    assert not [*tmp_path.iterdir()]


def test_programs_that_call_python_are_not_stored(tmp_path):
    def double(x):
        return jax.pure_callback(lambda x: 2 * x, jax.ShapeDtypeStruct((2,), jnp.float32), x)

    load_or_compile(tmp_path, "f", 1, jax.jit(double, keep_unused=True), jnp.ones(2))
    assert not [*tmp_path.iterdir()]


def test_what_jax_has_read_from_its_own_cache_is_not_stored(tmp_path, monkeypatch):
    function = jax.jit(lambda x: x + 1, keep_unused=True)
    lowered = function.lower(jnp.zeros(2))

    def read_from_cache():
        jax.monitoring.record_event("/jax/compilation_cache/cache_hits")
        return lowered.compile()

    class FromCache:
        out_info, as_text, compile = lowered.out_info, lowered.as_text, staticmethod(read_from_cache)

    class Jitted:
        lower = staticmethod(lambda *_: FromCache)

    load_or_compile(tmp_path, "f", 1, Jitted, jnp.zeros(2))
    assert not [*tmp_path.iterdir()]


def test_nan_checks_of_jax_see_every_call(tmp_path):
    with jax.debug_nans(True):
        function = counted([])
        assert load_or_compile(tmp_path, "f", 1, function, example()) is function


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "none"},
        pytest.param({"method": "gem"}, marks=pytest.mark.slow),
        pytest.param({"method": "e3b"}, marks=pytest.mark.slow),
        pytest.param({"method": "none", "seeds": 2}, marks=pytest.mark.slow),
    ],
)
def test_a_run_with_stored_programs_is_the_same_bit_for_bit(tmp_path, monkeypatch, settings):
    def whole_run():
        trainer = assemble(configure("two-rooms", **SIZES, **settings))
        state = initial_states(trainer)
        assert isinstance(state, TrainState)
        assert isinstance(state.actor, ActorState)
        yield jax.tree.map(jnp.copy, state)
        for state, metrics in train(trainer, state):  # noqa: B020
            yield jax.tree.map(jnp.copy, state), [jnp.asarray([*line.values()]) for line in metrics]

    traced = [*whole_run()]
    monkeypatch.setenv(PROGRAM_FOLDER, str(tmp_path))
    stored = [*whole_run()]
    assert {file.name.rpartition("-")[0] for file in tmp_path.iterdir()} == {"initial-state", "updates-2"}
    times = {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    read = [*whole_run()]
    assert {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()} == times
    assert equal(traced, stored)
    assert equal(traced, read)


def test_runs_with_code_of_the_user_store_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv(PROGRAM_FOLDER, str(tmp_path))
    config = configure("two-rooms", **SIZES)
    assert assemble(config).program_folder == tmp_path
    own = CustomParts(similarity=lambda x, y: jnp.exp(-jnp.abs(x[:, :1] - y[:, 0][None])))
    assert assemble(config.replace(similarity="custom"), own).program_folder is None
    custom = configure("jax:<custom>", **SIZES)
    assert assemble(custom, CustomParts(make_env=two_rooms)).program_folder is None


def test_an_equal_program_with_another_structure_of_results_is_another_one(tmp_path):
    as_list, as_tuple = (
        jax.jit(lambda x, kind=kind: kind([x, x + 1]), keep_unused=True) for kind in (list, tuple)
    )
    x = jnp.arange(3.0)
    assert isinstance(load_or_compile(tmp_path, "f", 1, as_list, x)(x), list)
    # Other settings, so that the program is found by its text.
    assert isinstance(load_or_compile(tmp_path, "f", 2, as_tuple, x)(x), tuple)
    assert isinstance(load_or_compile(tmp_path, "f", 2, as_tuple, x)(x), tuple)


def test_nothing_is_stored_if_the_source_changed_after_it_was_imported(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_programs, "_IMPORTED_AT", 0.0)
    stored_programs.source_digest.cache_clear()
    try:
        load_or_compile(tmp_path, "f", 1, counted([]), example())(example())
    finally:
        stored_programs.source_digest.cache_clear()
    assert not any(tmp_path.iterdir())


def test_the_number_of_cores_is_part_of_the_key(tmp_path, monkeypatch):
    traced: list[str] = []
    for cores in ({0}, {0, 1}, {0}):
        monkeypatch.setattr(
            stored_programs.os, "sched_getaffinity", lambda pid, cores=cores: cores, raising=False
        )
        load_or_compile(tmp_path, "f", 1, counted(traced), example())
    assert len(traced) == 2


def test_settings_may_be_numbers_of_numpy(tmp_path):
    traced: list[str] = []
    for value in (np.int64(8), 8):
        load_or_compile(tmp_path, "f", {"num_envs": value}, counted(traced), example())
    assert traced == ["traced"]


def test_a_stored_program_checks_its_arguments_and_takes_those_of_numpy(tmp_path):
    double = jax.jit(lambda x: 2 * x, keep_unused=True)
    x = np.arange(3, dtype=np.float32)
    load_or_compile(tmp_path, "f", 1, double, x)
    loaded = load_or_compile(tmp_path, "f", 1, double, x)
    np.testing.assert_array_equal(loaded(x), [0.0, 2.0, 4.0])
    with pytest.raises(TypeError, match="other arguments"):
        loaded(np.arange(3, dtype=np.int32))


def test_a_write_that_fails_leaves_no_temporary_file(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError):
        stored_programs._write(tmp_path / "taken", b"content")
    assert [file.name for file in tmp_path.iterdir()] == ["taken"]
