"""Where metrics are written during training.

`metrics.jsonl` is the record of the run: lines that cannot be written wait in memory. TensorBoard and W&B run in
background threads; if one fails or hangs, it is switched off with a warning.
"""

import contextlib
import importlib
import logging
import queue
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from gemax.extras import require
from gemax.runs.files import to_json
from gemax.runs.run_directory import RunDirectory

MAX_QUEUE_SIZE = 1_000
"""Updates that a background sink may lag behind before it is switched off."""
CLOSE_TIMEOUT_SECONDS = 10.0
"""How long the end of a run waits for a background sink."""

_logger = logging.getLogger(__name__)


class Sink(NamedTuple):
    """A destination for metrics."""

    write: Callable[[int, Mapping[str, Any]], None]
    """Writes the metrics of one update."""
    close: Callable[[], None]
    """Must be called once, after the last write."""


OpenSink: TypeAlias = Callable[[RunDirectory, int], Sink]
"""Opens a sink for a run, given the first update that will be written."""


def sinks_for(*, tensorboard: bool = False, wandb: str | None = None) -> list[OpenSink]:
    """Returns functions that open the requested sinks: TensorBoard, and a W&B project by name.

    Raises:
        ValueError: A required package is not installed.
    """
    sinks: list[OpenSink] = []
    if tensorboard:
        require("tensorboard", "tensorboard")
        sinks.append(
            lambda run, first: background_sink("TensorBoard", partial(_open_tensorboard, run, first))
        )
    if wandb is not None:
        require("wandb", "wandb")
        sinks.append(lambda run, _: background_sink("Weights & Biases", partial(_open_wandb, run, wandb)))
    return sinks


def combine_sinks(sinks: list[Sink]) -> Sink:
    """Returns a sink that writes to several sinks in order. Closes all of them, even if one raises."""

    def write(update: int, metrics: Mapping[str, Any]) -> None:
        for sink in sinks:
            sink.write(update, metrics)

    def close() -> None:
        with contextlib.ExitStack() as stack:
            for sink in sinks:
                stack.callback(sink.close)

    return Sink(write, close)


def background_sink(
    name: str,
    open_sink: Callable[[], Sink],
    max_queue_size: int = MAX_QUEUE_SIZE,
    timeout_seconds: float = CLOSE_TIMEOUT_SECONDS,
) -> Sink:
    """Returns a sink that opens, writes to and closes another sink in a thread, so that it cannot stop or delay a run.

    The first error or timeout logs one warning and switches the sink off.
    """
    waiting: queue.Queue[tuple[int, dict[str, Any]] | None] = queue.Queue(max_queue_size)
    is_off, lock = threading.Event(), threading.Lock()

    def switch_off(reason: str) -> None:
        with lock:  # both threads may call this
            if not is_off.is_set():
                _logger.warning("%s is switched off: %s. The run continues without it.", name, reason)
            is_off.set()

    def work() -> None:
        try:
            sink = open_sink()
            while (item := waiting.get()) is not None:
                sink.write(*item)
            sink.close()
        except (Exception, SystemExit) as error:  # third-party packages may raise anything
            switch_off(f"{type(error).__name__}: {error}")

    # A daemon thread does not keep the program from exiting if it hangs.
    thread = threading.Thread(target=work, name=f"sink {name}", daemon=True)
    thread.start()

    def write(update: int, metrics: Mapping[str, Any]) -> None:
        if is_off.is_set():
            return
        try:
            # Converted now, because the next update may reuse the memory of the arrays.
            waiting.put_nowait((update, to_json(metrics)))
        except queue.Full:
            switch_off(f"it is {max_queue_size} updates behind")
        except TypeError as error:
            switch_off(str(error))

    def close() -> None:
        if is_off.is_set():
            return
        end = time.monotonic() + timeout_seconds
        with contextlib.suppress(queue.Full):
            waiting.put(None, timeout=timeout_seconds)
        thread.join(max(0.0, end - time.monotonic()))
        if thread.is_alive():
            switch_off(f"it did not finish within {timeout_seconds:g} s")

    return Sink(write, close)


# Optional packages are imported by name, because type checkers may not find them.


def _open_tensorboard(run: RunDirectory, first_update: int) -> Sink:
    """Opens an event file in the run directory. TensorBoard then hides earlier events from `first_update` on."""
    # Not `SummaryWriter`, because errors in its background thread are not reported.
    writer = importlib.import_module("tensorboardX.event_file_writer")
    proto = importlib.import_module("tensorboardX.proto.event_pb2")
    scalar = importlib.import_module("tensorboardX.summary").scalar
    folder = run.path / "tensorboard"
    folder.mkdir(parents=True, exist_ok=True)
    events = writer.EventsWriter(str(folder / "events"))
    if first_update > 1:
        start = proto.SessionLog(status=proto.SessionLog.START)
        events.write_event(proto.Event(step=first_update, session_log=start))

    def write(update: int, metrics: Mapping[str, Any]) -> None:
        for name, value in _scalars(metrics).items():
            events.write_event(proto.Event(step=update, wall_time=time.time(), summary=scalar(name, value)))
        events.flush()

    return Sink(write, events.close)


def _open_wandb(run: RunDirectory, project: str) -> Sink:
    """Starts a W&B run with files in the run directory. A resumed run continues under the id stored there."""
    wandb = importlib.import_module("wandb")
    folder, config = run.path / "wandb", run.read_config()
    folder.mkdir(parents=True, exist_ok=True)
    id_file = folder / "id"
    if not id_file.exists():
        id_file.write_text(secrets.token_hex(8))
    run_id = id_file.read_text()
    wandb_run = wandb.init(
        project=project, name=run.path.name, config=config, dir=str(folder), id=run_id, resume="allow"
    )
    return Sink(lambda update, metrics: wandb_run.log(_scalars(metrics), step=update), wandb_run.finish)


def _scalars(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Returns the metrics that are numbers. Non-finite ones are None by now and are left out."""
    return {name: value for name, value in metrics.items() if isinstance(value, int | float)}
