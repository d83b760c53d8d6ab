"""The store trains missing runs once, in parallel, and resumes runs that were stopped."""

import os
import signal
import threading
import time

import pytest

from gemax.experiments.experiment import SMOKE
from gemax.experiments.records import GENERATION
from gemax.experiments.store import RunStore, train_missing
from gemax.launch.worker import split_cores
from gemax.runs.provenance import provenance
from gemax.training.presets import configure

pytestmark = pytest.mark.whole_runs

SMALL = SMOKE | {"method": "none"}


def small(**changes):
    return configure("two-rooms", **(SMALL | changes))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return RunStore(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def trained(store):
    """Two good runs, one of them requested twice, and one that fails."""
    progress, finished = [], []
    outcome = train_missing(
        store,
        [small(), small(), small(seed=1), small().replace(env_id="nowhere")],
        2,
        progress.append,
        lambda: finished.append(len(list(store.folder.glob("*.npz")))),
        quick=True,
    )
    return outcome, progress, finished


def test_missing_runs_are_trained_once(store, trained):
    outcome, progress, finished = trained
    assert outcome.stop_signal is None
    assert store.missing([small(), small(seed=1)]) == []
    assert progress[-1].num_finished == progress[-1].num_runs == 3
    assert progress[-1].fraction == 1.0
    assert finished[-1] == 2


def test_a_record_holds_the_run(store, trained):
    record = store.load(small(seed=1))
    assert record.config == small(seed=1)
    assert record.curves["update"].tolist() == [5, 10, 15, 20]
    assert record.summary["status"] == "finished"
    assert record.commits == [provenance()["commit"] or "unknown"]
    assert 0 < record.entropy_share < 1


@pytest.mark.fault(40)
def test_a_failed_run_is_reported_and_others_continue(trained):
    (message,) = trained[0].failures.values()
    assert "environment must be one of" in message


def test_a_run_of_older_training_code_is_not_continued(store, monkeypatch):
    before = store.run_folder(small())
    monkeypatch.setattr("gemax.experiments.store.GENERATION", GENERATION + 1)
    assert store.run_folder(small()) != before


def test_folders_of_finished_runs_are_deleted(store, trained):
    left = {path.name.split("-")[0] for path in (store.folder / "unfinished").iterdir()}
    assert left == {"compiled", "nowhere"}


def test_a_second_call_trains_nothing(store, trained):
    progress = []
    assert train_missing(store, [small(), small(seed=1)], 2, progress.append) == ({}, None)
    assert progress == []


def test_a_stopped_run_keeps_its_checkpoint(store):
    config = small(seed=2, updates=100_000, updates_per_call=5)
    metrics = store.run_folder(config) / "run" / "metrics.jsonl"

    def stop_after_the_first_metrics():
        while not metrics.exists() or metrics.stat().st_size == 0:
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=stop_after_the_first_metrics, daemon=True).start()
    outcome = train_missing(store, [config], 1, lambda progress: None, quick=True)
    assert outcome == ({}, signal.SIGINT)
    assert list((store.run_folder(config) / "run" / "checkpoints").glob("update-*"))
    assert store.missing([config]) == [config]


def test_a_second_process_in_the_same_folder_is_refused(store):
    from gemax.runs.locks import locked

    with (
        locked(store.unfinished / "training.lock"),
        pytest.raises(ValueError, match="is locked by pid"),
    ):
        train_missing(store, [small(seed=9)], 1, lambda progress: None)


def test_cores_are_divided_between_jobs():
    cores = sorted(os.sched_getaffinity(0))
    assert split_cores(1) == [cores]
    assert sorted(core for share in split_cores(len(cores)) for core in share) == cores
    assert len(split_cores(5)) == 5


def test_there_must_be_a_job(store):
    with pytest.raises(ValueError, match="jobs must be at least 1; got 0"):
        train_missing(store, [], 0, lambda progress: None)
