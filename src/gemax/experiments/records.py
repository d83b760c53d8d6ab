"""What is kept of a finished run: small, complete, and found again by its configuration."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from gemax.runs.directory import RunDirectory, read_metrics
from gemax.runs.files import write_arrays
from gemax.runs.report import load_run, report_of
from gemax.training.centring import centre
from gemax.training.config import Config, config_from
from gemax.training.learn import Trainer
from gemax.training.state import TrainState

CURVES = ("update", "frames", "seconds", "return", "visitation_entropy", "coverage")
"""What is kept of every line of metrics."""
EPISODES = 1000
"""That the frozen policy plays."""
MOST_ROWS_EMBEDDED = 600
"""Tables of more observations are not kept embedded: 16-Leaves alone would fill the repository."""
NOISES = 8
"""How many colours of the noise square each observation is embedded with."""


class Record(NamedTuple):
    """A finished run of one seed."""

    config: Config
    facts: dict[str, Any]
    """The run's summary, and under `evaluation` what its frozen policy does."""
    curves: dict[str, Float[np.ndarray, " lines"]]
    visits: Float[np.ndarray, " places"]
    """Moving average of the visits, at the end."""
    embedding: Float[np.ndarray, "noises rows D"] | None
    """f of every observation in the table, once for each of several colours of the noise, if there is noise."""

    @property
    def solved_at(self) -> float:
        """The update from which on the world counted as solved; infinite if it never did."""
        solved = self.facts["solved_at_update"]
        return float("inf") if solved is None else float(solved)

    @property
    def entropy_share(self) -> float:
        """Of the frozen policy's visits; not a number in a world without a ceiling."""
        return self.facts["evaluation"].get("entropy_share", {"mean": float("nan")})["mean"]


def name_of(config: Config) -> str:
    """Whoever changes one setting gets another name. A setting that is new, and left alone, changes none."""
    default = dataclasses.asdict(Config())
    changes = {name: value for name, value in dataclasses.asdict(config).items() if value != default[name]}
    digest = hashlib.sha256(json.dumps(changes, sort_keys=True).encode()).hexdigest()[:10]
    return f"{config.world}-{config.method}-{config.seed}-{digest}"


def record_of(path: Path, num_episodes: int) -> Record:
    """Reads a finished run, and plays with its policy."""
    loaded = load_run(path)
    state = loaded.states[loaded.trainer.config.seed]
    summary = RunDirectory(path).read_summary()
    evaluation = report_of(loaded, num_episodes, 0, {"sampled": False})["sampled"]
    lines = read_metrics(path / "metrics.jsonl")
    curves = {
        name: np.asarray([np.nan if line[name] is None else line[name] for line in lines], np.float32)
        for name in CURVES
    }
    return Record(
        loaded.trainer.config,
        summary | {"evaluation": evaluation},
        curves,
        np.asarray(state.tally.visits),
        embedding_of(loaded.trainer, state),
    )


def embedding_of(trainer: Trainer, state: TrainState) -> Float[np.ndarray, "noises rows D"] | None:
    """F of all there is to see, where f is learned and that is not too much."""
    finite = trainer.world.finite
    if finite is None or trainer.reward.embed is None or len(finite.observation_table) > MOST_ROWS_EMBEDDED:
        return None
    tables = finite.observation_table[None]
    if finite.noise_square is not None:
        row, column = finite.noise_square
        tables = jnp.repeat(tables, NOISES, axis=0)
        colours = jax.random.bits(jax.random.key(0), (*tables.shape[:2], 2), jnp.uint8)
        tables = tables.at[:, :, row, column, :2].set(colours)
    embed = jax.jit(trainer.reward.embed)
    return np.stack([np.asarray(embed(state.reward, centre(state.centring, rows))) for rows in tables])


def save_record(path: Path, record: Record) -> None:
    """One compressed file, which is there as a whole or not at all."""
    arrays: dict[str, np.ndarray] = {f"curve_{name}": values for name, values in record.curves.items()}
    arrays["visits"] = record.visits.astype(np.float32)
    if record.embedding is not None:
        arrays["embedding"] = record.embedding.astype(np.float32)
    for name, content in (("config", dataclasses.asdict(record.config)), ("facts", record.facts)):
        arrays[name] = np.frombuffer(json.dumps(content).encode(), np.uint8)
    write_arrays(path, arrays)


def load_record(path: Path) -> Record:
    """What `save_record` wrote. Settings that are newer than the record had their default."""
    with np.load(path, allow_pickle=False) as arrays:
        return Record(
            _config(arrays),
            json.loads(arrays["facts"].tobytes()),
            {name: arrays[f"curve_{name}"] for name in CURVES},
            arrays["visits"],
            arrays.get("embedding"),
        )


def is_record_of(path: Path, config: Config) -> bool:
    """Whether a file holds the run of this configuration: a name may have been given when a default was another."""
    if not path.exists():
        return False
    with np.load(path, allow_pickle=False) as arrays:
        return _config(arrays) == config


def _config(arrays: Mapping[str, np.ndarray]) -> Config:
    return config_from(dataclasses.asdict(Config()) | json.loads(arrays["config"].tobytes()))
