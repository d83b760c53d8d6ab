"""`record`, `compare`, `resume` with changed settings, `doctor`, and names from other libraries."""

import itertools
import json
import re

import pytest
from PIL import Image
from tests.runs.untrained import TINY, untrained

import gemax
from gemax.cli import main
from gemax.cli.doctor import untested, verdict
from gemax.runs.metrics_file import append_metrics
from gemax.runs.run_directory import create_run
from gemax.training.presets import configure


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return untrained(tmp_path_factory.mktemp("runs") / "run", "two-rooms")


def test_record_writes_a_film_into_the_run(run, capsys):
    assert main(["record", str(run), "--episodes", "1", "--fps", "20"]) == 0
    assert re.search(r"Film: .*episode.gif \(\d+ kB\)", capsys.readouterr().out)
    with Image.open(run / "episode.gif") as film:
        assert film.n_frames > 5
        assert film.info["duration"] == 50


def fake_run(path, method, seed, returns, **settings):
    config = configure("two-rooms", **(TINY | {"method": method, "seed": seed} | settings))
    with create_run(path, config.to_json()) as directory:
        pass
    for number, value in enumerate(returns, 1):
        line = {"frames": 100 * number, "recent_return": value, "episodes": 200.0, "return": value}
        append_metrics(directory.metrics, number, line)
    directory.write_summary(
        {"status": "finished", "updates": len(returns), "frames": 100 * len(returns), "seconds": 2.0}
        | {"recent_return": returns[-1], "visitation_entropy": 3.0, "entropy_ceiling": 4.0}
    )
    return path


def test_compare_groups_runs_by_method_with_intervals(tmp_path, capsys):
    runs = [
        fake_run(tmp_path / f"{method}-{seed}", method, seed, [0.0, 0.1, end])
        for method, seed, end in (("gem", 0, 0.9), ("gem", 1, 0.7), ("rnd", 0, 0.2))
    ]
    assert main(["compare", *map(str, runs), "--out", str(tmp_path / "compare.png")]) == 0
    assert "GEM" in capsys.readouterr().out
    assert (tmp_path / "compare.png").read_bytes().startswith(b"\x89PNG")
    comparison = gemax.compare(*runs)
    gem, rnd = comparison.rows
    # Student's t with one degree of freedom: 12.706 · 0.1414 / √2 = 1.27
    assert gem[:5] == ["two-rooms", "GEM", "2", "0.8 ± 1.27", "–"]
    assert rnd[:4] == ["two-rooms", "RND", "1", "0.2"]
    assert gem[5] == "75.0%"
    (axis,) = comparison.figure.axes
    assert [line.get_label() for line in axis.lines] == ["GEM (2)", "RND (1)"]
    assert axis.lines[0].get_ydata()[-1] == pytest.approx(0.8)
    assert comparison._repr_html_().count("<tr>") == 3


def test_compare_names_the_settings_in_which_groups_differ(tmp_path):
    """All runs have tiny networks, which are not named. Seed and length do not divide them."""
    runs = [
        fake_run(tmp_path / "a", "gem", 0, [0.1, 0.2]),
        fake_run(tmp_path / "b", "gem", 1, [0.1, 0.2], updates=9),
        fake_run(tmp_path / "c", "gem", 0, [0.1, 0.3], learning_rate=3e-4, lstm_size=7),
        fake_run(tmp_path / "d", "rnd", 0, [0.1, 0.3]),
    ]
    comparison = gemax.compare(*runs)
    assert [row[1:3] for row in comparison.rows] == [
        ["GEM, lstm_size 5", "2"],
        ["GEM, learning_rate 0.0003, lstm_size 7", "1"],
        ["RND, lstm_size 5", "1"],
    ]
    (axis,) = comparison.figure.axes
    assert [line.get_linestyle() for line in axis.lines] == ["-", "--", "-"]
    assert axis.lines[1].get_label() == "GEM, learning_rate 0.0003, lstm_size\n7 (1)"


def test_compare_needs_runs_that_exist(tmp_path, capsys):
    assert main(["compare", str(tmp_path / "nowhere")]) == 2
    assert f"there is no run at {tmp_path / 'nowhere'}" in capsys.readouterr().err


