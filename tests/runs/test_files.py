import json

import pytest

from gemax.runs.files import write_bytes, write_json


def test_what_is_written_is_what_is_read_and_nothing_else_is_left(tmp_path):
    write_bytes(tmp_path / "below" / "a.bin", b"one")
    write_bytes(tmp_path / "below" / "a.bin", b"two")
    assert (tmp_path / "below" / "a.bin").read_bytes() == b"two"
    assert [path.name for path in (tmp_path / "below").iterdir()] == ["a.bin"]


def test_a_write_that_fails_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "a.bin"
    write_bytes(path, b"old")

    def no_space(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(OSError, match="No space"):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.bin"]


def test_numbers_that_are_not_finite_become_null(tmp_path):
    write_json(tmp_path / "a.json", {"a": [float("nan"), 1.5, float("inf")], "b": ("µ", None)})
    assert json.loads((tmp_path / "a.json").read_text()) == {"a": [None, 1.5, None], "b": ["µ", None]}
