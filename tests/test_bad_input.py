"""Absurd values get one sentence: wrong types, huge seeds, empty paths, garbage in files, sizes that do not fit."""

import json
import os
import subprocess
import sys

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest

from gemax.cli import main
from gemax.cli.failures import describe_failure
from gemax.core.moments import (
    init_moments,
    init_scale,
    update_moments,
    update_observation_moments,
    update_scale,
)
from gemax.envs.gridworld import MAX_OPEN_SIDE, gridworld
from gemax.envs.host.actions import action_decoder
from gemax.envs.host.checks import finite_number, space_check
from gemax.envs.host.observations import observation_encoder
from gemax.envs.maps import MapError, parse_map, read_map
from gemax.errors import EnvFault, ExitCode
from gemax.runs.checkpoint_format import MANIFEST, DamagedCheckpointError, encode_checkpoint, read_checkpoint
from gemax.runs.metrics_file import rewind_metrics
from gemax.training.compiled import MAX_UPDATES_PER_CALL, updates_per_call
from gemax.training.config import Config, config_from_json


def one_line(capsys):
    (line,) = capsys.readouterr().err.splitlines()
    return line


# Configurations


@pytest.mark.fault(56)
@pytest.mark.parametrize(
    ("section", "name", "value", "words"),
    [
        ("run", "seed", "0", "seed must be an integer; got '0'"),
        ("run", "seed", True, "seed must be an integer; got True"),
        ("run", "seed", 2**32, r"seed must be at least 0 and below 2\*\*32; got 4294967296"),
        ("run", "updates", 1.5, "updates must be an integer; got 1.5"),
        ("agent", "learning_rate", "fast", "learning_rate must be a number; got 'fast'"),
        ("env", "reward_free", "no", "reward_free must be true or false; got 'no'"),
        ("env", "env_id", None, "env_id must be text; got None"),
        ("env", "num_envs", [64], r"num_envs must be an integer; got \[64\]"),
    ],
)
def test_a_value_of_another_type_is_refused(section, name, value, words):
    content = Config().to_json()
    content[section][name] = value
    with pytest.raises(ValueError, match=words):
        config_from_json(content)


@pytest.mark.fault(56)
def test_the_last_of_several_seeds_must_be_a_seed_too():
    with pytest.raises(ValueError, match="the last seed must be"):
        Config().replace(seed=2**32 - 2, seeds=3)


@pytest.mark.fault(56)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--out", ""], "out must name a folder for the run"),
        (["--seed", "99999999999999999999"], "seed must be at least 0 and below 2**32"),
        (["--learning-rate", "nan"], "learning_rate must be"),
    ],
)
def test_absurd_arguments_are_refused_before_a_folder_is_created(
    arguments, words, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "two-rooms", *arguments]) == ExitCode.USAGE
    assert words in one_line(capsys)
    assert list(tmp_path.iterdir()) == []


# Files


@pytest.mark.fault(56)
def test_a_map_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "map.txt").write_bytes(b"\xef\xbb\xbfS.\n.G\n")
    assert read_map(tmp_path / "map.txt").rows == ("S.", ".G")


