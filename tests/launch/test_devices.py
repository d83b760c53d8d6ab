import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.runs.children import TINY, flags_of, metrics_but_seconds

CHILD = Path(__file__).with_name("device_child.py")


def run_child(*arguments):
    answer = subprocess.run(
        [sys.executable, str(CHILD), *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout.splitlines()[-1])


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


@pytest.mark.parametrize(("env_id", "method"), CASES)
def test_learning_is_the_same_on_two_and_eight_devices(env_id, method):
    result = run_child(env_id, method)
    assert max(result["gradients"]) < 1e-5
    assert result["dtype"] == "float64"
    assert result["moved"] > 0.01
    assert max(result["states"]) < 1e-8
    # Each device computes only a part. What is computed once for all environments is computed on every device.
    assert 1.0 > result["flops"][0] > result["flops"][1]


def train_command(out, num_devices):
    settings = TINY | {"updates": 6, "devices": num_devices, "out": out}
    return [sys.executable, "-m", "gemax.cli", "train", "two-rooms", *flags_of(settings)]


@pytest.mark.devices
def test_two_processes_train_as_one_does(tmp_path, environment):
    one, two = tmp_path / "one", tmp_path / "two"
    subprocess.run(train_command(one, 1), env=environment, check=True)
    together = {
        "JAX_COORDINATOR_ADDRESS": "127.0.0.1:35711",
        "JAX_COORDINATOR_BIND_ADDRESS": "127.0.0.1:35711",
        "JAX_NUM_PROCESSES": "2",
    }
    children = [
        subprocess.Popen(train_command(two, 2), env=environment | together | {"JAX_PROCESS_ID": number})
        for number in ("0", "1")
    ]
    assert [child.wait() for child in children] == [0, 0]
    for line, expected in zip(metrics_but_seconds(two), metrics_but_seconds(one), strict=True):
        assert line == pytest.approx(expected, rel=1e-3, abs=1e-5)
    assert os.listdir(two) == os.listdir(one)


@pytest.mark.slow
def test_two_rooms_is_solved_at_the_same_update_on_two_devices(tmp_path, environment):
    def solved(num_devices, seed):
        out = tmp_path / f"{num_devices}-{seed}"
        flags = flags_of({"updates": 300, "devices": num_devices, "seed": seed, "out": out})
        subprocess.run(
            [sys.executable, "-m", "gemax.cli", "train", "two-rooms", *flags], env=environment, check=True
        )
        return json.loads((out / "summary.json").read_text())["solved_at_update"]

    of_one = [solved(1, seed) for seed in range(3)]
    assert min(of_one) - 50 <= solved(2, 0) <= max(of_one) + 50
