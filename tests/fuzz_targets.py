"""What the fuzzer reads: the parsers of gemax, valid inputs to begin with, and damage that is done to them.

Targets whose inputs are bytes have `seeds`: both the mutator below and atheris start from them.
"""

import contextlib
import functools
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

TOKENS = [
    b"", b"\0", b"\n", b"\xff\xfe", b"\xef\xbb\xbf", b"{", b"}", b"[" * 500, b'"', b"\\u0000", b"NaN", b"-Infinity",
    b"1e999", b"9" * 400, b"-1", b"null", b"true", b"../../x", b"\xf0\x9f\x92\xa9", b"__class__", b"%s%n", b"rooms:",
]  # fmt: skip
VALUES = [
    None, True, False, 0, -1, 1, 2**31, 2**32, 2**64, 10**400, 1.5, -0.0, 1e308, "", "0", "gym:os:x", "../x", "x" * 300,
    "\0", "ü", [], [1], [[]], {}, {"a": 1}, {"env": None}, 10**12,
]  # fmt: skip
FLAGS = ["--seed", "--updates", "--num-envs", "--out", "--method", "--map", "--preset", "--horizon", "--from"]


class Target(NamedTuple):
    """One reader of gemax."""

    make_input: Callable[[random.Random], Any]
    read: Callable[[Any], None]
    share: float
    """Share of the inputs. Slow readers have a smaller one."""
    seeds: tuple[bytes, ...] = ()
    """Valid inputs, if they are bytes."""


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
    return {
        **map_targets(folder),
        **config_targets(folder),
        **checkpoint_targets(folder),
        **record_targets(folder),
        **page_targets(folder / "page"),
        "command lines": Target(command_line, parse_arguments, 0.002),
        "spaces and observations": Target(random_space, read_space, 0.038),
    }


def damaged(seeds: tuple[bytes, ...], read: Callable[[bytes], None], share: float) -> Target:
    """Returns a target whose inputs are damaged seeds."""
    return Target(lambda dice: mutate(dice, dice.choice(seeds)), read, share, seeds)


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


# Maps, configurations and metrics


def map_targets(folder: Path) -> dict[str, Target]:
    from gemax.envs.maps import parse_map, read_map

    seeds = (
        b"rooms: 1x2\n#S..#\n#.K.#\n#D###\n#..G#\n#...#\n#####\n#####\n",
        b"S..\n.#.\n..G\n",
        b"S" + b"." * 60 + b"G\n",
    )

    def parse(content: bytes) -> None:
        parse_map(content.decode("latin-1"))

    def read(content: bytes) -> None:
        read_map(written(folder / "map.txt", content))

    return {"maps": damaged(seeds, parse, 0.2), "map files": damaged(seeds, read, 0.1)}


def config_targets(folder: Path) -> dict[str, Target]:
    from gemax.runs.metrics_file import read_metrics, rewind_metrics
    from gemax.training.config import Config

    config = Config().to_json()
    metrics = b"".join(b'{"update": %d, "return": 0.5, "loss": null}\n' % number for number in range(1, 6))
    read = functools.partial(read_config, folder)

    def read_metrics_file(content: bytes) -> None:
        path = written(folder / "metrics.jsonl", content)
        with contextlib.suppress(ValueError):
            read_metrics(path)
        assert len(rewind_metrics(path, 3)) <= 6
        assert all(line["update"] <= 3 for line in read_metrics(path))

    return {
        "configurations": damaged((json.dumps(config).encode(),), read, 0.1),
        "configuration values": Target(
            lambda dice: json.dumps(mutate_json(dice, config)).encode(), read, 0.1
        ),
        "metrics.jsonl": damaged((metrics,), read_metrics_file, 0.15),
    }


def read_config(folder: Path, content: bytes) -> None:
    """Reads `config.json` of a run that was made elsewhere."""
    from gemax.runs.run_directory import CONFIG, RunDirectory
    from gemax.training.config import config_from_json

    written(folder / CONFIG, content)
    config_from_json(RunDirectory(folder).read_config())
    assert not RunDirectory(folder).is_own


# Checkpoints and records


def checkpoint_targets(folder: Path) -> dict[str, Target]:
    import hashlib

    import jax.numpy as jnp

    from gemax.runs import checkpoint_format as form

    files = form.encode_checkpoint(3, {"a": jnp.arange(4.0), "b": jnp.zeros((2, 3))}, {"seconds": 1.0})
    manifest = {name: value for name, value in json.loads(files[form.MANIFEST]).items() if name != "seal"}
    header, rest = files[form.ARRAYS][:200], files[form.ARRAYS][200:]

    def read(content: dict[str, bytes]) -> None:
        for name, text in content.items():
            written(folder / name, text)
        with contextlib.suppress(form.DamagedCheckpointError):
            form.read_checkpoint(folder, None)

    def read_manifest(content: bytes) -> None:
        read({**files, form.MANIFEST: content})

    def read_arrays(content: bytes) -> None:
        """Damaged arrays with a correct checksum and seal."""
        arrays = content + rest
        facts = {"bytes": len(arrays), "sha256": hashlib.sha256(arrays).hexdigest()}
        read({form.ARRAYS: arrays, form.MANIFEST: form._seal({**manifest, "arrays": facts})})

    def sealed(dice: random.Random) -> bytes:
        """A manifest with another content and a correct seal."""
        return form._seal(mutate_json(dice, manifest))

    return {
        "manifests": damaged((files[form.MANIFEST],), read_manifest, 0.1),
        "sealed manifests": Target(sealed, read_manifest, 0.05),
        "safetensors headers": damaged((header,), read_arrays, 0.05),
    }


