"""Runs are made once, side by side, and go on where they were stopped."""

import dataclasses
import os
import signal
import threading
import time

import pytest

from gemax.experiments.experiment import SMOKE
from gemax.experiments.store import Store, make_missing, shares_of_cores
from gemax.training.presets import configure

SMALL = SMOKE | {"method": "none"}


def small(**changes):
    return configure("two-rooms", **(SMALL | changes))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def made(store):
    """Two good runs, one that is asked for twice, and one that cannot be."""
    standings, finished = [], []
    outcome = make_missing(
        store,
        [small(), small(), small(seed=1), dataclasses.replace(small(), world="nowhere")],
        2,
        standings.append,
        lambda: finished.append(len(list(store.folder.glob("*.npz")))),
        quick=True,
    )
    return outcome, standings, finished


def test_what_is_missing_is_made_once(store, made):
    outcome, standings, finished = made
    assert outcome.stopped_by is None
    assert store.missing([small(), small(seed=1)]) == []
    assert standings[-1].finished == standings[-1].of == 3
    assert standings[-1].work_done == standings[-1].work
    assert finished[-1] == 2


def test_a_record_has_the_run(store, made):
    record = store.load(small(seed=1))
    assert record.config == small(seed=1)
    assert record.curves["update"].tolist() == [5, 10, 15, 20]
    assert record.facts["status"] == "finished"
    assert 0 < record.entropy_share < 1


def test_what_cannot_be_made_is_told_and_stops_nobody_else(made):
    (words,) = made[0].failures.values()
    assert "world must be one of" in words


def test_nothing_is_left_of_what_is_finished(store, made):
    left = {path.name.split("-")[0] for path in (store.folder / "unfinished").iterdir()}
    assert left == {"compiled", "nowhere"}


def test_a_second_call_makes_nothing(store, made):
    standings = []
    assert make_missing(store, [small(), small(seed=1)], 2, standings.append) == ({}, None)
    assert standings == []


def test_a_stopped_run_goes_on_from_where_it_was(store):
    config = small(seed=2, updates=100_000, updates_per_call=5)
    metrics = store.unfinished(config) / "run" / "metrics.jsonl"

    def stop_when_it_runs():
        while not metrics.exists() or metrics.stat().st_size == 0:
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=stop_when_it_runs, daemon=True).start()
    outcome = make_missing(store, [config], 1, lambda standing: None, quick=True)
    assert outcome == ({}, signal.SIGINT)
    assert list((store.unfinished(config) / "run" / "checkpoints").glob("update-*"))
    assert store.missing([config]) == [config]


def test_two_at_a_time_in_one_folder_are_refused(store):
    from gemax.runs.locks import locked

    with (
        locked(store.folder / "unfinished" / "making.lock"),
        pytest.raises(ValueError, match="is locked by pid"),
    ):
        make_missing(store, [small(seed=9)], 1, lambda standing: None)


def test_cores_are_shared_out():
    cores = sorted(os.sched_getaffinity(0))
    assert shares_of_cores(1) == [cores]
    assert sorted(core for share in shares_of_cores(len(cores)) for core in share) == cores
    assert len(shares_of_cores(5)) == 5
    with pytest.raises(ValueError, match="jobs must be at least 1; got 0"):
        shares_of_cores(0)
