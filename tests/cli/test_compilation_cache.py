import os
import subprocess
import sys
import time

import pytest

from gemax.cli import compilation_cache
from gemax.cli.compilation_cache import FOLDER, MIN_SECONDS, cache_path, delete_oldest, use_compilation_cache
from gemax.settings import PROGRAM_FOLDER


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in (FOLDER, MIN_SECONDS, PROGRAM_FOLDER):
        # Set first, so that monkeypatch also removes what the tests set.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_programs_are_stored_in_a_private_folder_of_the_user(tmp_path):
    use_compilation_cache()
    assert os.environ[FOLDER].startswith(str(tmp_path / "gemax" / "compiled"))
    assert os.environ[PROGRAM_FOLDER] == os.environ[FOLDER]
    assert cache_path().stat().st_mode & 0o077 == 0


def test_the_cache_of_the_user_is_not_replaced(monkeypatch):
    monkeypatch.setenv(FOLDER, "chosen")
    use_compilation_cache()
    assert os.environ[FOLDER] == "chosen"
    assert PROGRAM_FOLDER not in os.environ
    assert not cache_path().exists()


def test_a_folder_that_others_can_write_to_is_not_used():
    cache_path().mkdir(parents=True)
    cache_path().chmod(0o777)
    use_compilation_cache()
    assert FOLDER not in os.environ


def test_a_folder_that_cannot_be_made_is_no_error(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    use_compilation_cache()
    assert FOLDER not in os.environ


def test_machines_with_other_processors_do_not_share_programs(monkeypatch):
    digest = compilation_cache.machine_digest()
    assert digest == compilation_cache.machine_digest()
    monkeypatch.setattr(compilation_cache.platform, "processor", lambda: "another")
    assert digest != compilation_cache.machine_digest()


def test_programs_that_were_used_least_recently_are_deleted(tmp_path):
    folder = tmp_path / "machine"
    folder.mkdir()
    now = time.time()
    for age, name in enumerate(("newest", "middle", "oldest")):
        (folder / name).write_bytes(bytes(100))
        os.utime(folder / name, (now - age, now - age))
    delete_oldest(tmp_path, 250)
    assert {file.name for file in folder.iterdir()} == {"newest", "middle"}


@pytest.mark.slow
def test_the_second_start_compiles_nothing(tmp_path):
    def processor_seconds(out, *flags):
        code = (
            "import os, sys; from gemax.cli import main; code = main(sys.argv[1:]);"
            "print('processor', sum(os.times()[:2])); sys.exit(code)"
        )
        arguments = ["train", "two-rooms", "--updates", "10", "--out", str(tmp_path / out), *flags]
        command = [sys.executable, "-c", code, *arguments]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return float(text.rpartition("processor")[2])

    first, second = processor_seconds("first"), processor_seconds("second")
    assert second < 0.5 * first
    assert processor_seconds("third", "--no-compilation-cache") > 1.5 * second
