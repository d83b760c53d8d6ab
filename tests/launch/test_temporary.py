import tempfile

import pytest

from gemax.launch.temporary import temporary_folder
from gemax.runs.locks import locked_folder

PREFIX = "gemax-test-"


@pytest.fixture
def parent(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_folder_ends_with_the_block(parent):
    with temporary_folder(PREFIX) as folder:
        (folder / "file").touch()
        assert list(parent.iterdir()) == [folder]
        assert folder.name.startswith(PREFIX)
    assert not list(parent.iterdir())


def test_the_folder_of_a_killed_process_is_deleted_by_the_next(parent):
    (parent / f"{PREFIX}left").mkdir()
    (parent / f"{PREFIX}left" / "file").touch()
    with temporary_folder(PREFIX) as folder:
        assert list(parent.iterdir()) == [folder]


def test_folders_in_use_and_foreign_ones_stay(parent):
    used, other, linked = parent / f"{PREFIX}used", parent / "other", parent / "linked"
    for path in (used, other, linked):
        path.mkdir()
    (linked / "file").touch()
    (parent / f"{PREFIX}link").symlink_to(linked)
    with locked_folder(used), temporary_folder(PREFIX):
        pass
    assert used.exists()
    assert other.exists()
    assert (linked / "file").exists()
