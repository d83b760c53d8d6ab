"""Fuzzing: valid files, configurations and command lines are damaged at random, and gemax reads them.

An input may be read or refused with gemax's own error. Anything else is a crash: another exception, an input that
takes longer than `MAX_SECONDS`, or a file outside of the target's folder. Run `make fuzz` for a million inputs.
"""

import argparse
import contextlib
import json
import random
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

MAX_SECONDS = 5.0
"""Inputs that need more processor time count as hangs."""
TOKENS = [
    b"", b"\0", b"\n", b"\xff\xfe", b"\xef\xbb\xbf", b"{", b"}", b"[" * 500, b'"', b"\\u0000", b"NaN", b"-Infinity",
    b"1e999", b"9" * 400, b"-1", b"null", b"true", b"../../x", b"\xf0\x9f\x92\xa9", b"__class__", b"%s%n", b"rooms:",
]  # fmt: skip
VALUES = [
    None, True, False, 0, -1, 1, 2**31, 2**32, 2**64, 10**400, 1.5, -0.0, 1e308, "", "0", "gym:os:x", "../x", "x" * 300,
    "\0", "ü", [], [1], [[]], {}, {"a": 1}, {"env": None}, 10**12,
]  # fmt: skip


class Target(NamedTuple):
    """One reader of gemax."""

    make_input: Callable[[random.Random], Any]
    read: Callable[[Any], None]
    share: float
    """Share of the inputs. Slow readers have a smaller one."""


def mutate(dice: random.Random, content: bytes) -> bytes:
    """Returns content with a few random changes: bits, cuts, repetitions and tokens."""
    data = bytearray(content)
    for _ in range(dice.choice([1, 1, 2, 4, 16])):
        position = dice.randrange(len(data) + 1)
        kind = dice.randrange(5)
        if kind == 0 and data:
            data[position % len(data)] ^= 1 << dice.randrange(8)
        elif kind == 1:
            del data[position : position + dice.randrange(1, 64)]
        elif kind == 2:
            data[position:position] = data[position : position + dice.randrange(1, 64)] * dice.randrange(1, 4)
        elif kind == 3:
            data[position:position] = dice.choice(TOKENS)
        else:
            data[position : position + 1] = bytes([dice.randrange(256)])
    return bytes(data)


def mutate_json(dice: random.Random, content: Any) -> Any:
    """Returns JSON content with one value replaced, renamed or removed."""
    content = json.loads(json.dumps(content))
    place = content
    while isinstance(place, dict | list) and place:
        key = dice.choice(list(place)) if isinstance(place, dict) else dice.randrange(len(place))
        if not isinstance(place[key], dict | list) or not place[key] or dice.random() < 0.3:
            change = dice.randrange(3)
            if change == 0:
                del place[key]
            elif change == 1 and isinstance(place, dict):
                place[str(dice.choice(VALUES))[:50]] = place.pop(key)
            else:
                place[key] = dice.choice(VALUES)
            break
        place = place[key]
    return content


