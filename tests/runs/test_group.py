"""Several seeds in one run: each has a complete run directory, and a fault of one does not affect the others."""

import json
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
from tests.runs.children import (
    CONFIG,
    checkpoints,
    cli,
    finish,
    kill_after,
    last_arrays,
    leftovers,
    metrics_but_seconds,
)

import gemax
from gemax.cli import main
from gemax.errors import CheckpointError
from gemax.runs.checkpoint_format import ARRAYS
from gemax.runs.evaluation import load_run
from gemax.runs.metrics_file import read_metrics
from gemax.runs.run_directory import RunDirectory, create_run
from gemax.runs.seed_directories import new_run_path
from gemax.training.config import config_from_json
from gemax.training.nonfinite import RETURNS, nonfinite_metrics

pytestmark = pytest.mark.whole_runs

TWO = CONFIG.replace(seeds=2)
SEEDS = ("seed-0", "seed-1")


def test_every_seed_has_a_complete_run_directory(group):
    for seed, name in enumerate(SEEDS):
        config = config_from_json(RunDirectory(group / name).read_config())
        assert config == CONFIG.replace(seed=seed, grouped=True)
        assert [line["update"] for line in metrics_but_seconds(group / name)] == [2, 4, 6, 8, 10, 12]
        assert RunDirectory(group / name).read_summary()["status"] == "finished"
        assert [folder.name for folder in checkpoints(group / name)] == ["update-00000012"]
        for plot in ("learning_curve.png", "heatmap.png", "embedding.png"):
            assert (group / name / plot).read_bytes().startswith(b"\x89PNG")
    assert config_from_json(RunDirectory(group).read_config()) == TWO
    assert leftovers(group) == []


def test_the_group_logs_the_mean_over_seeds_and_a_summary_of_each(group):
    seeds, means = (
        [read_metrics(group / name / "metrics.jsonl") for name in SEEDS],
        read_metrics(group / "metrics.jsonl"),
    )
    for one, other, mean in zip(*seeds, means, strict=True):
        assert set(mean) == {*one, "seeds", "seeds_solved"}
        assert (mean["update"], mean["seeds"], mean["seeds_solved"]) == (one["update"], 2, 0)
        np.testing.assert_allclose(mean["gem_loss"], (one["gem_loss"] + other["gem_loss"]) / 2)
        assert one["gem_loss"] != other["gem_loss"]
    summary = RunDirectory(group).read_summary()
    assert (summary["status"], summary["updates"], summary["frozen"]) == ("finished", 12, [])
    assert summary["solved"] == {"seeds": 0, "of": 2}
    for seed, of_seed in enumerate(summary["seeds"]):
        assert of_seed.items() <= {"seed": seed, **RunDirectory(group / SEEDS[seed]).read_summary()}.items()


def test_a_seed_of_a_group_learns_the_same_as_alone(group, whole):
    lone, grouped = metrics_but_seconds(whole)[0], metrics_but_seconds(group / "seed-0")[0]
    assert lone.keys() == grouped.keys()
    assert all(lone[name] is grouped[name] is None for name in RETURNS)  # no episode has ended yet
    for name in lone.keys() - set(RETURNS):
        np.testing.assert_allclose(grouped[name], lone[name], rtol=1e-3, atol=1e-5, err_msg=name)


def test_the_checkpoint_of_a_seed_equals_that_of_the_group(group):
    together = load_run(group)
    for seed, name in enumerate(SEEDS):
        alone = load_run(group / name)
        assert list(alone.states) == [seed]
        jax.tree.map(
            np.testing.assert_array_equal, alone.states[seed].parameters, together.states[seed].parameters
        )
    assert gemax.load(group / "seed-1").policy().spec.name == "two-rooms"
    with pytest.raises(ValueError, match=r"holds several policies\. Load one of its seeds: seed-0, seed-1"):
        gemax.load(group).policy()


