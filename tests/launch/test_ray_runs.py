"""Several runs on a cluster give the same results as on this machine, also if a worker is killed."""

import os
import subprocess
import sys
import time

import psutil
import pytest
from tests.launch.test_ray import ray_nodes
from tests.runs.children import TINY, flags_of, metrics_but_seconds, started

from gemax.launch.ray_worker import read_files, write_files

SETTINGS = TINY | {"updates": 1500, "checkpoint_every": 100, "updates_per_call": 20}


def command(out, *flags):
    return [
        sys.executable, "-m", "gemax.cli", "train", "two-rooms", "--out", str(out), *flags_of(SETTINGS),
        *map(str, flags),
    ]  # fmt: skip


@pytest.mark.ray
@pytest.mark.fault(58)
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("nothing_left")
def test_a_killed_run_continues_on_another_machine_with_the_same_result(tmp_path, environment, short_folder):
    """The two nodes have different temporary folders, and neither is that of the runs."""
    out, folders = tmp_path / "ray", [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    environments = [environment | {"TMPDIR": str(folder)} for folder in folders]
    with ray_nodes(environments, short_folder, 36382, ["--num-cpus=1"], ["--num-cpus=1"]) as nodes:
        flags = ("--seeds", 2, "--launcher", "ray", "--ray-address", "127.0.0.1:36382")
        with started(command(out, *flags), environment) as child:
            wait_for_checkpoint(child, out)
            workers = [process for node in nodes for process in workers_of(node)]
            assert {process.environ()["TMPDIR"] for process in workers} == set(map(str, folders))
            workers[0].kill()
            output, errors = child.communicate(timeout=600)
    assert child.returncode == 0, output + errors
    # The next worker on its machine has deleted the folder of the killed one.
    assert not [path for folder in folders for path in folder.glob("gemax-run-*")]
    assert "continues from its last checkpoint, because its worker died" in output
    for seed in (0, 1):
        alone = tmp_path / f"alone-{seed}"
        subprocess.run(command(alone, "--seed", seed), env=environment, check=True, capture_output=True)
        assert metrics_but_seconds(out / f"seed-{seed}") == metrics_but_seconds(alone)
    assert sorted(os.listdir(out)) == [
        "config.json",
        "learning_curve.png",
        "seed-0",
        "seed-1",
        "summary.json",
    ]


def wait_for_checkpoint(child, out):
    """Waits until files of both runs have been copied to this machine."""
    end = time.monotonic() + 250
    pattern = "unfinished/seed-*/run/checkpoints/update-*[1-9]00"
    while len({path.parts[-4] for path in out.glob(pattern)}) < 2:
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)


def workers_of(node):
    below = psutil.Process(node.pid).children(recursive=True)
    return [process for process in below if process.name().startswith("ray::NodeWorker")]


def test_copied_files_replace_those_of_the_folder(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    for path in (source / "a" / "new", source / "kept", target / "b" / "old", target / "kept"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(path))
    (source / "unfinished.tmp").touch()
    write_files(target, read_files(source))
    assert read_files(target) == read_files(source)
    assert not (target / "b").exists()


def test_a_record_may_be_a_file(tmp_path):
    (tmp_path / "one").write_bytes(b"content")
    write_files(tmp_path / "two", read_files(tmp_path / "one"))
    assert (tmp_path / "two").read_bytes() == b"content"