def make_targets(folder: Path) -> dict[str, Target]:
    """Returns all targets. They write to the folder only."""
    import jax.numpy as jnp

    from gemax.envs.maps import parse_map, read_map
    from gemax.experiments import records
    from gemax.experiments.damaged import is_readable
    from gemax.experiments.explore import records as explore_records
    from gemax.runs import checkpoint_format as form
    from gemax.runs.metrics_file import read_metrics, rewind_metrics
    from gemax.runs.run_directory import CONFIG, RunDirectory
    from gemax.training.config import Config, config_from_json

    maps = [
        b"rooms: 1x2\n#S..#\n#.K.#\n#D###\n#..G#\n#...#\n#####\n#####\n",
        b"S..\n.#.\n..G\n",
        b"S" + b"." * 60 + b"G\n",
    ]
    config = Config().to_json()
    config_text = json.dumps(config).encode()
    metrics = b"".join(b'{"update": %d, "return": 0.5, "loss": null}\n' % n for n in range(1, 6))
    files = form.encode_checkpoint(3, {"a": jnp.arange(4.0), "b": jnp.zeros((2, 3))}, {"seconds": 1.0})
    manifest = {name: value for name, value in json.loads(files[form.MANIFEST]).items() if name != "seal"}
    record = json.dumps({"config": config, "task": "x", "curve": {"frames": [1, 2]}}).encode()
    arrays_path = folder / "record.npz"
    curves = {f"curve_{name}": np.zeros(3, np.float32) for name in records.CURVES}
    texts = {
        name: np.frombuffer(text, np.uint8) for name, text in (("config", config_text), ("summary", b"{}"))
    }
    np.savez_compressed(arrays_path, allow_pickle=False, visits=np.zeros(3, np.float32), **curves, **texts)
    npz = arrays_path.read_bytes()

    def write(name: str, content: bytes) -> Path:
        path = folder / name
        path.write_bytes(content)
        return path

    def read_map_file(content: bytes) -> None:
        read_map(write("map.txt", content))

    def read_config(content: bytes) -> None:
        write(CONFIG, content)
        config_from_json(RunDirectory(folder).read_config())
        assert not RunDirectory(folder).is_own

    def read_metrics_file(content: bytes) -> None:
        path = write("metrics.jsonl", content)
        with contextlib.suppress(ValueError):
            read_metrics(path)
        assert len(rewind_metrics(path, 3)) <= 6
        assert all(line["update"] <= 3 for line in read_metrics(path))

    def read_checkpoint(content: dict[str, bytes]) -> None:
        for name, text in content.items():
            write(name, text)
        with contextlib.suppress(form.DamagedCheckpointError):
            form.read_checkpoint(folder, None)

    def sealed(dice: random.Random) -> dict[str, bytes]:
        """A manifest with another content and a correct seal."""
        return {**files, form.MANIFEST: form._seal(mutate_json(dice, manifest))}

    def headers(dice: random.Random) -> dict[str, bytes]:
        """Damaged arrays with a correct checksum and seal."""
        import hashlib

        arrays = mutate(dice, files[form.ARRAYS][:200]) + files[form.ARRAYS][200:]
        facts = {"bytes": len(arrays), "sha256": hashlib.sha256(arrays).hexdigest()}
        return {form.ARRAYS: arrays, form.MANIFEST: form._seal({**manifest, "arrays": facts})}

    def read_record(content: bytes) -> None:
        is_readable(write("record.npz", content), lambda path: records.is_record_of(path, Config()))

    def read_explore_record(content: bytes) -> None:
        is_readable(write("record.json", content), lambda path: explore_records.is_record_of(path, Config()))

    def parse_arguments(arguments: list[str]) -> None:
        from gemax.cli.train import config_of, parse_flags

        quiet = contextlib.redirect_stdout(None), contextlib.redirect_stderr(None)
        with quiet[0], quiet[1], contextlib.suppress(SystemExit):
            config_of(parse_flags(arguments))

    flags = [
        "--seed",
        "--updates",
        "--num-envs",
        "--out",
        "--method",
        "--map",
        "--preset",
        "--horizon",
        "--from",
    ]

    def command_line(dice: random.Random) -> list[str]:
        values = [str(value).replace("\0", "?") for value in VALUES] + [
            "gem",
            "two-rooms",
            "--",
            "-h",
            "--seed",
        ]
        words = [dice.choice(flags + values) for _ in range(dice.randrange(1, 6))]
        return [dice.choice(["two-rooms", "gym:CartPole-v1", "", "two-room", "\ufffd"]), *words]

    return {
        "maps": Target(
            lambda dice: mutate(dice, dice.choice(maps)).decode("latin-1"), parse_map_of(parse_map), 0.25
        ),
        "map files": Target(lambda dice: mutate(dice, dice.choice(maps)), read_map_file, 0.1),
        "configurations": Target(lambda dice: mutate(dice, config_text), read_config, 0.1),
        "configuration values": Target(
            lambda dice: json.dumps(mutate_json(dice, config)).encode(), read_config, 0.1
        ),
        "metrics.jsonl": Target(lambda dice: mutate(dice, metrics), read_metrics_file, 0.15),
        "manifests": Target(
            lambda dice: {**files, form.MANIFEST: mutate(dice, files[form.MANIFEST])}, read_checkpoint, 0.1
        ),
        "sealed manifests": Target(sealed, read_checkpoint, 0.05),
        "safetensors headers": Target(headers, read_checkpoint, 0.05),
        "records": Target(lambda dice: mutate(dice, npz), read_record, 0.045),
        "bench records": Target(lambda dice: mutate(dice, record), read_explore_record, 0.05),
        "command lines": Target(command_line, parse_arguments, 0.0005),
        "spaces and observations": Target(random_space, read_space, 0.0045),
    }


