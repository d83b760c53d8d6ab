"""Metrics are appended as complete lines, read back as written, and rewound on resuming."""

import errno
import math

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runs.disks import mounted

from gemax.runs.files import to_json
from gemax.runs.metrics_file import append_metrics, read_metrics, rewind_metrics


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.jsonl"


def test_metrics_are_one_object_per_line_with_null_for_non_finite_numbers(path):
    append_metrics(path, 1, {"loss": math.nan, "return": -math.inf, "update": 77, "note": "µ\n"})
    append_metrics(
        path, 2, {"loss": jnp.float32(0.5), "visits": np.array([1, 2]), "b": jnp.bfloat16(1.5), "n": None}
    )
    text = path.read_text()
    assert text.count("\n") == 2
    assert "NaN" not in text
    assert read_metrics(path) == [
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
def test_any_metrics_are_read_as_written(tmp_path_factory, metrics):
    path = tmp_path_factory.mktemp("any") / "metrics.jsonl"
    append_metrics(path, 3, metrics)
    append_metrics(path, 4, metrics)
    assert read_metrics(path) == [to_json({**metrics, "update": update}) for update in (3, 4)]


@pytest.mark.parametrize("value", [object(), {1, 2}, 1j, np.array([None]), np.array(["a"]), b"bytes"])
def test_values_that_json_cannot_represent_are_refused_and_leave_no_line(path, value):
    with pytest.raises(TypeError, match="Cannot convert"):
        append_metrics(path, 1, {"a": value})
    assert not path.exists()


def test_each_line_is_readable_at_once(path):
    for update in range(3):
        append_metrics(path, update, {})
        assert len(read_metrics(path)) == update + 1


def test_rewinding_removes_later_updates(path):
    for update in (10, 20, 30, 40):
        append_metrics(path, update, {"loss": 1 / 3})
    first_two = path.read_bytes().splitlines(keepends=True)[:2]
    assert rewind_metrics(path, 20) == []
    assert path.read_bytes() == b"".join(first_two)
    append_metrics(path, 30, {})
    assert [record["update"] for record in read_metrics(path)] == [10, 20, 30]


@pytest.mark.fault(16)
def test_an_incomplete_last_line_is_dropped_with_a_message(path):
    append_metrics(path, 1, {"loss": 0.5})
    first = path.read_bytes()
    append_metrics(path, 2, {"loss": 0.25})
    both = path.read_bytes()
    for length in range(len(first) + 1, len(both) - 1):
        path.write_bytes(both[:length])
        assert [record["update"] for record in read_metrics(path)] == [1]
        messages = rewind_metrics(path, 5)
        assert len(messages) == 1
        assert "line 2" in messages[0]
        assert path.read_bytes() == first


def test_a_last_line_without_a_newline_is_kept(path):
    append_metrics(path, 1, {})
    path.write_bytes(path.read_bytes()[:-1])
    assert rewind_metrics(path, 1) == []
    append_metrics(path, 2, {})
    assert [record["update"] for record in read_metrics(path)] == [1, 2]


@pytest.mark.parametrize("damage", [b"\0\0\0", b"[1]", b'{"loss": 1}', b"\xff", b"[" * 100_000])
@pytest.mark.fault(16)
def test_a_damaged_line_fails_reading_and_is_dropped_by_rewinding(path, damage):
    append_metrics(path, 1, {})
    with path.open("ab") as file:
        file.write(damage + b"\n")
    append_metrics(path, 3, {})
    with pytest.raises(ValueError, match=r"Line 2 of .*metrics\.jsonl is damaged"):
        read_metrics(path)
    assert len(rewind_metrics(path, 9)) == 1
    assert [record["update"] for record in read_metrics(path)] == [1, 3]


def test_an_interrupted_rewind_leaves_the_file_unchanged(path, monkeypatch):
    append_metrics(path, 1, {})
    append_metrics(path, 2, {})

    def no_space(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", no_space)
        with pytest.raises(OSError, match=r"No space left on device: '.*metrics\.jsonl'"):
            rewind_metrics(path, 1)
    assert len(read_metrics(path)) == 2


def test_a_missing_file_can_be_rewound(path):
    assert rewind_metrics(path, 3) == []


def test_nan_from_other_writers_is_read_as_none(path):
    path.write_text('{"update": 1, "loss": NaN, "best": -Infinity}\n')
    assert read_metrics(path) == [{"update": 1, "loss": None, "best": None}]


@pytest.mark.fault(48)
def test_a_full_disk_raises_and_leaves_no_incomplete_line(tmp_path, path):
    message = r"Cannot write to .*metrics\.jsonl: No space left on device\. Checkpoints are kept"
    with mounted(tmp_path, "size=8k"):
        append_metrics(path, 1, {"a": "x" * 3_000})
        with pytest.raises(OSError, match=message):
            append_metrics(path, 2, {"a": "x" * 12_000})
        append_metrics(path, 3, {})
        assert [record["update"] for record in read_metrics(path)] == [1, 3]