@pytest.mark.fault(1)
def test_a_group_that_was_killed_stopped_and_extended_ends_like_an_undisturbed_one(
    group, tmp_path, environment
):
    path, shorter = tmp_path / "run", TWO.replace(updates=8)
    assert kill_after(path, "start", environment, 1, 0.05, "slow updates", shorter)
    with pytest.raises(CheckpointError, match="gets one when the group ends or is stopped"):
        load_run(path / "seed-1")
    finish(path, "resume", environment, "signal at update 4", exit_code=143)
    assert RunDirectory(path / "seed-1").read_summary()["status"] == "stopped"
    assert checkpoints(path / "seed-1")[-1].name == checkpoints(path)[-1].name
    answer = cli("resume", path, "--updates", 12, "--tensorboard", environment=environment)
    assert answer.returncode == 0, answer.stderr
    assert "seeds solved" in answer.stdout
    for part in (".", *SEEDS):
        assert last_arrays(path / part) == last_arrays(group / part)
        assert metrics_but_seconds(path / part) == metrics_but_seconds(group / part)
        assert RunDirectory(path / part).read_config() == RunDirectory(group / part).read_config()
    assert leftovers(path) == []
    assert len(list((path / "tensorboard").iterdir())) == 1


@pytest.mark.fault(40, 18)
def test_a_seed_that_is_not_finite_is_frozen_while_the_others_train(group, tmp_path, environment):
    path = tmp_path / "run"
    said = finish(path, "start", environment, "last seed is NaN", TWO, exit_code=5)
    assert "logged Seed 1 is frozen: 10 consecutive updates were not finite, from update 1 on" in said
    assert "seed 1 stopped learning at update 10, because these were not finite:" in said
    summary = RunDirectory(path).read_summary()
    assert (summary["status"], summary["updates"]) == ("finished", 12)
    assert [seed["status"] for seed in summary["seeds"]] == ["finished", "frozen"]
    assert summary["frozen"][0]["update"] == 10
    assert "gem_loss" in summary["frozen"][0]["not_finite"]
    # The other seed is unaffected, and the group's metrics are those of that seed from then on.
    assert last_arrays(path / "seed-0") == last_arrays(group / "seed-0")
    assert metrics_but_seconds(path / "seed-0") == metrics_but_seconds(group / "seed-0")
    assert [line["seeds"] for line in metrics_but_seconds(path)] == [2, 2, 2, 2, 1, 1]
    assert metrics_but_seconds(path)[-1]["gem_loss"] == metrics_but_seconds(path / "seed-0")[-1]["gem_loss"]
    assert [line["update"] for line in metrics_but_seconds(path / "seed-1")] == [2, 4, 6, 8, 10]
    # The count of non-finite updates is part of the checkpoint.
    states = load_run(path).states
    counts = [int(nonfinite_metrics(states[seed])["consecutive_nonfinite"]) for seed in (0, 1)]
    assert counts == [0, 10]


def test_a_group_is_evaluated_seed_by_seed(group, tmp_path, environment):
    path = Path(shutil.copytree(group, tmp_path / "run"))
    newest = checkpoints(path)[-1]
    (newest / ARRAYS).write_bytes(b"")
    answer = cli("evaluate", path, "--episodes", 4, environment=environment | {"COLUMNS": "200"})
    assert answer.returncode == 0, answer.stderr
    assert "Skipped a damaged checkpoint, update 12" in answer.stdout
    assert all(
        f"{who}, {kind}" in answer.stdout
        for who in ("seed 0", "seed 1", "mean")
        for kind in ("sampled", "greedy")
    )
    report = json.loads((path / "evaluation.json").read_text())
    lengths = [seed["sampled"]["length"]["mean"] for seed in report["seeds"]]
    assert report["sampled"]["length"]["mean"] == np.mean(lengths)
    assert [seed["update"] for seed in report["seeds"]] == [10, 10]


def test_a_seed_of_a_group_is_not_resumed_alone(group, capsys):
    assert main(["resume", str(group / "seed-1")]) == 2
    said = capsys.readouterr().err
    assert f"was trained together with other seeds. Resume them all: `gemax resume {group}`" in said
    assert leftovers(group) == []


def test_a_directory_that_holds_a_run_of_one_of_the_seeds_is_refused(tmp_path):
    with create_run(tmp_path / "seed-1", {}):
        pass
    with pytest.raises(ValueError, match="seed-1 already holds a run"):
        new_run_path(TWO, tmp_path)
    new_run_path(CONFIG, tmp_path)
    new_run_path(TWO.replace(seed=2), tmp_path)