@pytest.mark.fault(56)
def test_a_metrics_file_of_garbage_gives_few_messages(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(os.urandom(2**22).replace(b"\n", b"\n\n") + b'\n{"update": 1}\n')
    messages = rewind_metrics(path, 5)
    assert len(messages) == 6
    assert messages[-1].endswith("for the same reason.")
    assert path.read_bytes() == b'{"update": 1}\n'


@pytest.mark.fault(56)
@pytest.mark.parametrize("field", ["format", "update", "arrays", "leaves", "metadata", "seal"])
def test_a_manifest_without_a_field_is_damaged(field, tmp_path):
    for name, content in encode_checkpoint(1, {"a": jnp.zeros(2)}, {}).items():
        (tmp_path / name).write_bytes(content)
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    del manifest[field]
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(DamagedCheckpointError):
        read_checkpoint(tmp_path, 1)


# Spaces and rewards


@pytest.mark.fault(56, times=2)
def test_empty_spaces_are_refused():
    with pytest.raises(ValueError, match="observation space must not be empty"):
        observation_encoder(gymnasium.spaces.Box(-1, 1, (0,)))
    with pytest.raises(ValueError, match="action space must not be empty"):
        action_decoder(gymnasium.spaces.Box(-1, 1, (0,)))


@pytest.mark.fault(56, times=3)
def test_one_absurd_value_does_not_spoil_the_moments():
    normal, absurd = jnp.asarray([1.0, 2.0, 3.0]), jnp.asarray([1.0, 2.0, 1e30])
    for init, update in ((init_moments, update_moments), (init_scale, update_scale)):
        state = update(update(update(init(), normal), absurd), normal)
        assert all(np.isfinite(part) for part in state)
        assert float(state.mean) == pytest.approx(2.0)
    moments = init_moments((1,))
    for batch in (normal, absurd, normal):
        moments = update_observation_moments(moments, batch[:, None])
    assert np.isfinite(moments.variance).all()
    assert moments.mean[0] == pytest.approx(2.0)


@pytest.mark.fault(56, times=2)
def test_numbers_that_are_infinite_in_float32_are_refused():
    check = space_check(gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64))
    assert check(np.array([0.0, -3.5e38])) == "observation must fit into float32; got -3.5e+38 at [1]"
    assert check(np.array([0.0, -3.4e38])) is None
    assert (finite_number(1e300), finite_number(3e38)) == (None, 3e38)


# Sizes


@pytest.mark.fault(52, times=2)
def test_maps_that_do_not_fit_are_refused_with_the_size_that_does():
    def open_map(side, goals="G"):
        rows = ["S" + "." * (side - 2) + "G"] + ["." * side] * (side - 2) + [(goals * side)[:side]]
        return parse_map("\n".join(rows) + "\n")

    with pytest.raises(
        MapError, match=rf"128 × 128 .* needs a table of 3\.\d GiB .* {MAX_OPEN_SIDE} × {MAX_OPEN_SIDE}"
    ):
        gridworld("open", open_map(128, "."), 300)
    with pytest.raises(MapError, match="more than 50,000 states"):
        gridworld("goals", open_map(40), 300)


@pytest.mark.fault(52)
def test_the_largest_number_of_updates_per_call_is_found_at_once():
    assert updates_per_call(10**9, 10**9) == MAX_UPDATES_PER_CALL
    assert updates_per_call(500, 10**9) == 500
    assert updates_per_call(500, 300, reached=20) == 20
    assert updates_per_call(7, 5) == 1


@pytest.mark.fault(52)
@pytest.mark.parametrize(
    "error",
    [
        MemoryError("Unable to allocate 93.1 GiB for an array"),
        RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 99999999 bytes."),
    ],
)
def test_out_of_memory_is_one_line_with_what_to_lower(error):
    message, exit_code = describe_failure(error)
    assert exit_code == ExitCode.USAGE
    assert message.count("\n") == 0
    assert "out of memory while allocating" in message
    assert "Lower num_envs" in message


# Exit codes


def raised(error):
    try:
        raise error
    except type(error) as caught:
        return caught


def test_a_defect_of_gemax_says_so_with_its_traceback():
    message, exit_code = describe_failure(raised(KeyError("missing")))
    assert exit_code == ExitCode.INCOMPLETE
    assert "Traceback" in message
    assert message.endswith("output of `gemax doctor`.")
    # Not raised by gemax itself: a library was called with a wrong value.
    assert "Traceback" in describe_failure(raised(ValueError("shapes do not match")))[0]


def test_errors_of_users_are_one_line():
    for error, exit_code in ((EnvFault("env 1 failed."), 3), (OSError(28, "No space left on device"), 2)):
        message, code = describe_failure(raised(error))
        assert (code, message.count("\n")) == (exit_code, 0)


@pytest.mark.fault(52)
def test_an_update_that_cannot_fit_is_refused_with_the_number_that_may(capsys, tmp_path):
    assert main(["train", "two-rooms", "--num-envs", str(10**8), "--out", str(tmp_path / "run")]) == 2
    line = one_line(capsys)
    assert "GB are available. Lower num_envs to about" in line
    assert not (tmp_path / "run").exists()


@pytest.mark.fault(52)
def test_the_limit_of_a_process_counts():
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**34, 2**34));"
        "from gemax.training.memory import available_bytes; assert available_bytes() <= 2**34"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=240)
