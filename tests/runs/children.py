"""Runs in processes of their own, which can be killed, stopped and robbed of their disk."""

import contextlib
import dataclasses
import json
import signal
import subprocess
import sys
import time

from gemax.runs.checkpoints import ARRAYS
from gemax.runs.directory import read_metrics
from gemax.training.presets import configure

TINY = {
    "updates_per_call": 2,
    "num_worlds": 8,
    "trace_length": 6,
    "trace_period": 6,
    "lstm_size": 8,
    "torso_size": 16,
    "head_size": 8,
    "embedding_size": 4,
}
CONFIG = configure("two-rooms", updates=12, checkpoint_every=2, **TINY)

CHILD = """
import errno, json, os, signal, sys, time
from pathlib import Path
import jax
from gemax.cli.progress import tell_outcome
from gemax.runs import saving, seeds, session
from gemax.training.assemble import assemble
from gemax.training.config import Config

path, verb, mischief, config = Path(sys.argv[1]), sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
fsync, save, begin_together = os.fsync, saving.save_checkpoint, seeds.begin_together

def say(*words):
    print(*words, flush=True)

def slow_fsync(descriptor):
    say("fsync")
    time.sleep(0.02)
    fsync(descriptor)

def full_disk(folder, update, *arguments, **options):
    if mischief == f"full disk at update {update}":
        raise OSError(errno.ENOSPC, "No space left on device")
    return save(folder, update, *arguments, **options)

def poisoned(trainer):
    states = begin_together(trainer)
    bad = jax.tree.map(lambda leaf: leaf.at[-1].set(jax.numpy.nan), states.reward.parameters)
    return states._replace(reward=states.reward._replace(parameters=bad))

def watch(metrics):
    say("update", metrics["update"])
    if mischief == "unhurried":
        time.sleep(0.1)
    if mischief == f"signal at update {metrics['update']}":
        os.kill(os.getpid(), signal.SIGTERM)

if mischief == "slow":
    os.fsync = slow_fsync
if mischief.startswith("full disk"):
    saving.save_checkpoint = full_disk
if mischief == "the last seed is poisoned":
    seeds.begin_together = poisoned
# Pictures take longer than such a run. When one that was resumed ends, the command line draws them, in other tests.
pictures = verb == "start"
options = {"watch": watch, "tell": lambda words: say("told", words), "pictures": pictures}
if verb == "start":
    run = session.start_run(assemble(Config(**config)), path, **options)
else:
    run = session.resume(path, **options)
sys.exit(tell_outcome(run))
"""


def command(path, verb, mischief="none", config=CONFIG):
    return [sys.executable, "-c", CHILD, str(path), verb, mischief, json.dumps(dataclasses.asdict(config))]


def finish(path, verb, environment, mischief="none", config=CONFIG, exit_code=0):
    """Runs a child to its end and gives what it said."""
    answer = ask(command(path, verb, mischief, config), environment)
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
    """A process that does not outlive the test, whatever becomes of the test."""
    child = subprocess.Popen(
        arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def kill_after(path, verb, environment, lines, delay, mischief, config=CONFIG):
    """Kills a child some seconds after so many of its lines, counted from the first checkpoint on."""
    with started(command(path, verb, mischief, config), environment) as child:
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
    assert last.name == f"update-{CONFIG.updates:08d}"
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
