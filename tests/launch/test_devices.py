import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.special import stdtrit
from tests.runs.children import TINY, flags_of, metrics_but_seconds, started

CHILD = Path(__file__).with_name("device_child.py")


def child_command(*arguments):
    return [sys.executable, str(CHILD), *map(str, arguments)]


def read_answer(output):
    return json.loads(output.splitlines()[-1])


def finish_together(command, environment, port):
    """Runs a command in two processes that JAX connects. Returns the output of the first one."""
    together = {
        "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}",
        "JAX_COORDINATOR_BIND_ADDRESS": f"127.0.0.1:{port}",
        "JAX_NUM_PROCESSES": "2",
    }
    with (
        started(command, environment | together | {"JAX_PROCESS_ID": "0"}) as first,
        started(command, environment | together | {"JAX_PROCESS_ID": "1"}) as second,
    ):
        answers = [child.communicate(timeout=900) for child in (first, second)]
        assert [first.returncode, second.returncode] == [0, 0], answers
    return answers[0][0]


CASES = [
    pytest.param(env_id, method, marks=pytest.mark.devices if is_fast else pytest.mark.slow)
    for env_id, method, is_fast in (
        ("two-rooms", "gem", True),
        ("two-rooms", "rnd", False),
        ("two-rooms", "ngu", False),
        ("mountain-car", "gem", False),
        ("mountain-car", "rnd", False),
        ("mountain-car", "ngu", True),
    )
]


def check_learning(result):
    """Checks that gradients and states are those of one device."""
    assert max(result["gradients"]) < 1e-5
    assert result["dtype"] == "float64"
    assert result["moved"] > 0.01
    assert max(result["states"]) < 1e-8
    # Each device computes only a part. What is computed once for all environments is computed on every device.
    assert all(share < previous for previous, share in itertools.pairwise([1.0, *result["flops"]]))


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("env_id", "method"), CASES)
def test_learning_is_the_same_on_two_and_eight_devices(env_id, method, environment):
    answer = subprocess.run(
        child_command(env_id, method, 2, 8), env=environment, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    result = read_answer(answer.stdout)
    print(result)
    check_learning(result)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("env_id", "method"), CASES)
def test_learning_is_the_same_in_two_processes(env_id, method, environment):
    result = read_answer(finish_together(child_command(env_id, method, 2), environment, 35712))
    print(result)
    check_learning(result)


def train_command(out, num_devices, **settings):
    settings = {"devices": num_devices, "out": out} | settings
    return [sys.executable, "-m", "gemax.cli", "train", "two-rooms", *flags_of(settings)]


@pytest.mark.devices
def test_two_processes_train_as_one_does(tmp_path, environment):
    one, two = tmp_path / "one", tmp_path / "two"
    subprocess.run(train_command(one, 1, updates=6, **TINY), env=environment, check=True)
    finish_together(train_command(two, 2, updates=6, **TINY), environment, 35711)
    for line, expected in zip(metrics_but_seconds(two), metrics_but_seconds(one), strict=True):
        # Before the first episode ends there is no return.
        assert [name for name in line if line[name] is None] == [
            name for name in expected if expected[name] is None
        ]
        numbers = {name: value for name, value in expected.items() if value is not None}
        assert {name: line[name] for name in numbers} == pytest.approx(numbers, rel=1e-3, abs=1e-5)
    assert os.listdir(two) == os.listdir(one)


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_two_rooms_is_solved_at_the_same_update(tmp_path, environment):
    """On 2 and 8 devices and in two processes: within the interval that five seeds on one device predict."""

    def solved(folder):
        return json.loads((folder / "summary.json").read_text())["solved_at_update"]

    subprocess.run(train_command(tmp_path / "one", 1, seeds=5, updates=300), env=environment, check=True)
    of_one = np.asarray([solved(tmp_path / "one" / f"seed-{seed}") for seed in range(5)], float)
    for number in (2, 8):
        subprocess.run(
            train_command(tmp_path / f"{number}", number, updates=300), env=environment, check=True
        )
    finish_together(train_command(tmp_path / "processes", 2, updates=300), environment, 35713)
    divided = {name: solved(tmp_path / name) for name in ("2", "8", "processes")}
    print(of_one, divided)
    # The interval for one more seed: Student's t, 95 %.
    half_width = stdtrit(4, 0.975) * of_one.std(ddof=1) * np.sqrt(1 + 1 / 5)
    assert all(abs(update - of_one.mean()) <= half_width for update in divided.values()), (of_one, divided)
