"""Environments in worker processes, by the real command line: faults, signals, and no orphaned processes."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from tests.runs.children import checkpoints, cli, flags_of, started, wait_for_metrics

from gemax.runs.metrics_file import read_metrics
from gemax.runs.run_directory import RunDirectory

pytestmark = pytest.mark.whole_runs

TINY = {
    "method": "none", "num_envs": 2, "unroll_length": 4, "unroll_period": 4, "updates": 1000, "torso_size": 6,
    "lstm_size": 5, "head_size": 5, "time_buckets": 3, "checkpoint_every": 400, "vectorization_mode": "async",
}  # fmt: skip
ID = "gym:tests.envs.host.toys:gemax-test/Fragile-v0"


def living(path):
    """Lists processes that were started for a run, by an environment variable that holds its path."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"RUN={path}\0".encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
        except OSError:
            pass  # it has ended, or is not ours
    return found


def assert_all_ended(path):
    end = time.monotonic() + 10
    while living(path) and time.monotonic() < end:
        time.sleep(0.05)
    assert living(path) == []


@pytest.fixture(scope="module")
def broken(tmp_path_factory, environment):
    """A run whose environment was killed."""
    path = tmp_path_factory.mktemp("workers") / "run"
    surroundings = environment | {"RUN": str(path), "PYTHONPATH": os.pathsep.join(sys.path)}
    answer = cli("train", ID, "--out", path, *flags_of(TINY), environment=surroundings)
    return path, surroundings, answer


@pytest.mark.fault(27)
def test_a_killed_environment_is_reported_and_the_run_is_saved(broken):
    path, _, answer = broken
    assert answer.returncode == 3, answer.stderr
    (line,) = answer.stderr.splitlines()
    assert line.startswith("gemax: environment ")
    assert "was killed (signal 9)" in line
    assert f"fix the environment, then `gemax resume {path}`" in line
    assert checkpoints(path)[-1].name > "update-00000000"
    assert_all_ended(path)


@pytest.mark.fault(15)
def test_the_run_resumes_once_fixed_and_signals_stop_all_of_its_processes(broken):
    path, surroundings, _ = broken
    resume = [sys.executable, "-m", "gemax.cli", "resume", str(path)]
    surroundings = surroundings | {"MENDED": "1"}
    reached = read_metrics(path / "metrics.jsonl")[-1]["update"]
    with started(resume, surroundings, start_new_session=True) as child:
        wait_for_metrics(path, child, lines=reached + 1)
        assert len(living(path)) >= 3
        os.killpg(child.pid, signal.SIGTERM)  # as `timeout` does
        said, errors = child.communicate(timeout=60)
    assert (child.returncode, "Traceback" in errors) == (143, False), said
    assert f"Stopped by SIGTERM. Continue with `gemax resume {path}`" in said
    reached = RunDirectory(path).read_summary()["updates"]
    assert checkpoints(path)[-1].name == f"update-{reached:08d}"
    assert_all_ended(path)

    with started(resume, surroundings, start_new_session=True) as child:
        wait_for_metrics(path, child, lines=reached + 1)
        os.killpg(child.pid, signal.SIGINT)  # as a terminal does
        time.sleep(0.05)
        os.killpg(child.pid, signal.SIGINT)
        said, errors = child.communicate(timeout=60)
    assert child.returncode == 130, said
    assert errors.endswith("gemax: ended at once.\n")
    assert checkpoints(path)[-1].name >= f"update-{reached:08d}"
    assert_all_ended(path)
