"""Files are written completely or not at all, and values become valid JSON."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from gemax.runs.files import to_json, write_bytes, write_json


def test_a_written_file_is_read_back_and_no_temporary_file_is_left(tmp_path):
    write_bytes(tmp_path / "below" / "a.bin", b"one")
    write_bytes(tmp_path / "below" / "a.bin", b"two")
    assert (tmp_path / "below" / "a.bin").read_bytes() == b"two"
    assert [path.name for path in (tmp_path / "below").iterdir()] == ["a.bin"]


def test_a_failed_write_keeps_the_old_file_and_leaves_no_temporary_file(tmp_path, monkeypatch):
    path = tmp_path / "a.bin"
    write_bytes(path, b"old")

    def no_space(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(OSError, match="No space"):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.bin"]


def test_non_finite_numbers_are_written_as_null(tmp_path):
    write_json(tmp_path / "a.json", {"a": [float("nan"), 1.5, float("inf")], "b": ("µ", None)})
    assert json.loads((tmp_path / "a.json").read_text()) == {"a": [None, 1.5, None], "b": ["µ", None]}


def test_arrays_become_numbers_and_lists():
    values = {
        "a": jnp.float32(0.5),
        "b": np.array([[1, 2]]),
        "c": jnp.bfloat16(1.5),
        "d": np.array([np.nan, True]),
    }
    assert to_json(values) == {"a": 0.5, "b": [[1, 2]], "c": 1.5, "d": [None, 1.0]}
