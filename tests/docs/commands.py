"""Runs `gemax` commands of the documentation in this process: shortened, or only parsed."""

import functools
import runpy
import shlex
from collections.abc import Iterator

import gemax
from gemax.cli import main
from gemax.cli.train import parse_flags

TINY = {
    "num_envs": 8, "unroll_length": 6, "unroll_period": 6, "torso_size": 6, "lstm_size": 5, "head_size": 5,
    "embedding_size": 3, "time_buckets": 3, "updates": 2, "episode_memory_size": 8,
}  # fmt: skip
"""Settings that every training of the documentation has in the tests."""
FLAGS = {
    "train": [part for name, value in TINY.items() for part in (f"--{name.replace('_', '-')}", str(value))],
    "resume": ["--updates", "4"],
    "evaluate": ["--episodes", "2"],
    "collect": ["--episodes", "2"],
    "record": ["--episodes", "1"],
    "reproduce": ["--smoke"],
}
"""Flags that are added to a command, so that it ends soon."""


def commands_of(code: str) -> Iterator[list[str]]:
    """Yields the commands of a shell block as lists of words, without comments."""
    for line in code.replace("\\\n", " ").splitlines():
        for command in line.split(" && "):
            if words := shlex.split(command, comments=True):
                yield words


def run(words: list[str]) -> None:
    """Runs a `gemax` command with tiny settings, or a Python program."""
    if words[0] == "python":
        runpy.run_path(words[1], run_name="__main__")
        return
    assert words[0] == "gemax", f"{words} is not a gemax command: mark the block as `not run`"
    arguments = words[1:] + FLAGS.get(words[1], [])
    assert main(arguments) == 0, f"gemax {shlex.join(arguments)}"


def parse(words: list[str], monkeypatch) -> None:
    """Parses a `gemax` command, and does not run it. An unknown flag exits."""
    if words[1] == "train":
        parse_flags(words[2:])
        return
    verb = words[1]
    module = __import__(f"gemax.cli.{verb}", fromlist=[verb])

    @functools.wraps(getattr(module, verb))
    def parsed(*arguments, **settings):
        return 0

    with monkeypatch.context() as patch:
        patch.setattr(module, verb, parsed)
        assert main(words[1:]) == 0


def tiny_train(*arguments, **settings) -> gemax.Run:
    """Trains with tiny settings, whatever the documentation says. A vector environment decides its own size."""
    settings.pop("frames", None)
    return TRAIN(*arguments, **{**settings, **TINY})


TRAIN = gemax.train
