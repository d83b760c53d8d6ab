"""Real signals at any moment: heard at once, nothing is lost, the second one ends the process, and no crash."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from gemax.runs.checkpoints import load_arrays
from gemax.runs.metrics_file import read_metrics
from gemax.stopping import REPEAT_SECONDS, SIGNALS, Stopped, catch_stop_signals, check_stop
from tests.runs.children import TINY, flags_of, leftovers, started
from tests.runs.untrained import untrained

WORD = "received, stopping. Press Ctrl-C to end at once."
ENVIRONMENT = os.environ | {"PYTHONUNBUFFERED": "1"}


def train(path, **settings):
    flags = flags_of({**TINY, "updates": 100_000, "checkpoint_every": 2, **settings})
    return [sys.executable, "-m", "gemax.cli", "train", "two-rooms", "--out", str(path), *flags]


def with_default_signals(command):
    """Returns the command with signals that have their default effect, since background jobs ignore some of them.

    `preexec_fn` would fork this process, in which JAX has threads.
    """
    return ["env", "--default-signal=INT,HUP,TERM", *command]


def wait_until_catching(child, number=signal.SIGTERM):
    """Waits until gemax handles a signal."""
    while child.poll() is None and not is_catching(child, number):
        time.sleep(0.002)


def is_catching(child, number=signal.SIGTERM):
    """Whether a process handles a signal."""
    with open(f"/proc/{child.pid}/status") as status:
        masks = [line.split()[1] for line in status if line.startswith("SigCgt")]
    return bool(masks) and bool(int(masks[0], 16) & 1 << (number - 1))


def assert_valid(path):
    """Asserts that whatever a killed run left can be read."""
    if (path / "metrics.jsonl").exists():
        read_metrics(path / "metrics.jsonl")
    if any((path / "checkpoints").glob("update-*")):
        assert load_arrays(path / "checkpoints").messages == []


# In this process


@pytest.mark.fault(46, times=2)
def test_a_signal_sets_a_flag_that_is_checked_where_the_code_can_stop(capfd):
    before = signal.getsignal(signal.SIGTERM)
    with catch_stop_signals() as stop:
        check_stop()
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.signal == signal.SIGTERM
        with pytest.raises(Stopped, match="stopped by SIGTERM"):
            check_stop()
        # As `timeout` does, which signals its child and then the process group.
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
    assert capfd.readouterr().err == f"gemax: SIGTERM {WORD}\n"
    check_stop()


@pytest.mark.fault(46, times=2)
def test_the_second_ctrl_c_has_the_effect_that_it_has_without_gemax():
    def interrupt_twice():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt) as interrupt, catch_stop_signals():
            interrupt_twice()
        assert not isinstance(interrupt.value, Stopped)
    finally:
        signal.signal(signal.SIGINT, before)


def test_blocks_inside_of_each_other_share_a_request():
    with catch_stop_signals() as outer, catch_stop_signals() as inner:
        assert inner is outer


# Commands


@pytest.mark.fault(46)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_starting_is_heard_at_once_and_not_lost(number, tmp_path):
    with started(with_default_signals(train(tmp_path / "run")), ENVIRONMENT) as child:
        wait_until_catching(child, SIGNALS[-1])  # gemax begins to handle them in this order
        child.send_signal(number)
        sent = time.monotonic()
        word = child.stderr.readline()
        assert time.monotonic() - sent < 1.0
        _, errors = child.communicate(timeout=60)
    assert word == f"gemax: {number.name} {WORD}\n"
    assert (child.returncode, errors) == (128 + number, "gemax: stopped.\n")
    assert not (tmp_path / "run").exists()


@pytest.mark.fault(46, times=2)
def test_two_ctrl_c_while_compiling_end_at_once_without_a_crash(tmp_path):
    # A size that no other test has compiled.
    with started(train(tmp_path / "run", lstm_size=9, num_envs=16), ENVIRONMENT) as child:
        while not (tmp_path / "run" / "run.lock").exists():
            assert child.poll() is None
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        assert child.stderr.readline() == f"gemax: SIGINT {WORD}\n"
        child.send_signal(signal.SIGINT)
        sent = time.monotonic()
        _, errors = child.communicate(timeout=60)
        assert time.monotonic() - sent < 2.0
    assert (child.returncode, errors) == (130, "gemax: ended at once.\n")
    assert_valid(tmp_path / "run")


@pytest.mark.fault(46)
def test_an_ignored_hangup_stays_ignored(tmp_path):
    command = ["nohup", sys.executable, "-m", "gemax.cli", "doctor"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until_catching(child)
    child.send_signal(signal.SIGHUP)
    said, errors = child.communicate(timeout=60)
    assert child.returncode == 0, errors
    assert "devices" in said


@pytest.mark.slow_fault
@pytest.mark.timeout(3600)
@pytest.mark.fault(15, 46, times=10)
@pytest.mark.parametrize("part", range(5))
def test_signals_at_random_moments_never_crash_and_leave_valid_files(part, tmp_path):
    """One or two signals, from the first millisecond on, through start-up, compilation and training.

    Part 0 sends them in the first second, some of them before Python has loaded gemax.
    """
    dice, outcomes = random.Random(part), []
    for number in range(10 * part, 10 * part + 10):
        path = tmp_path / f"run-{number}"
        # Some sizes are new, so that some runs compile and others load.
        command = train(path, lstm_size=8 + number % 5)
        with started(with_default_signals(command), ENVIRONMENT) as child:
            if part == 0:
                time.sleep(dice.uniform(0.001, 1.0))
            else:
                wait_until_catching(child)
                time.sleep(dice.uniform(0.0, 12.0))
            is_early = not is_catching(child)
            first, is_twice = dice.choice([signal.SIGINT, signal.SIGTERM]), dice.random() < 0.5
            child.send_signal(first)
            if is_twice:
                time.sleep(dice.uniform(0.0, 2 * REPEAT_SECONDS))
                child.send_signal(signal.SIGINT)
            said, errors = child.communicate(timeout=900)  # a compilation on a busy machine
        outcomes.append(child.returncode)
        # Killed by the signal itself only before gemax has begun or after it has ended its work.
        assert child.returncode in (128 + first, 130, -signal.SIGINT, *([-first] if is_early else [])), (
            said,
            errors,
        )
        # Python itself prints one if it is interrupted before gemax is loaded.
        assert "Traceback" not in errors or (is_early and errors.rstrip().endswith("KeyboardInterrupt")), (
            errors
        )
        assert_valid(path)
        if not is_twice:
            assert leftovers(path) == []
    assert len(outcomes) == 10


VERBS = {
    "doctor": ["doctor"],
    "envs": ["envs", "two-rooms", "--out", "OUT"],
    "evaluate": ["evaluate", "RUN", "--episodes", "100000"],
    "record": ["record", "RUN"],
    "compare": ["compare", "RUN", "RUN", "--out", "PICTURE"],
    "collect": ["collect", "RUN", "--episodes", "100000"],
    "resume": ["resume", "RUN", "--updates", "1000000"],
    "reproduce": ["reproduce", "fig1", "--smoke", "--out", "OUT"],
    "bench": ["bench", "explore", "--smoke", "--out", "OUT"],
    "view": ["view", "RUN", "--no-browser", "--port", "0"],
}


@pytest.mark.slow_fault
@pytest.mark.timeout(1800)
@pytest.mark.fault(46, times=2)
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_hears_a_signal_at_its_start_and_at_its_work(verb, tmp_path):
    untrained(tmp_path / "run", "two-rooms")
    places = {
        "RUN": str(tmp_path / "run"),
        "OUT": str(tmp_path / "out"),
        "PICTURE": str(tmp_path / "compare.png"),
    }
    command = [sys.executable, "-m", "gemax.cli", *(places.get(word, word) for word in VERBS[verb])]
    for delay in (0.0, 5.0):
        with started(command, ENVIRONMENT) as child:
            wait_until_catching(child)
            time.sleep(delay)
            child.send_signal(signal.SIGTERM)
            _, errors = child.communicate(timeout=600)  # a compilation on a busy machine
        assert "Traceback" not in errors, errors
        has_ended = child.returncode == 0 and delay > 0
        assert has_ended or child.returncode == 128 + signal.SIGTERM, errors
        assert has_ended or f"gemax: SIGTERM {WORD}" in errors
    assert_valid(tmp_path / "run")


@pytest.mark.slow_fault
@pytest.mark.timeout(900)
@pytest.mark.fault(46, 52)
def test_a_large_map_says_what_takes_long_and_can_be_stopped(tmp_path):
    side = 50
    rows = ["S" + "." * (side - 1)] + ["." * side] * (side - 2) + ["." * (side - 1) + "G"]
    (tmp_path / "map.txt").write_text("\n".join(rows) + "\n")
    command = [
        sys.executable,
        "-m",
        "gemax.cli",
        "train",
        "--map",
        str(tmp_path / "map.txt"),
        "--horizon",
        "200",
    ]
    with started([*command, "--out", str(tmp_path / "run")], ENVIRONMENT) as child:
        assert child.stdout.readline().strip(), "nothing is said before the work begins"
        time.sleep(3.0)
        child.send_signal(signal.SIGTERM)
        _, errors = child.communicate(timeout=240)
    assert child.returncode == 128 + signal.SIGTERM, errors
    assert "Traceback" not in errors
