"""Several seeds of a Gymnasium environment: a process and a run directory for each, and one group."""

import contextlib
import io
import json
import os
import shutil
import signal
import sys
import time

import pytest
from tests.envs.host.toys import Counting
from tests.runs.children import started

import gemax
from gemax.cli import main
from gemax.errors import ExitCode
from gemax.runs.metrics_file import read_metrics
from gemax.view.library import Library

pytestmark = pytest.mark.whole_runs

TINY = {
    "method": "rnd", "num_envs": 4, "unroll_length": 4, "unroll_period": 4, "updates": 4, "torso_size": 6,
    "lstm_size": 5, "head_size": 5, "embedding_size": 3, "time_buckets": 3, "episodic_weight": 0.0,
    "checkpoint_every": 2, "horizon": 5,
}  # fmt: skip
SEEDS = ("seed-0", "seed-1")
LATE_STEP = 9
"""After the first update, and before the last."""


class FailsOnce(Counting):
    """Raises an exception in one process, the first that gets so far. It writes the file `SCAR` first."""

    num_steps = 0

    def step(self, action):
        self.num_steps += 1
        if self.num_steps == LATE_STEP:
            try:
                os.close(os.open(os.environ["SCAR"], os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                raise RuntimeError("the simulator is gone")
        return super().step(action)


class Slow(Counting):
    """Takes a while, so that a run can be stopped."""

    def step(self, action):
        time.sleep(0.01)
        return super().step(action)


def flags(env, out, settings=TINY):
    named = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    return ["train", f"gym:{__name__}:{env.__name__}", "--seeds", "2", *named, "--out", str(out)]


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """A group of two seeds, one of which failed: its directory, what was printed, and the exit code."""
    folder = tmp_path_factory.mktemp("seeds")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCAR", str(folder / "scar"))
        with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
            code = main(flags(FailsOnce, folder / "group"))
        yield folder / "group", said.getvalue(), code


@pytest.fixture(scope="module")
def finished(failed, tmp_path_factory):
    """A copy of the group, resumed to its end."""
    path = tmp_path_factory.mktemp("finished") / "group"
    shutil.copytree(failed[0], path)
    assert main(["resume", str(path)]) == 0
    return path


def test_a_seed_that_fails_leaves_the_others_running_and_the_exit_code_says_so(failed):
    path, _, code = failed
    assert code == ExitCode.INCOMPLETE
    run = gemax.load(path)
    assert run.summary["status"] == "stopped"
    (failed_seed, updates), (other, all_updates) = sorted(
        (seed.summary["status"], seed.summary["updates"]) for seed in run.seeds.values()
    )[::-1]
    assert (failed_seed, other, all_updates) == ("stopped", "finished", 4)
    assert 0 < updates < 4


def test_the_progress_of_all_seeds_is_shown(failed):
    _, said, _ = failed
    assert "Run directory:" in said
    assert "seeds at " in said
    assert "1 of 2 seeds failed. The other seeds are finished." in said
    assert "raised RuntimeError: the simulator is gone" in said


def test_resuming_the_group_trains_the_seed_that_failed(finished):
    assert sorted(path.name for path in finished.iterdir()) == [
        "config.json",
        "learning_curve.png",
        *SEEDS,
        "summary.json",
    ]
    for name in SEEDS:
        assert [line["update"] for line in read_metrics(finished / name / "metrics.jsonl")] == [1, 2, 3, 4]
        assert json.loads((finished / name / "config.json").read_text())["run"]["seeds"] == 1
    summary = json.loads((finished / "summary.json").read_text())
    assert (summary["status"], summary["updates"], summary["solved"]["of"]) == ("finished", 4, 2)
    assert [seed["seed"] for seed in summary["seeds"]] == [0, 1]


def test_the_handle_of_the_group_has_means_over_its_seeds(finished):
    run = gemax.load(finished)
    first, second = (seed.metrics["policy_loss"] for seed in run.seeds.values())
    assert (first != second).any()
    assert run.metrics["policy_loss"] == pytest.approx((first + second) / 2)
    assert "2 seeds, finished after 4 of 4 updates" in repr(run)
    assert "<img" in run._repr_html_()
    with pytest.raises(ValueError, match=r"holds several policies\. Load one of its seeds: seed-0, seed-1"):
        run.policy()
    assert run.plot().axes


def test_evaluate_compare_and_view_accept_the_group(finished, capsys):
    report = gemax.evaluate(finished, episodes=4)
    assert [seed["seed"] for seed in report["seeds"]] == [0, 1]
    (row,) = gemax.compare(finished).rows
    assert row[1:3] == ["RND", "2"]
    assert [entry["name"] for entry in Library(finished).index()["runs"]] == list(SEEDS)
    # Nothing is left to do.
    assert main(["resume", str(finished)]) == 0
    assert "All 2 seeds are finished." in capsys.readouterr().out


def test_what_another_process_cannot_import_is_refused_before_anything_is_written(tmp_path):
    out = tmp_path / "out"
    with pytest.raises(
        ValueError, match="seeds must be 1 for an environment that cannot be imported by its name"
    ):
        gemax.train(lambda: Counting(), seeds=2, out=out)
    with pytest.raises(ValueError, match="seeds must be 1 with a custom reward or similarity"):
        gemax.train(Counting, seeds=2, out=out, similarity=lambda a, b: a @ b.T)
    with pytest.raises(ValueError, match="NoSuchEnv"):
        gemax.train("gym:NoSuchEnv-v0", seeds=2, out=out)
    assert not out.exists()


def test_flags_that_do_not_fit_to_several_seeds_are_refused(finished, capsys):
    assert main(["resume", str(finished), "--checkpoint", "best"]) == 2
    assert "checkpoint best is for one run, and" in capsys.readouterr().err
    ray = ["--launcher", "ray", "--actors", "2"]
    assert main(["train", "gym:CartPole-v1", "--seeds", "2", *ray]) == 2
    assert "actors are for one seed; got 2 seeds" in capsys.readouterr().err


SCRIPT = """
import gemax
from toy import Counting

run = gemax.train(Counting, seeds=2, out="group", vectorization_mode="async", num_workers=1, **{settings})
print(sorted(run.seeds), run.summary["status"])
"""


@pytest.mark.slow
def test_a_script_needs_no_main_guard_and_environments_may_have_processes(tmp_path):
    """A process that imported the script would train again."""
    shutil.copy(sys.modules[Counting.__module__].__file__, tmp_path / "toy.py")
    (tmp_path / "script.py").write_text(SCRIPT.format(settings=TINY))
    with started(
        [sys.executable, "script.py"], os.environ | {"PYTHONUNBUFFERED": "1"}, cwd=tmp_path
    ) as child:
        output, errors = child.communicate(timeout=300)
    assert output.strip().endswith("[0, 1] finished"), output + errors
    assert {*os.listdir(tmp_path)} - {"__pycache__"} == {"group", "script.py", "toy.py"}


@pytest.mark.slow
def test_a_group_that_is_stopped_continues_where_it_was_and_can_be_extended(tmp_path):
    settings, out = {**TINY, "updates": 2000}, tmp_path / "group"
    command = [sys.executable, "-m", "gemax.cli", *flags(Slow, out, settings)]
    with started(command, os.environ | {"PYTHONUNBUFFERED": "1"}) as child:
        while not all(
            (out / name / "metrics.jsonl").exists() for name in SEEDS[: len(os.sched_getaffinity(0))]
        ):
            assert child.poll() is None, child.communicate()
            time.sleep(0.1)
        time.sleep(3.0)
        child.send_signal(signal.SIGTERM)
        output, errors = child.communicate(timeout=120)
    assert child.returncode == 128 + signal.SIGTERM, output + errors
    assert f"Continue with `gemax resume {out}`" in output
    reached = max(seed.summary["updates"] for seed in gemax.load(out).seeds.values())
    run = gemax.load(out).resume(updates=reached + 3)
    assert [seed.summary["updates"] for seed in run.seeds.values()] == [reached + 3] * 2
