"""The `Run` handle: a run directory, and what can be done with it from Python."""

import base64
import html
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemax.runs import session
from gemax.runs.checkpoints import Checkpoint
from gemax.runs.evaluation import LoadedRun, evaluate_run, load_run
from gemax.runs.metric_logger import mean_lines
from gemax.runs.metrics_file import read_metrics
from gemax.runs.run_directory import RunDirectory
from gemax.runs.run_metrics import RunMetrics
from gemax.runs.seed_directories import has_separate_seeds, seed_directories, seed_folders
from gemax.runs.session import Callback
from gemax.runs.show_progress import show_progress
from gemax.runs.sinks import sinks_for
from gemax.runs.summary import summary_of_separate_seeds
from gemax.settings import import_function
from gemax.training.assemble import CustomParts
from gemax.training.collector import EpisodeOptions
from gemax.training.config import Config, config_from_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gemax.runs.policy import Policy

MAP_EPISODES = 8
"""Number of filmed episodes in environments with cells, which show how the agent fills the map."""


class Run:
    """A run on disk. `gemax.train` and `gemax.load` return it.

    It keeps the custom parts of the run (environment, reward, similarity), so that they need not be passed again.

    Args:
        path: The run directory.
        custom: The custom parts of the run.
        stop_signal: Number of the signal that stopped the run early, or None.

    Raises:
        ValueError: There is no run in the directory.
    """

    def __init__(
        self, path: str | os.PathLike[str], custom: CustomParts | None = None, stop_signal: int | None = None
    ) -> None:
        self.path = Path(path)
        """The run directory."""
        self.stop_signal = stop_signal
        self._directory = RunDirectory(self.path)
        self.custom = custom or CustomParts()
        """The custom parts, empty for a run without any."""
        self.config: Config = config_from_json(self._directory.read_config())
        """The configuration."""

    @property
    def summary(self) -> dict[str, Any]:
        """The content of `summary.json`. A run that was killed has no such file, and the status `unfinished`."""
        if self._has_separate_seeds:
            summaries = {seed: run.summary for seed, run in self.seeds.items()}
            return summary_of_separate_seeds(summaries, self.config.run.seeds)
        if self._directory.has_summary:
            return self._directory.read_summary()
        lines = read_metrics(self._directory.metrics)
        return {"status": "unfinished", "updates": lines[-1]["update"] if lines else 0}

    @property
    def metrics(self) -> RunMetrics:
        """The metrics as arrays by name, for example `run.metrics["return"]`. Means over the seeds of a group."""
        return RunMetrics(self._lines)

    @property
    def seeds(self) -> dict[int, "Run"]:
        """The run of every seed. A run of one seed is its own."""
        if self.config.run.seeds == 1:
            return {self.config.run.seed: self}
        # Those of a group that trains at the moment may not have started.
        directories = seed_directories(self._directory, self.config)
        return {seed: Run(directory.path, self.custom) for seed, directory in directories.items()}

    def policy(self, checkpoint: Checkpoint = "newest", *, seed: int = 0) -> "Policy":
        """Returns the trained policy.

        Args:
            checkpoint: The policy to load: `newest`, `best` (highest mean return of 100 episodes) or an update.
            seed: Random seed of sampled actions.
        """
        from gemax.runs.policy import Policy

        loaded = self._load_one(checkpoint, "Load")
        return Policy(loaded.trainer, *loaded.states.values(), seed=seed)

    def evaluate(
        self,
        episodes: int = 1000,
        *,
        seed: int = 0,
        max_episode_steps: int | None = None,
        checkpoint: Checkpoint = "newest",
        log: Callable[[str], None] = print,
    ) -> dict[str, Any]:
        """Evaluates the frozen policy with sampled and with greedy actions. Returns the content of `evaluation.json`.

        Args:
            episodes: Number of episodes with sampled actions, and number of episodes with greedy actions.
            seed: Random seed of the episodes.
            max_episode_steps: Step limit of `gym:` environments. The default is 10,000, or the horizon if longer.
            checkpoint: The policy to evaluate: `newest`, `best` (highest mean return of 100 episodes) or an update.
            log: Called with messages for the user.
        """
        return evaluate_run(self.path, episodes, seed, log, self.custom, max_episode_steps, checkpoint)

    def resume(
        self,
        updates: int | None = None,
        *,
        checkpoint: Checkpoint = "newest",
        progress: bool = True,
        callback: Callback | None = None,
        tensorboard: bool = False,
        wandb: str | None = None,
        **changes: Any,
    ) -> "Run":
        """Resumes training. Bit-exact in gemax environments; Gymnasium environments start new episodes.

        Args:
            updates: New total number of updates. The default is the configured number.
            checkpoint: The state to continue from: `newest`, `best` or an update. Later metrics and checkpoints are
                deleted.
            progress: Shows a progress bar in a terminal or notebook, and prints lines otherwise.
            callback: Called with the metrics of every compiled call.
            tensorboard: Also writes TensorBoard events to the run directory.
            wandb: Also sends metrics to this Weights & Biases project.
            changes: Settings to change from now on, such as `learning_rate`. Others than these are refused: see
                `gemax resume --help`.

        Returns:
            The run, with its new configuration.
        """
        sinks = sinks_for(tensorboard=tensorboard, wandb=wandb)
        if updates is not None:
            changes["updates"] = updates
        with show_progress(updates or self.config.run.updates, progress, callback, sinks) as hooks:
            if self._has_separate_seeds:
                # `experiments` is above this package.
                resume_seeds = import_function("gemax.experiments", "seeds:resume_seeds")
                options = {"checkpoint": checkpoint, "tensorboard": tensorboard, "wandb": wandb}
                outcome = resume_seeds(self.path, changes, hooks, self.custom, **options)
            else:
                outcome = session.resume(self.path, changes, self.custom, hooks, checkpoint)
        return Run(outcome.path, self.custom, outcome.stop_signal)

    def collect(self, episodes: int = 1000, **options: Any) -> str:
        """Writes episodes of the policy as a Minari dataset. Returns its name. Needs `pip install 'gemax[minari]'`.

        Args:
            episodes: Number of episodes, with sampled actions.
            options: Other arguments of `gemax.collect`: `seed`, `checkpoint`, `dataset_id`, `max_episode_steps`, …
        """
        # `integrations` is above this package, and Minari is optional.
        return import_function("gemax.integrations", "collect:collect")(self, episodes=episodes, **options)

    def record(
        self,
        path: str | os.PathLike[str] = "episode.gif",
        *,
        checkpoint: Checkpoint = "newest",
        episodes: int | None = None,
        seed: int = 0,
        greedy: bool = False,
        fps: int = 12,
        max_episode_steps: int | None = None,
        make_env: Callable[..., Any] | None = None,
        log: Callable[[str], None] = print,
    ) -> Path:
        """Films episodes of the policy. In gridworlds, the film also shows how the visited cells fill the map.

        Args:
            path: The film, a .gif file, or an .mp4 file if ffmpeg is installed.
            checkpoint: The policy that acts: `newest`, `best` or an update.
            episodes: Number of episodes. The default is 1, or 8 in gridworlds.
            seed: Random seed of the episodes.
            greedy: Takes the mode of the action distribution instead of sampling.
            fps: Images per second.
            max_episode_steps: Cuts episodes of `gym:` environments after this many steps.
            make_env: Makes the Gymnasium environment to film, with render mode `rgb_array`. The default is the
                environment of the run, made with `render_mode="rgb_array"`.
            log: Called with messages for the user.

        Returns:
            The path of the film.
        """
        from gemax.runs.film import check_film_path, write_film

        film = Path(path)
        check_film_path(film)
        custom = self.custom if make_env is None else self.custom._replace(make_env=make_env)
        loaded = self._load_one(checkpoint, "Record", custom)
        num_episodes = episodes or (1 if loaded.trainer.finite is None else MAP_EPISODES)
        options = EpisodeOptions(num_episodes, seed, greedy, max_episode_steps)
        write_film(film, loaded, options, fps, log)
        return film

    def plot(
        self, path: str | os.PathLike[str] | None = None, *, checkpoint: Checkpoint = "newest"
    ) -> "Figure":
        """Plots the learning curve and, where visits are counted, the map of visits. Returns a Matplotlib figure.

        Args:
            path: PNG file to write as well.
            checkpoint: The checkpoint whose map is shown: `newest`, `best` or an update.
        """
        from gemax.runs.files import write_figure
        from gemax.runs.plots import run_figure

        loaded = load_run(self.path, self.custom, checkpoint)
        lines_of_seeds = [read_metrics(seed._directory.metrics) for seed in self.seeds.values()]
        figure = run_figure(
            loaded.trainer,
            list(loaded.states.values()),
            self._lines,
            lines_of_seeds,
        )
        if path is not None:
            write_figure(Path(path), figure)
        return figure

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}: {self._line()})"

    def _repr_html_(self) -> str:
        """Returns the summary, the learning curve and the map of visits, for notebooks."""
        from gemax.runs.files import figure_bytes
        from gemax.runs.plots import learning_curve

        parts = [f"<b>{html.escape(str(self.path))}</b><br>{html.escape(self._line())}<br>"]
        lines = self._lines
        if lines:
            curve = learning_curve(self.config.env.env_id, lines, self.summary.get("entropy_ceiling"))
            parts.append(inline_image(figure_bytes(curve), 480))
        heatmap = self.path / "heatmap.png"
        if heatmap.is_file():
            parts.append(inline_image(heatmap.read_bytes(), 240))
        return "".join(parts)

    @property
    def _has_separate_seeds(self) -> bool:
        return has_separate_seeds(self._directory, self.config)

    @property
    def _lines(self) -> list[dict[str, Any]]:
        """The lines of `metrics.jsonl`, or the means over seeds that are runs of their own."""
        if self._has_separate_seeds:
            return mean_lines(read_metrics(run._directory.metrics) for run in self.seeds.values())
        return read_metrics(self._directory.metrics)

    def _line(self) -> str:
        """Returns environment, method, progress and return in one line."""
        config, summary = self.config, self.summary
        seeds = f", {config.run.seeds} seeds" if config.run.seeds > 1 else ""
        mean_return = summary.get("recent_return")
        known = "" if mean_return is None else f", return {mean_return:.3g}"
        return (
            f"{config.env.env_id}, {config.intrinsic.method}{seeds}, {summary['status']} after "
            f"{summary['updates']:,} of {config.run.updates:,} updates{known}"
        )

    def _load_one(self, checkpoint: Checkpoint, verb: str, custom: CustomParts | None = None) -> LoadedRun:
        """Loads a run of one seed, and warns about damaged checkpoints."""
        if self.config.run.seeds > 1:
            raise ValueError(
                f"{self.path} holds several policies. {verb} one of its seeds: {seed_folders(self.config)}."
            )
        loaded = load_run(self.path, self.custom if custom is None else custom, checkpoint)
        for message in loaded.messages:
            warnings.warn(message, stacklevel=3)
        return loaded


def open_run(run: Run | str | os.PathLike[str], **custom: Any) -> Run:
    """Returns the handle of a run, given the handle or the run directory. Custom parts replace those of the handle."""
    if not isinstance(run, Run):
        return Run(run, CustomParts(**custom))
    return Run(run.path, run.custom._replace(**custom), run.stop_signal) if custom else run


def inline_image(png: bytes, width: int) -> str:
    """Returns an HTML image that contains its data."""
    return f'<img width="{width}" src="data:image/png;base64,{base64.b64encode(png).decode()}">'