def parse_map_of(parse: Callable[[str], Any]) -> Callable[[str], None]:
    def read(text: str) -> None:
        parse(text)

    return read


def random_space(dice: random.Random) -> tuple[Any, Any]:
    """A Gymnasium space, and an observation that may not be in it."""
    from gymnasium import spaces

    def leaf() -> Any:
        shape = tuple(dice.choice([0, 1, 2, 3, 8]) for _ in range(dice.randrange(4)))
        dtype = dice.choice([np.float32, np.float64, np.uint8, np.int64])
        kind = dice.randrange(6)
        if kind == 0:
            return spaces.Discrete(dice.choice([1, 2, 300]), start=dice.choice([-5, 0, 7]))
        if kind == 1:
            return spaces.MultiDiscrete([dice.choice([1, 2, 9]) for _ in range(dice.randrange(1, 4))])
        if kind == 2:
            return spaces.MultiBinary(dice.choice([1, 5]))
        if kind == 3:
            return spaces.Text(5)
        low, high = (0, 255) if dtype is np.uint8 else dice.choice([(-1, 1), (0, 10), (-(2**20), 2**20)])
        return spaces.Box(low, high, shape, dtype)

    def tree(depth: int) -> Any:
        if depth == 0 or dice.random() < 0.5:
            return leaf()
        parts = [tree(depth - 1) for _ in range(dice.randrange(1, 4))]
        return (
            spaces.Tuple(parts)
            if dice.random() < 0.5
            else spaces.Dict({str(i): p for i, p in enumerate(parts)})
        )

    space = tree(2)
    observation = space.sample() if dice.random() < 0.5 else tree(1).sample()
    garbage = [None, "text", np.nan, [], {}, np.full((2, 2), np.inf), np.zeros((2, 0)), {"0": None}, (1,)]
    return space, observation if dice.random() < 0.8 else dice.choice(garbage)


def read_space(drawn: tuple[Any, Any]) -> None:
    from gemax.envs.host.actions import action_decoder
    from gemax.envs.host.checks import space_check
    from gemax.envs.host.observations import observation_encoder

    space, observation = drawn
    with contextlib.suppress(ValueError):
        action_decoder(space)
    encoder = observation_encoder(space)
    if space_check(space)(observation) is None:
        encoded = encoder.encode_one(observation)
        assert encoded.shape == encoder.shape
        assert np.isfinite(encoded.astype(float)).all()


class Crash(NamedTuple):
    """An input that was neither read nor refused."""

    target: str
    content: Any
    message: str


def fuzz(name: str, target: Target, num_inputs: int, seed: int = 0) -> tuple[Counter, list[Crash]]:
    """Reads random inputs. Returns how many were read and refused, and the crashes."""
    from gemax.cli.failures import describe_failure
    from gemax.errors import ExitCode

    dice, outcomes, crashes = random.Random(seed), Counter(), []
    for _ in range(num_inputs):
        content, started = target.make_input(dice), time.process_time()
        try:
            target.read(content)
            outcomes["read"] += 1
        except Exception as error:
            message, exit_code = describe_failure(error)
            outcomes["refused"] += 1
            if exit_code == ExitCode.INCOMPLETE:
                crashes.append(Crash(name, content, message))
        if time.process_time() - started > MAX_SECONDS:
            crashes.append(Crash(name, content, "hangs"))
    return outcomes, crashes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    report, num_crashes = {}, 0
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shm if shm.is_dir() else None) as folder:
        for name, target in make_targets(Path(folder)).items():
            num_inputs = max(1, round(target.share * options.inputs))
            outcomes, crashes = fuzz(name, target, num_inputs, options.seed)
            report[name] = {"inputs": num_inputs, **outcomes, "crashes": len(crashes)}
            num_crashes += len(crashes)
            print(name, report[name], flush=True)
            for crash in crashes[:3]:
                print(f"  {str(crash.content)[:300]!r}\n  {crash.message[-600:]}", flush=True)
            if options.out is not None:
                options.out.write_text(json.dumps({"seed": options.seed, "targets": report}, indent=2) + "\n")
    raise SystemExit(1 if num_crashes else 0)


if __name__ == "__main__":
    main()
