"""Where metrics go while a run trains.

`metrics.jsonl` is the truth: if it cannot be written, the run hears of it. TensorBoard and W&B are for looking at, so
they work in threads of their own, and one that fails or hangs is switched off with a warning.
"""

import contextlib
import importlib
import importlib.util
import logging
import queue
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from gemax.runs.directory import RunDirectory, plain

LONGEST_QUEUE = 1_000
"""Updates that a slow sink may lag behind before it counts as hanging."""
PATIENCE_SECONDS = 10.0
"""How long the end of a run waits for a sink to finish."""

_logger = logging.getLogger(__name__)


class Sink(NamedTuple):
    """Something that takes metrics."""

    write: Callable[[int, Mapping[str, Any]], None]
    """Takes the metrics of one update."""
    close: Callable[[], None]
    """To be called once, after the last write."""


OpenSink: TypeAlias = Callable[[RunDirectory, int], Sink]
"""Opens a sink for a run that was accepted, from the first update that it will log."""


def sinks_for(*, tensorboard: bool = False, wandb: str | None = None) -> list[OpenSink]:
    """The sinks that a user asks for, to be opened once there is a run: TensorBoard, and a project of W&B.

    Raises:
        ValueError: The package that one of them needs is not installed.
    """
    sinks: list[OpenSink] = []
    if tensorboard:
        _require("tensorboardX", "TensorBoard", extra="tensorboard")
        sinks.append(lambda run, first: tensorboard_sink(run.path / "tensorboard", first))
    if wandb is not None:
        _require("wandb", "Weights & Biases", extra="wandb")
        sinks.append(
            lambda run, first: wandb_sink(run.path / "wandb", wandb, run.path.name, run.read_config())
        )
    return sinks


def jsonl_sink(run: RunDirectory) -> Sink:
    """The metrics file of a run. Errors are the caller's to see."""
    return Sink(run.append_metrics, lambda: None)


def tensorboard_sink(folder: Path, first_update: int = 1) -> Sink:
    """Writes for TensorBoard, below `folder`. It never stops a run.

    Args:
        folder: Where the event files go.
        first_update: Of a resumed run, the first one it logs; TensorBoard then hides what was logged from there on.
    """
    return guarded("TensorBoard", lambda: _open_tensorboard(folder, first_update))


def wandb_sink(folder: Path, project: str, name: str, config: Mapping[str, Any]) -> Sink:
    """Sends to Weights & Biases, which keeps its files below `folder`. It never stops a run.

    A run that is resumed goes on under the same id, which is kept there too.
    """
    return guarded("Weights & Biases", lambda: _open_wandb(folder, project, name, config))


def all_of(sinks: list[Sink]) -> Sink:
    """Several sinks as one. The first one that raises is heard; put the truth first."""

    def write(update: int, metrics: Mapping[str, Any]) -> None:
        for sink in sinks:
            sink.write(update, metrics)

    def close() -> None:
        with contextlib.ExitStack() as every_one:
            for sink in sinks:
                every_one.callback(sink.close)

    return Sink(write, close)


def guarded(
    name: str,
    open_sink: Callable[[], Sink],
    longest_queue: int = LONGEST_QUEUE,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Sink:
    """A sink that cannot stop or delay a run, made from one that might.

    It is opened, written to and closed in a thread of its own. The first thing that goes wrong gives one warning and
    switches it off.
    """
    waiting: queue.Queue[tuple[int, dict[str, Any]] | None] = queue.Queue(longest_queue)
    fault = _Fault(name)

    def work() -> None:
        try:
            sink = open_sink()
            while (item := waiting.get()) is not None:
                sink.write(*item)
            sink.close()
        except (Exception, SystemExit) as error:  # whatever somebody else's package may raise
            fault.report(f"{type(error).__name__}: {error}")

    # A daemon, so that one that hangs does not keep the program from ending.
    thread = threading.Thread(target=work, name=f"sink {name}", daemon=True)
    thread.start()

    def write(update: int, metrics: Mapping[str, Any]) -> None:
        if fault.happened:
            return
        try:
            # Arrays become numbers here and now: the next update may reuse their memory.
            waiting.put_nowait((update, plain(metrics)))
        except queue.Full:
            fault.report(f"it is {longest_queue} updates behind")
        except TypeError as error:
            fault.report(str(error))

    def close() -> None:
        if fault.happened:
            return
        end = time.monotonic() + patience_seconds
        with contextlib.suppress(queue.Full):
            waiting.put(None, timeout=patience_seconds)
        thread.join(max(0.0, end - time.monotonic()))
        if thread.is_alive():
            fault.report(f"it did not finish within {patience_seconds:g} s")

    return Sink(write, close)


class _Fault:
    """Whether something went wrong. Both threads may notice; the first one tells."""

    def __init__(self, name: str):
        self._name = name
        self._lock = threading.Lock()
        self.happened = False

    def report(self, reason: str) -> None:
        with self._lock:
            if not self.happened:
                _logger.warning(
                    "%s is switched off: %s. The run goes on, and logs to its own file.", self._name, reason
                )
            # Last, so that nobody acts on a fault that was not told yet.
            self.happened = True


def _require(package: str, title: str, extra: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise ValueError(f"{title} needs {package}. Install it with: pip install 'gemax[{extra}]'")


# Optional packages are imported by name, since type checkers may not find them.


def _open_tensorboard(folder: Path, first_update: int) -> Sink:
    # Not its `SummaryWriter`: that has a thread of its own, whose errors nobody would hear of.
    writer = importlib.import_module("tensorboardX.event_file_writer")
    proto = importlib.import_module("tensorboardX.proto.event_pb2")
    scalar = importlib.import_module("tensorboardX.summary").scalar
    folder.mkdir(parents=True, exist_ok=True)
    events = writer.EventsWriter(str(folder / "events"))
    if first_update > 1:
        start = proto.SessionLog(status=proto.SessionLog.START)
        events.write_event(proto.Event(step=first_update, session_log=start))

    def write(update: int, metrics: Mapping[str, Any]) -> None:
        for name, value in _numbers(metrics).items():
            events.write_event(proto.Event(step=update, wall_time=time.time(), summary=scalar(name, value)))
        events.flush()

    return Sink(write, events.close)


def _open_wandb(folder: Path, project: str, name: str, config: Mapping[str, Any]) -> Sink:
    wandb = importlib.import_module("wandb")
    folder.mkdir(parents=True, exist_ok=True)
    id_file = folder / "id"
    if not id_file.exists():
        id_file.write_text(secrets.token_hex(8))
    run = wandb.init(
        project=project,
        name=name,
        config=dict(config),
        dir=str(folder),
        id=id_file.read_text(),
        resume="allow",
    )

    def write(update: int, metrics: Mapping[str, Any]) -> None:
        run.log(_numbers(metrics), step=update)

    return Sink(write, run.finish)


def _numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """What can be drawn as a curve. A number that was not finite leaves a gap."""
    return {name: value for name, value in metrics.items() if isinstance(value, int | float)}
