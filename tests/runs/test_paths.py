"""Paths are checked before a run is created."""

import pytest

from gemax.runs.paths import check_space, free_path


def test_a_free_path_gets_the_next_number(tmp_path):
    assert free_path(tmp_path, "run") == tmp_path / "run"
    for name in ("run", "run-2"):
        (tmp_path / name).mkdir()
    assert free_path(tmp_path, "run") == tmp_path / "run-3"


@pytest.mark.fault(12)
def test_too_little_free_space_is_refused(tmp_path):
    check_space(tmp_path / "not" / "yet" / "there", 1)
    with pytest.raises(OSError, match=r"MB of free space, but 1,000,000,000\.0 MB are needed"):
        check_space(tmp_path, 10**15)
