"""Records of finished runs: small files that hold everything the figures need."""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from gemax.core.moments import standardise
from gemax.envs.registry import make_env
from gemax.launch.worker import RUN, read_commits
from gemax.runs.evaluation import evaluation_report, load_run
from gemax.runs.files import write_arrays
from gemax.runs.metrics_file import read_metrics
from gemax.runs.run_directory import RunDirectory
from gemax.runs.solving import first_held, reaches
from gemax.training.config import NUM_RETURNS, Config
from gemax.training.learn import Trainer
from gemax.training.state import TrainState

CURVES = ("update", "frames", "seconds", "return", "visitation_entropy", "coverage", "episodes")
"""The metrics that a record keeps."""
GENERATION = 1
"""Number of the training code that a record comes from. Raise it with a change that alters what runs learn: records
of an older generation do not count as finished, so that they are never mixed with new ones. Generation 0 had
environments in lockstep, a normaliser that included the drift of the mean, an oracle that counted cells, and RND
divided by the standard deviation of its error."""
HALF_RETURNS = {"mountain-car": -600.0, "cartpole-swingup": 200.0}
"""A return halfway to `solved_return`, for a second threshold. It is 0.5 in gridworlds."""
NUM_EPISODES, NUM_QUICK_EPISODES = 1000, 16
"""Episodes of the frozen policy's evaluation, and its episodes in quick mode."""
MAX_EMBEDDED_ROWS = 600
"""Larger observation tables are not embedded, to keep the records small."""
NUM_NOISE_COLOURS = 8
"""Each observation is embedded with this many random colours of the noise cell, if there is one."""


class Record(NamedTuple):
    """A finished run of one seed."""

    config: Config
    summary: dict[str, Any]
    """The run's summary, with the evaluation of the frozen policy under `evaluation`."""
    curves: dict[str, Float[np.ndarray, " lines"]]
    visits: Float[np.ndarray, " cells"]
    """Moving average of the visits at the end of training."""
    embedding: Float[np.ndarray, "noises rows D"] | None
    """f of every row of the observation table, for each colour of the noise cell. `noises` is 1 without such a cell."""
    generation: int = GENERATION
    """The `GENERATION` of the code that trained the run."""

    @property
    def first_crossing(self) -> float:
        """The update at which the return first reached the environment's `solved_return`. Infinite if it never did."""
        return self._first_at(solved_return(self.config.env.env_id))

    @property
    def solved_at(self) -> float:
        """The update from which on the return stayed at `solved_return` until the end. Infinite if it did not."""
        return self.held_at(float("inf"))

    def held_at(self, hold: float) -> float:
        """Returns the update from which on the return stayed at `solved_return` for `hold` updates, or until the end.

        Infinite if it did not.
        """
        is_reached = self._is_reached(solved_return(self.config.env.env_id))
        return first_held(self.curves["update"], is_reached, hold)

    @property
    def half_crossing(self) -> float:
        """The update at which the return first was halfway to `solved_return`. Infinite if it never was."""
        return self._first_at(half_return(self.config.env.env_id))

    @property
    def commits(self) -> list[str]:
        """The commits that the run was trained at, in order. Several if it was resumed at another one."""
        return self.summary.get("commits") or [self.summary.get("commit") or "unknown"]

    def _is_reached(self, threshold: float) -> Bool[np.ndarray, " lines"]:
        return reaches(self.curves["return"], threshold) & (self.curves["episodes"] >= NUM_RETURNS)

    def _first_at(self, threshold: float) -> float:
        return first_held(self.curves["update"], self._is_reached(threshold), hold=0)

    @property
    def entropy_share(self) -> float:
        """The frozen policy's visitation entropy as a share of the ceiling. NaN for environments without a ceiling."""
        return self.summary["evaluation"].get("entropy_share", {"mean": float("nan")})["mean"]


@cache
def solved_return(env_id: str) -> float:
    """Returns the mean return from which an environment counts as solved."""
    return make_env(env_id).spec.solved_return


def half_return(env_id: str) -> float:
    """Returns the mean return halfway to the one from which an environment counts as solved."""
    return HALF_RETURNS.get(env_id, 0.5)


def changed_settings(config: Config) -> dict[str, Any]:
    """Returns the settings that differ from the defaults."""
    default = Config().flat
    return {name: value for name, value in config.flat.items() if value != default[name]}


