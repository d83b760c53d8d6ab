"""A run directory is created and resumed safely, and nothing is written outside it."""

import contextlib
import errno
import math
from pathlib import Path

import jax.numpy as jnp
import pytest
from tests.runs.disks import mounted

from gemax.runs.metrics_file import append_metrics, read_metrics
from gemax.runs.run_directory import RunDirectory, create_run, open_nested_run, resume_run

CONFIG = {"env": "two-rooms", "seed": 3, "δ": 0.005, "layers": [64, 64], "none": None}


def tree_of(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture
def run(tmp_path):
    with create_run(tmp_path / "run", CONFIG) as run:
        yield run


# Creating and resuming


def test_a_new_run_has_a_configuration_and_empty_metrics(tmp_path):
    with create_run(tmp_path / "run", CONFIG) as run:
        assert run.path == tmp_path / "run"
        assert run.messages == ()
        assert run.checkpoints == tmp_path / "run" / "checkpoints"
    assert RunDirectory(tmp_path / "run").read_config() == CONFIG
    assert read_metrics(run.metrics) == []
    assert sorted(path.name for path in run.path.iterdir()) == ["config.json", "metrics.jsonl"]


def test_a_run_can_be_created_in_a_folder_with_other_files(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with create_run(tmp_path, CONFIG):
        pass
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "file", ["config.json", "summary.json", "metrics.jsonl", "checkpoints/update-00000001"]
)
def test_an_existing_run_is_refused_and_left_unchanged(tmp_path, file):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text('{"update": 1}\n')
    before = tree_of(tmp_path)
    with pytest.raises(ValueError, match="already holds a run"), create_run(tmp_path, CONFIG):
        pytest.fail("the run was opened")
    assert tree_of(tmp_path) == before


def test_a_resumed_run_keeps_its_configuration_and_metrics(tmp_path):
    with create_run(tmp_path / "run", CONFIG) as run:
        append_metrics(run.metrics, 1, {"loss": 0.5})
    with resume_run(tmp_path / "run") as run:
        append_metrics(run.metrics, 2, {"loss": 0.25})
        assert run.read_config() == CONFIG
    assert [record["update"] for record in read_metrics(run.metrics)] == [1, 2]


@pytest.mark.parametrize("exists", [True, False])
def test_resuming_without_a_run_is_refused_and_creates_nothing(tmp_path, exists):
    path = tmp_path if exists else tmp_path / "nowhere"
    with (
        pytest.raises(ValueError, match=r"there is no run at|holds no run: config"),
        resume_run(path),
    ):
        pytest.fail("the run was opened")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.fault(13)
def test_a_missing_parent_is_refused_before_anything_is_created(tmp_path):
    with (
        pytest.raises(ValueError, match="missing is not a folder"),
        create_run(tmp_path / "missing" / "run", CONFIG),
    ):
        pytest.fail("the run was opened")
    assert list(tmp_path.iterdir()) == []


def test_a_parent_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with (
            pytest.raises((ValueError, OSError), match=r"is not a folder|Cannot write"),
            create_run(path, CONFIG),
        ):
            pytest.fail("the run was opened")


@pytest.mark.fault(13)
def test_a_folder_without_write_access_is_reported_in_one_line(tmp_path, monkeypatch):
    def read_only(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    with create_run(tmp_path / "old", CONFIG):
        pass
    monkeypatch.setattr("os.open", read_only)
    for opening in (create_run(tmp_path / "new", CONFIG), resume_run(tmp_path / "old")):
        with pytest.raises(OSError, match=r"Cannot write to .*: Read-only file system") as caught, opening:
            pytest.fail("the run was opened")
        assert "\n" not in str(caught.value)


@pytest.mark.fault(13)
def test_a_read_only_disk_is_reported(tmp_path):
    with (
        mounted(tmp_path, "ro"),
        pytest.raises(OSError, match=r"Cannot write to .*Read-only file system"),
        create_run(tmp_path / "run", CONFIG),
    ):
        pytest.fail("the run was opened")


@pytest.mark.parametrize("config", [{"a": math.nan}, {"a": math.inf}, {"a": object()}])
def test_a_configuration_that_json_cannot_represent_is_refused(tmp_path, config):
    with (
        pytest.raises(ValueError, match="configuration cannot be written"),
        create_run(tmp_path / "run", config),
    ):
        pytest.fail("the run was opened")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b"[" * 100_000, b""])
@pytest.mark.fault(56)
def test_a_damaged_configuration_is_named(tmp_path, content):
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"config\.json is damaged"):
        RunDirectory(tmp_path).read_config()


