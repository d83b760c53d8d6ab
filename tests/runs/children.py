"""Runs in child processes, which tests can kill, stop or deprive of their disk."""

import contextlib
import json
import signal
import subprocess
import sys
import time

from gemax.runs.checkpoint_format import ARRAYS
from gemax.runs.metrics_file import read_metrics
from gemax.training.presets import configure

TINY = {
    "updates_per_call": 2,
    "num_envs": 8,
    "unroll_length": 6,
    "unroll_period": 6,
    "lstm_size": 8,
    "torso_size": 16,
    "head_size": 8,
    "embedding_size": 4,
    "episodic_weight": 0.0,
}
CONFIG = configure("two-rooms", updates=12, checkpoint_every=2, **TINY)

CHILD = """
import errno, json, os, signal, sys, time
from pathlib import Path
import jax
from gemax.cli.progress import report_outcome
from gemax.runs import checkpoint_writer, session, warm_start
from gemax.training.config import config_from_json

path, verb, fault, config = Path(sys.argv[1]), sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
fsync, save, initial_states = os.fsync, checkpoint_writer.save_checkpoint, warm_start.initial_states

def say(*words):
    print(*words, flush=True)

def slow_fsync(descriptor):
    say("fsync")
    time.sleep(0.02)
    fsync(descriptor)

def full_disk(folder, update, *arguments, **options):
    if fault == f"full disk at update {update}":
        raise OSError(errno.ENOSPC, "No space left on device")
    return save(folder, update, *arguments, **options)

def last_seed_nan(trainer):
    states = initial_states(trainer)
    bad = jax.tree.map(lambda leaf: leaf.at[-1].set(jax.numpy.nan), states.reward.parameters)
    return states._replace(reward=states.reward._replace(parameters=bad))

def callback(metrics):
    say("update", metrics["update"])
    if fault == "slow updates":
        time.sleep(0.1)
    if fault == f"signal at update {metrics['update']}":
        os.kill(os.getpid(), signal.SIGTERM)

def clock_that_jumps_back(now=time.time, calls=[0]):
    calls[0] += 1
    return now() - 3600.0 * calls[0]

if fault == "clock jumps back":
    time.time = clock_that_jumps_back
if fault == "slow disk":
    os.fsync = slow_fsync
if fault.startswith("full disk"):
    checkpoint_writer.save_checkpoint = full_disk
if fault == "last seed is NaN":
    warm_start.initial_states = last_seed_nan
# Plots take longer than such a run. Other tests check them for resumed runs.
plots = verb == "start"
hooks = session.Hooks(lambda words: say("logged", words), callback, plots=plots)
if verb == "start":
    run = session.start_run(config_from_json(config), path, hooks=hooks)
else:
    run = session.resume(path, hooks=hooks)
sys.exit(report_outcome(run))
"""


def command(path, verb, fault="none", config=CONFIG):
    return [sys.executable, "-c", CHILD, str(path), verb, fault, json.dumps(config.to_json())]


def finish(path, verb, environment, fault="none", config=CONFIG, exit_code=0):
    """Runs a child to its end and returns its output."""
    answer = ask(command(path, verb, fault, config), environment)
    assert answer.returncode == exit_code, f"{answer.returncode}: {answer.stdout}{answer.stderr}"
    return answer.stdout


def cli(*arguments, environment):
    return ask([sys.executable, "-m", "gemax.cli", *map(str, arguments)], environment)


def ask(arguments, environment):
    return subprocess.run(
        arguments, env=environment, capture_output=True, text=True, timeout=240, check=False
    )


@contextlib.contextmanager
def started(arguments, environment, **options):
    """Starts a process that ends with the test."""
    child = subprocess.Popen(
        arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def kill_after(path, verb, environment, lines, delay, fault, config=CONFIG):
    """Kills a child after a number of output lines since its first checkpoint, and a delay in seconds."""
    with started(command(path, verb, fault, config), environment) as child:
        for line in child.stdout:
            lines -= line.startswith(("update", "fsync")) and bool(checkpoints(path))
            if lines <= 0:
                break
        time.sleep(delay)
        child.send_signal(signal.SIGKILL)
        return child.wait() == -signal.SIGKILL


def wait_for_metrics(path, child, lines=1):
    end = time.monotonic() + 120
    while not (path / "metrics.jsonl").exists() or (path / "metrics.jsonl").read_bytes().count(b"\n") < lines:
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


def checkpoints(path):
    return sorted((path / "checkpoints").glob("update-*"))


def last_arrays(path):
    last = checkpoints(path)[-1]
    assert last.name == f"update-{CONFIG.run.updates:08d}"
    return (last / ARRAYS).read_bytes()


def metrics_but_seconds(path):
    return [
        {name: value for name, value in line.items() if name != "seconds"}
        for line in read_metrics(path / "metrics.jsonl")
    ]


def leftovers(path):
    return [entry for entry in path.rglob("*") if entry.name.endswith((".tmp", ".replaced", ".lock"))]


def flags_of(settings):
    return [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