def settings_digest(config: Config) -> str:
    """Returns ten letters and digits that are unique for the settings. New settings with default values keep them."""
    changes = json.dumps(changed_settings(config), sort_keys=True)
    return hashlib.sha256(changes.encode()).hexdigest()[:10]


def run_name(config: Config) -> str:
    """Returns a name that is unique for the settings. New settings with default values do not change it."""
    return f"{config.env.env_id}-{config.intrinsic.method}-{config.run.seed}-{settings_digest(config)}"


def write_record(folder: Path, record: Path, quick: bool) -> None:
    """Evaluates the finished run in a folder of the store, and writes its record."""
    made = make_record(folder / RUN, NUM_QUICK_EPISODES if quick else NUM_EPISODES)
    save_record(record, made._replace(summary=made.summary | {"commits": read_commits(folder)}))


def make_record(path: Path, num_episodes: int) -> Record:
    """Reads a finished run and evaluates its policy."""
    loaded = load_run(path)
    config = loaded.trainer.config
    state = loaded.states[config.run.seed]
    evaluation = evaluation_report(loaded, num_episodes, 0, {"sampled": False})["sampled"]
    lines = read_metrics(path / "metrics.jsonl")
    curves = {
        name: np.asarray([np.nan if line[name] is None else line[name] for line in lines], np.float32)
        for name in CURVES
    }
    summary = RunDirectory(path).read_summary() | {"evaluation": evaluation}
    visits = np.asarray(state.statistics.visits)
    return Record(config, summary, curves, visits, embed_observations(loaded.trainer, state))


def embed_observations(trainer: Trainer, state: TrainState) -> Float[np.ndarray, "noises rows D"] | None:
    """Returns f of the observation table. None if f is not learned, or if the table is missing or too large."""
    finite = trainer.finite
    if finite is None or trainer.reward.embed is None or len(finite.observation_table) > MAX_EMBEDDED_ROWS:
        return None
    tables = finite.observation_table[None]
    if finite.noise_cell is not None:
        row, column = finite.noise_cell
        tables = jnp.repeat(tables, NUM_NOISE_COLOURS, axis=0)
        colours = jax.random.bits(jax.random.key(0), (*tables.shape[:2], 2), jnp.uint8)
        tables = tables.at[:, :, row, column, :2].set(colours)
    embed = jax.jit(trainer.reward.embed)
    return np.stack(
        [np.asarray(embed(state.reward, standardise(state.observation_moments, rows))) for rows in tables]
    )


def save_record(path: Path, record: Record) -> None:
    """Writes a record as one compressed file."""
    arrays: dict[str, np.ndarray] = {f"curve_{name}": values for name, values in record.curves.items()}
    arrays["visits"] = record.visits.astype(np.float32)
    if record.embedding is not None:
        arrays["embedding"] = record.embedding.astype(np.float32)
    arrays["generation"] = np.asarray(record.generation)
    for name, content in (("config", record.config.to_json()), ("summary", record.summary)):
        arrays[name] = np.frombuffer(json.dumps(content).encode(), np.uint8)
    write_arrays(path, arrays)


def load_record(path: Path) -> Record:
    """Reads a record. Settings that did not exist when it was written have their default values.

    Older records have no number of episodes. In all of them, 1,000 episodes had ended before the first crossing.
    """
    with np.load(path, allow_pickle=False) as arrays:
        enough = np.full_like(arrays["curve_update"], NUM_RETURNS)
        return Record(
            _read_config(arrays),
            json.loads(arrays["summary"].tobytes()),
            {name: arrays.get(f"curve_{name}", enough) for name in CURVES},
            arrays["visits"],
            arrays.get("embedding"),
            _read_generation(arrays),
        )


def is_record_of(path: Path, config: Config) -> bool:
    """Returns whether a file holds the run of a configuration, trained by code of the same generation.

    Compares all settings, because the file name does not change if a default value changes.
    """
    if not path.exists():
        return False
    with np.load(path, allow_pickle=False) as arrays:
        return _read_generation(arrays) == GENERATION and _read_config(arrays) == config


def _read_generation(arrays: Mapping[str, np.ndarray]) -> int:
    return int(arrays.get("generation", 0))


def _read_config(arrays: Mapping[str, np.ndarray]) -> Config:
    sections = json.loads(arrays["config"].tobytes())
    return Config().replace(**{name: value for fields in sections.values() for name, value in fields.items()})
