"""Real Ray clusters: actors, the learner and nodes are killed, and faults are injected."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest
from tests.launch.conftest import temporary_folders
from tests.runs.children import flags_of, started

from gemax.runs.metrics_file import read_metrics

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900), pytest.mark.usefixtures("nothing_left")]

SIZES = {
    "num_envs": 16,
    "unroll_length": 32,
    "torso_size": 32,
    "lstm_size": 16,
    "head_size": 16,
    "embedding_size": 8,
}
SMALL = flags_of(SIZES)
FRAMES_PER_UPDATE = 16 * 32


def train_command(env, out, *flags, actors=2):
    env_id = f"gym:tests.launch.envs:{env}-v0"
    ray = ["--launcher", "ray", "--actors", str(actors)]
    return [
        sys.executable, "-m", "gemax.cli", "train", env_id, "--out", str(out), *SMALL, *ray, *map(str, flags),
    ]  # fmt: skip


def resume_command(out, *flags):
    return [sys.executable, "-m", "gemax.cli", "resume", str(out), "--launcher", "ray", *map(str, flags)]


def finish(command, environment):
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)


def wait_for_updates(child, out, number):
    end = time.monotonic() + 400
    while not (out / "metrics.jsonl").exists() or len(read_metrics(out / "metrics.jsonl")) < number:
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)


def actors_of(child):
    """The processes of the actors below a process."""
    return [process for process in descendants(child) if process.name().startswith("ray::EnvActor")]


def descendants(child):
    return psutil.Process(child.pid).children(recursive=True)


@pytest.mark.fault(57)
def test_four_actors_solve_a_map_although_one_is_killed(tmp_path, environment):
    out = tmp_path / "run"
    with started(train_command("Corner", out, "--updates", 90, actors=4), environment) as child:
        wait_for_updates(child, out, 5)
        actors = actors_of(child)
        assert len(actors) == 4
        addresses = {
            connection.laddr.ip
            for process in descendants(child)
            for connection in process.net_connections()
            if connection.status == psutil.CONN_LISTEN
        }
        assert addresses <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
        actors[0].kill()
        output, errors = child.communicate(timeout=600)
    assert child.returncode == 0, output + errors
    summary, lines = json.loads((out / "summary.json").read_text()), read_metrics(out / "metrics.jsonl")
    assert summary["solved_at_update"] is not None, summary
    # Every frame that was learned from is counted once. What was lost with the actor is reported.
    assert [line["frames"] for line in lines] == [FRAMES_PER_UPDATE * number for number in range(1, 91)]
    assert re.search(r"Actor \d \(process \d+ on .*\) died or cannot be reached", output)
    lost = sum(map(int, re.findall(r"(\d+) frames of actor \d are lost", output)))
    assert lost == lines[-1]["lost_frames"] > 0
    assert lines[-1]["actors"] == 4
    # A rollout that replaces a lost one has a newer policy.
    assert all(line["policy_lag_updates"] <= 1 for line in lines)
    assert lines[4]["policy_lag_updates"] == lines[-1]["policy_lag_updates"] == 1
    assert all(0 <= line["clipped_importance_weights"] <= 1 for line in lines)


@pytest.mark.slow
def test_a_map_is_solved_although_the_policy_lags_ten_updates_behind(tmp_path, environment):
    out = tmp_path / "run"
    answer = finish([sys.executable, "-m", "tests.launch.lag_child", str(out), "200"], environment)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    lines = read_metrics(out / "metrics.jsonl")
    assert [line["policy_lag_updates"] for line in lines] == [*range(10), *[10] * 190]
    assert max(line["clipped_importance_weights"] for line in lines) > 0
    assert json.loads((out / "summary.json").read_text())["solved_at_update"] is not None


@pytest.mark.fault(58)
def test_a_killed_learner_leaves_nothing_and_resumes(tmp_path, environment):
    out = tmp_path / "run"
    folders = temporary_folders()
    command = train_command("Corner", out, "--updates", 16, "--checkpoint-every", 2)
    with started(command, environment) as child:
        wait_for_updates(child, out, 6)
        below = descendants(child)
        child.kill()
        # Two agents of Ray try for a minute to report the death of their node. All others end at once.
        _, alive = psutil.wait_procs(below, timeout=20)
        assert {process.name() for process in alive} <= {"ray::DashboardAgent", "ray::RuntimeEnvAgent"}
        _, alive = psutil.wait_procs(alive, timeout=80)
        assert not alive
    assert len(list((out / "checkpoints").glob("update-*"))) > 1
    # The learner had no time to remove the folder of its cluster. The next one removes it.
    assert len(temporary_folders() - folders) == 1
    answer = finish(resume_command(out, "--actors", 3), environment)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert temporary_folders() == folders
    assert [line["update"] for line in read_metrics(out / "metrics.jsonl")] == list(range(1, 17))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_save_the_run_and_end_the_cluster(tmp_path, environment, number):
    out = tmp_path / "run"
    with started(train_command("Waiting", out), environment, start_new_session=True) as child:
        wait_for_updates(child, out, 2)
        # A terminal sends Ctrl-C to all processes of the group. Others send SIGTERM to one process.
        (os.killpg if number == signal.SIGINT else os.kill)(child.pid, number)
        output, errors = child.communicate(timeout=120)
    assert child.returncode == 128 + number, output + errors
    assert "Continue with `gemax resume" in output
    assert json.loads((out / "summary.json").read_text())["status"] == "stopped"


def test_an_environment_that_fails_on_the_node_is_reported(tmp_path, environment):
    answer = finish(train_command("FailsOnNode", tmp_path / "run"), environment)
    assert answer.returncode == 3, answer.stdout + answer.stderr
    assert "no licence on this machine" in answer.stderr
    assert "actor" in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.fault(57)
def test_actors_that_die_at_once_are_given_up(tmp_path, environment):
    answer = finish(train_command("DiesOnNode", tmp_path / "run"), environment)
    assert answer.returncode == 3, answer.stdout + answer.stderr
    assert answer.stdout.count("is given up") == 1
    assert "the last one, is given up: it died 5 times without finishing a rollout" in answer.stderr


@contextlib.contextmanager
def ray_nodes(environments, folder, port, *nodes, program=("-m", "ray.scripts.scripts")):
    """Starts nodes of a cluster with `ray start`, the first one as its head. Yields their processes."""
    environments = environments if isinstance(environments, list) else [environments] * len(nodes)
    processes = []
    options = [
        "--disable-usage-stats",
        "--node-ip-address=127.0.0.1",
        "--object-store-memory=80000000",
        "--block",
    ]
    head = ["--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={folder}"]
    try:
        for number, flags in enumerate(nodes):
            role = head if number == 0 else [f"--address=127.0.0.1:{port}"]
            command = [sys.executable, *program, "start", *role, *options, *flags]
            processes.append(subprocess.Popen(command, env=environments[number], stdout=subprocess.DEVNULL))
            wait_for_raylets(processes)
        yield processes
    finally:
        for process in processes:
            kill_tree(process)


def kill_tree(process):
    """Kills a process of this one and everything below it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(process.pid)
        for below in [root, *root.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                below.kill()
    process.wait()


def wait_for_raylets(processes):
    end = time.monotonic() + 100
    while not all(raylets_of(process) for process in processes):
        assert all(process.poll() is None for process in processes)
        assert time.monotonic() < end
        time.sleep(0.2)


def raylets_of(process):
    return [
        child for child in psutil.Process(process.pid).children(recursive=True) if child.name() == "raylet"
    ]


@pytest.mark.fault(58)
def test_a_run_goes_on_when_one_of_two_nodes_is_killed(tmp_path, environment, short_folder):
    out = tmp_path / "run"
    with ray_nodes(environment, short_folder, 36379, ["--num-cpus=2"], ["--num-cpus=2"]) as nodes:
        address = ("--ray-address", "127.0.0.1:36379")
        command = train_command("Corner", out, "--updates", 30, *address, actors=4)
        with started(command, environment) as child:
            wait_for_updates(child, out, 3)
            for process in psutil.Process(nodes[1].pid).children(recursive=True):
                process.kill()
            output, errors = child.communicate(timeout=600)
    assert child.returncode == 0, output + errors
    assert output.count("is given up: the cluster has only 2 CPUs left") == 2, output
    lines = read_metrics(out / "metrics.jsonl")
    assert [line["update"] for line in lines] == list(range(1, 31))
    assert lines[-1]["actors"] == 2


OTHER_VERSION = "import ray, sys; ray.__version__ = '2.59.0'; from ray.scripts.scripts import main; main()"


@pytest.mark.fault(60)
def test_a_cluster_of_another_version_is_refused(tmp_path, environment, short_folder):
    program = ("-c", OTHER_VERSION)
    with ray_nodes(environment, short_folder, 36380, ["--num-cpus=1"], program=program):
        command = train_command("Corner", tmp_path / "run", "--ray-address", "127.0.0.1:36380")
        answer = finish(command, environment)
    assert answer.returncode == 2, answer.stdout + answer.stderr
    assert "has other versions of Ray or Python than this machine" in answer.stderr
    assert "2.59.0" in answer.stderr


@pytest.mark.fault(59)
def test_a_full_object_store_is_reported_and_the_run_can_resume(tmp_path, environment, short_folder):
    out = tmp_path / "run"
    # Otherwise Ray writes objects to the disk until that is full.
    limits = {"automatic_object_spilling_enabled": False, "local_fs_capacity_threshold": 0.001}
    no_spilling = f"--system-config={json.dumps(limits)}"
    with (
        ray_nodes(environment, short_folder, 36381, ["--num-cpus=4", no_spilling]),
        started(fill_command(36381), environment) as filler,
    ):
        assert filler.stdout.readline() == "full\n"
        answer = finish(train_command("Corner", out, "--ray-address", "127.0.0.1:36381"), environment)
    assert answer.returncode == 3, answer.stdout + answer.stderr
    assert "the object store of the Ray cluster is full" in answer.stderr
    assert f"repair the cluster, then `gemax resume {out}`" in answer.stderr
    assert "Traceback" not in answer.stderr


FILL = """
import sys, time, numpy, ray
ray.init(address=sys.argv[1], log_to_driver=False)
kept, size = [], 2**20
while size >= 2**10:
    try:
        kept.append(ray.put(numpy.zeros(size, numpy.uint8)))
    except (ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError):
        size //= 2
    assert len(kept) < 10_000
print("full", flush=True)
time.sleep(600)
"""


def fill_command(port):
    return [sys.executable, "-c", FILL, f"127.0.0.1:{port}"]