def record_targets(folder: Path) -> dict[str, Target]:
    from gemax.experiments import records
    from gemax.experiments.damaged import is_readable
    from gemax.experiments.explore import records as explore_records
    from gemax.training.config import Config

    config = Config().to_json()
    path = folder / "record.npz"
    curves = {f"curve_{name}": np.zeros(3, np.float32) for name in records.CURVES}
    texts = {"config": json.dumps(config).encode(), "summary": b"{}"}
    texts = {name: np.frombuffer(text, np.uint8) for name, text in texts.items()}
    np.savez_compressed(path, allow_pickle=False, visits=np.zeros(3, np.float32), **curves, **texts)
    record = json.dumps({"config": config, "task": "x", "curve": {"frames": [1, 2]}}).encode()

    def read(content: bytes) -> None:
        is_readable(written(path, content), lambda path: records.is_record_of(path, Config()))

    def read_explore(content: bytes) -> None:
        file = written(folder / "record.json", content)
        is_readable(file, lambda path: explore_records.is_record_of(path, Config()))

    return {
        "records": damaged((path.read_bytes(),), read, 0.04),
        "bench records": damaged((record,), read_explore, 0.05),
    }


# The page


REQUESTS = (
    b"GET /\nhost: 127.0.0.1:8420\n",
    b"GET /api/curves?run=run&metric=coverage&metric=x\nhost: localhost:8420\norigin: http://localhost:8420\n",
    b"GET /api/snapshot?run=run&update=20\nhost: [::1]:8420\naccept-encoding: gzip\n",
    b"GET /api/film?run=run&update=1\nhost: 127.0.0.1:8420\ncookie: gemax-view=x; a=b\n",
    b"HEAD /api/plot?name=../config.json\nhost: 127.0.0.1:8420\nsec-fetch-site: same-origin\n",
    b"GET /api/events\nhost: 127.0.0.1:8420\nlast-event-id: 1\n",
    b"GET /..%2f..%2fsecret?token=x\nhost: 127.0.0.1:8420\n",
)
"""Requests of a page: method and address, then headers."""
SECRET = b"a file outside of the runs"


def page_targets(folder: Path) -> dict[str, Target]:
    from gemax.view.app import make_app
    from gemax.view.events import Changes
    from gemax.view.library import Library
    from gemax.view.security import Access
    from tests.view.fake_runs import make_run

    folder.mkdir(exist_ok=True)
    written(folder / "secret", SECRET)
    if not (folder / "runs").exists():
        make_run(folder / "runs" / "run", updates=5, snapshots=(1,))
    library = Library(folder / "runs")
    apps = [
        make_app(library, Access("127.0.0.1", 8420, token), Changes(library)) for token in (None, "token")
    ]

    def read(content: bytes) -> None:
        for app in apps:
            status, headers, body = answer_of(app, content)
            assert status < 500, body
            assert b"content-security-policy" in headers
            assert SECRET not in body

    return {"requests of a page": damaged(REQUESTS, read, 0.02)}


def answer_of(app: Any, request: bytes) -> tuple[int, set[bytes], bytes]:
    """Returns status, names of the headers and body of an answer. The client leaves after its request."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor
    from urllib.parse import unquote_to_bytes

    line, *lines = request.split(b"\n")
    method, _, address = line.partition(b" ")
    path, _, query = address.partition(b"?")
    pairs = [header.partition(b":") for header in lines if header]
    scope = {
        "type": "http", "method": method.decode("latin-1"), "path": unquote_to_bytes(path).decode(errors="replace"),
        "raw_path": path, "query_string": query, "http_version": "1.1", "scheme": "http", "root_path": "",
        "headers": [(name.strip().lower(), value.strip()) for name, _, value in pairs],
        "server": ("127.0.0.1", 8420), "client": ("127.0.0.1", 1),
    }  # fmt: skip
    messages = []

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        messages.append(message)

    # In a thread, because the browser tests leave an event loop running in the main thread.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, app(scope, receive, send)).result()
    body = b"".join(message.get("body", b"") for message in messages[1:])
    return messages[0]["status"], {name for name, _ in messages[0]["headers"]}, body


# Command lines


def command_line(dice: random.Random) -> list[str]:
    values = [str(value).replace("\0", "?") for value in VALUES]
    words = [*FLAGS, *values, "gem", "two-rooms", "--", "-h", "--seed"]
    chosen = [dice.choice(words) for _ in range(dice.randrange(1, 6))]
    return [dice.choice(["two-rooms", "gym:CartPole-v1", "", "two-room", "\ufffd"]), *chosen]


def parse_arguments(arguments: list[str]) -> None:
    from gemax.cli.train import config_of, parse_flags

    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.suppress(SystemExit),
    ):
        config_of(parse_flags(arguments))


# Spaces


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