def test_settings_that_are_safe_to_change_are_changed_and_others_refused_by_name(tmp_path, capsys):
    path = untrained(tmp_path / "run", "two-rooms")
    before = (path / "config.json").read_bytes()
    assert main(["resume", str(path), "--num-envs", "16"]) == 2
    assert "num_envs cannot be changed in a run that exists. Train a new run" in capsys.readouterr().err
    with pytest.raises(ValueError, match="lstm_size cannot be changed in a run that exists"):
        gemax.load(path).resume(lstm_size=3)
    assert (path / "config.json").read_bytes() == before
    assert main(["resume", str(path), "--learning-rate", "0.5", "--stop-at-return=0.9"]) == 0
    config = json.loads((path / "config.json").read_text())
    assert (config["agent"]["learning_rate"], config["run"]["stop_at_return"]) == (0.5, 0.9)
    assert gemax.load(path).summary["updates"] == TINY["updates"]


@pytest.mark.fault(43, times=3)
def test_doctor_lists_extras_and_ends_with_a_verdict(capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "stable-baselines3  installed" in out
    assert out.splitlines()[-1].startswith("gemax works here, with versions that the tests run with.")
    assert untested("3.13.1", "0.10.0", ["cpu"]) == ["Python 3.13.1; the tests run on 3.11."]
    assert untested("3.11.9", "0.9.2", ["cpu"]) == ["jax 0.9.2; the tests run on 0.10."]
    assert untested("3.11.9", "0.10.0", ["cpu"], has_avx2=False) == [
        "a CPU without AVX2; the tests run on CPUs that have it."
    ]
    assert "untested" in verdict(["Python 3.13.1; …"], works=True)
    assert "does not work" in verdict([], works=False)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("total_timesteps", "In gemax it is frames."),
        ("lr", "In gemax it is learning_rate."),
        ("n_envs", "In gemax it is num_envs."),
        ("gamma", "In gemax it is discount."),
        ("ent_coef", "In gemax it is entropy_cost."),
        ("n_steps", "In gemax it is unroll_length."),
        ("device", "set the environment variable JAX_PLATFORMS"),
    ],
)
def test_names_from_elsewhere_are_answered_with_ours(name, hint, capsys):
    with pytest.raises(
        ValueError, match=rf"there is no setting '{name}'\. .*{re.escape(hint)}|{re.escape(hint)}"
    ):
        configure("two-rooms", **{name: 1})
    for verb in ("train", "resume"):
        assert main([verb, "two-rooms", f"--{name.replace('_', '-')}", "1"]) == 2
    error = capsys.readouterr().err
    assert f"there is no flag --{name.replace('_', '-')}." in error
    assert ("JAX_PLATFORMS" if name == "device" else f"--{hint[15:-1].replace('_', '-')}") in error


@pytest.mark.parametrize(
    ("env_id", "setting"),
    [
        ("two-rooms", {"horizon": 7}),
        ("two-rooms", {"vectorization_mode": "async"}),
        ("two-rooms", {"on_env_fault": "restart"}),
        ("mountain-car", {"observation": "cells"}),
        ("gym:CartPole-v1", {"observation": "cells"}),
    ],
)
def test_settings_without_an_effect_are_refused(env_id, setting, capsys):
    (name, value) = next(iter(setting.items()))
    with pytest.raises(ValueError, match=f"{name} has no effect in {env_id}. Leave it out"):
        configure(env_id, **setting)
    assert main(["train", env_id, f"--{name.replace('_', '-')}={value}"]) == 2
    assert f"{name} has no effect in {env_id}" in capsys.readouterr().err


def test_an_id_of_gymnasium_without_its_prefix_is_recognised(tmp_path, capsys):
    assert main(["train", "MountainCar-v0", "--out", str(tmp_path / "run")]) == 2
    assert "Did you mean gym:MountainCar-v0?" in capsys.readouterr().err


def test_a_map_file_in_place_of_an_environment_is_recognised(tmp_path, capsys):
    assert main(["train", "maps/cross.txt", "--out", str(tmp_path / "run")]) == 2
    assert "Did you mean --map maps/cross.txt?" in capsys.readouterr().err


def test_a_command_that_does_not_exist_is_answered_with_a_similar_one(capsys):
    assert main(["trian"]) == 2
    assert "there is no command 'trian'. Did you mean train?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "verb", ["train", "resume", "evaluate", "record", "collect", "reproduce", "view", "bench"]
)
def test_help_has_no_lines_that_break_in_the_middle(verb, monkeypatch, capsys):
    """A line of an argument is short only if the next word did not fit, or if the argument ends there."""
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    lines = [line[1:-1].rstrip() for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    for line, following in itertools.pairwise(lines):
        indent = len(following) - len(following.lstrip())
        if indent > 10 and len(line) > indent and line[indent - 1] == " " and line[indent] != " ":
            assert len(line) + 1 + len(following.split()[0]) > 96, (line, following)