@pytest.mark.parametrize(
    "content",
    ["!!python/object/apply:os.mkdir ['{}']", "__import__('os').mkdir('{}')", '{{"a": "os.mkdir(\'{}\')"}}'],
)
@pytest.mark.fault(31)
def test_reading_a_configuration_executes_nothing(tmp_path, content):
    canary = tmp_path / "canary"
    (tmp_path / "config.json").write_text(content.format(canary))
    with contextlib.suppress(ValueError):
        RunDirectory(tmp_path).read_config()
    assert not canary.exists()


def test_a_summary_replaces_the_previous_one(run):
    run.write_summary({"status": "running", "return": math.nan})
    run.write_summary({"status": "finished", "return": jnp.float32(0.5), "nested": {"a": (1, 2)}})
    assert run.read_summary() == {"status": "finished", "return": 0.5, "nested": {"a": [1, 2]}}


def test_temporary_files_of_a_killed_process_are_removed_with_a_message(tmp_path):
    path = tmp_path / "run"
    with create_run(path, CONFIG):
        pass
    leftover, foreign = path / ".metrics.jsonl.khsbzrt3.tmp", path / ".notes.txt.khsbzrt3.tmp"
    for file in (leftover, foreign):
        file.write_bytes(b"half")
    with resume_run(path) as run:
        assert [str(leftover) in message for message in run.messages] == [True]
    assert not leftover.exists()
    assert foreign.exists()


@pytest.mark.fault(44)
def test_relative_paths_and_spaces_are_accepted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with create_run(Path("a folder with spaces"), CONFIG) as run:
        append_metrics(run.metrics, 1, {})
    assert len(read_metrics(tmp_path / "a folder with spaces" / "metrics.jsonl")) == 1


# Nested runs


def test_a_nested_run_is_created_once_and_takes_a_new_configuration(run):
    nested = open_nested_run(run, "seed-1", CONFIG)
    append_metrics(nested.metrics, 1, {})
    (nested.path / ".config.json.khsbzrt3.tmp").write_bytes(b"half")
    again = open_nested_run(run, "seed-1", {**CONFIG, "updates": 7})
    assert again.read_config()["updates"] == 7
    assert len(read_metrics(again.metrics)) == 1
    assert len(again.messages) == 1
    assert sorted(path.name for path in nested.path.iterdir()) == ["config.json", "metrics.jsonl"]


@pytest.mark.parametrize("is_dangling", [True, False])
def test_a_nested_run_that_is_a_link_is_refused(run, tmp_path, is_dangling):
    (tmp_path / "outside").mkdir()
    (run.path / "seed-1").symlink_to(tmp_path / ("missing" if is_dangling else "outside"))
    with pytest.raises(ValueError, match="is a link"):
        open_nested_run(run, "seed-1", CONFIG)
    assert list((tmp_path / "outside").iterdir()) == []
    assert not (tmp_path / "missing").exists()


def test_the_parent_of_a_run_may_be_a_link(tmp_path):
    (tmp_path / "big disk").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "big disk")
    with create_run(tmp_path / "runs" / "two-rooms gem_0.5 µ", CONFIG) as run:
        assert open_nested_run(run, "seed-1", CONFIG).path == run.path / "seed-1"


# Names and links


@pytest.mark.parametrize("name", ["a\0b", "a" * 300])
@pytest.mark.fault(33)
def test_paths_with_invalid_names_are_refused(tmp_path, name):
    for opening in (create_run(tmp_path / name / "run", CONFIG), resume_run(tmp_path / name)):
        with pytest.raises(ValueError, match=r"NUL|at most 255 bytes"), opening:
            pytest.fail("the run was opened")


@pytest.mark.parametrize(
    "name",
    ["metrics.jsonl", "config.json", "summary.json", "checkpoints", "run.lock", "tensorboard", "wandb"],
)
@pytest.mark.parametrize("is_dangling", [True, False])
@pytest.mark.fault(33)
def test_nothing_is_written_through_a_link(tmp_path, name, is_dangling):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("precious")
    path = tmp_path / "run"
    with create_run(path, CONFIG):
        pass
    (path / name).unlink(missing_ok=True)
    (path / name).symlink_to(outside / ("new" if is_dangling else "file"))
    before = tree_of(outside)
    for opening in (create_run(path, CONFIG), resume_run(path)):
        with pytest.raises(ValueError, match=r"is a link|holds no run"), opening:
            pytest.fail("the run was opened")
    assert tree_of(outside) == before
