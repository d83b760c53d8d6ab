"""Errors of the metrics file are raised; any other sink may fail or hang without stopping the run."""

import logging
import struct
import subprocess
import sys
import threading
import time

import jax.numpy as jnp
import pytest
from tensorboardX.proto.event_pb2 import Event

from gemax.runs.run_directory import RunDirectory, create_run
from gemax.runs.sinks import Sink, background_sink, combine_sinks, sinks_for


class MemorySink:
    """Records what is written. Raises or hangs when opened, closed or at a given update."""

    def __init__(self, fail_at=None, hang_at=None):
        self.written, self.is_closed = [], False
        self.fail_at, self.hang_at = fail_at, hang_at
        self.release = threading.Event()

    def fail_or_hang(self, event):
        if event == self.fail_at:
            raise RuntimeError("on purpose")
        if event == self.hang_at:
            self.release.wait(30)

    def open(self):
        self.fail_or_hang("open")
        return Sink(self.write, self.close)

    def write(self, update, metrics):
        self.fail_or_hang(update)
        self.written.append((update, metrics))

    def close(self):
        self.fail_or_hang("close")
        self.is_closed = True


def open_sink(run, first_update=1, **options):
    (open_requested,) = sinks_for(**options)
    return open_requested(run, first_update)


def warnings_in(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_combined_sinks_get_the_same_metrics_and_are_all_closed():
    memory, failing = MemorySink(), MemorySink(fail_at="close")
    sink = combine_sinks([failing.open(), memory.open()])
    sink.write(1, {"loss": 0.5})
    with pytest.raises(RuntimeError, match="on purpose"):
        sink.close()
    assert memory.written == [(1, {"loss": 0.5})]
    assert memory.is_closed


# Background sinks


def test_a_background_sink_gets_everything_in_order_and_is_closed(caplog):
    memory = MemorySink()
    sink = background_sink("Memory", memory.open)
    for update in range(100):
        sink.write(update, {"loss": jnp.float32(update), "bad": jnp.nan})
    sink.close()
    assert memory.written == [(update, {"loss": float(update), "bad": None}) for update in range(100)]
    assert memory.is_closed
    assert warnings_in(caplog) == []


@pytest.mark.parametrize("event", ["open", 0, 3, "close"])
@pytest.mark.fault(39)
def test_a_sink_that_raises_logs_one_warning_and_is_switched_off(caplog, event):
    memory = MemorySink(fail_at=event)
    sink = background_sink("Memory", memory.open)
    for update in range(20):
        sink.write(update, {})
        time.sleep(0.001)
    sink.close()
    sink.close()
    assert len(warnings_in(caplog)) == 1
    assert "Memory is switched off: RuntimeError: on purpose" in warnings_in(caplog)[0]
    assert len(memory.written) == {"open": 0, 0: 0, 3: 3, "close": 20}[event]


@pytest.mark.parametrize("event", ["open", 0, 3, "close"])
@pytest.mark.fault(39)
def test_a_sink_that_hangs_delays_only_the_end_of_a_run_and_only_until_the_timeout(caplog, event):
    memory = MemorySink(hang_at=event)
    start = time.monotonic()
    sink = background_sink("Memory", memory.open, timeout_seconds=0.2)
    for update in range(20):
        sink.write(update, {})
    assert time.monotonic() - start < 0.15
    sink.close()
    assert 0.2 <= time.monotonic() - start < 2.0
    assert warnings_in(caplog) == [
        "Memory is switched off: it did not finish within 0.2 s. The run continues without it."
    ]
    memory.release.set()


@pytest.mark.fault(39)
def test_a_sink_that_hangs_is_switched_off_when_its_queue_is_full(caplog):
    memory = MemorySink(hang_at=0)
    sink = background_sink("Memory", memory.open, max_queue_size=10)
    for update in range(1_000):
        sink.write(update, {})
    start = time.monotonic()
    sink.close()
    assert time.monotonic() - start < 0.5
    assert len(warnings_in(caplog)) == 1
    assert "10 updates behind" in warnings_in(caplog)[0]
    memory.release.set()


def test_metrics_that_json_cannot_represent_switch_off_only_the_sink(caplog):
    sink = background_sink("Memory", MemorySink().open)
    sink.write(1, {"a": object()})
    sink.close()
    assert len(warnings_in(caplog)) == 1


def test_a_sink_cannot_exit_the_program(caplog):
    def exit_program():
        sys.exit("no login")

    sink = background_sink("Memory", exit_program)
    sink.close()
    assert "SystemExit: no login" in warnings_in(caplog)[0]


@pytest.mark.fault(39)
def test_a_program_exits_while_a_sink_hangs():
    code = """
import time
from gemax.runs.sinks import background_sink
sink = background_sink("Memory", lambda: time.sleep(600), timeout_seconds=0.1)
sink.write(1, {})
sink.close()
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert result.returncode == 0
    assert result.stderr.count("Memory is switched off") == 1


# TensorBoard


def events_in(folder):
    """Parses event files: each record is a length, its checksum, the event and its checksum."""
    events = []
    for path in sorted(folder.glob("events.out.tfevents.*")):
        content = path.read_bytes()
        while content:
            (length,) = struct.unpack("<Q", content[:8])
            events.append(Event.FromString(content[12 : 12 + length]))
            content = content[12 + length + 4 :]
    return events


def test_tensorboard_gets_every_number(tmp_path, caplog):
    sink = open_sink(RunDirectory(tmp_path / "run"), tensorboard=True)
    sink.write(10, {"loss": 0.5, "episodes": 3, "nan": float("nan"), "text": "a", "list": [1]})
    sink.write(20, {"loss": 0.25})
    sink.close()
    values = [
        (event.step, value.tag, value.simple_value)
        for event in events_in(tmp_path / "run" / "tensorboard")
        for value in event.summary.value
    ]
    assert values == [(10, "loss", 0.5), (10, "episodes", 3.0), (20, "loss", 0.25)]
    assert warnings_in(caplog) == []


def test_tensorboard_gets_the_first_update_of_a_resumed_run(tmp_path):
    with create_run(tmp_path / "run", {}) as run:
        open_sink(run, 21, tensorboard=True).close()
    events = events_in(tmp_path / "run" / "tensorboard")
    assert [event.step for event in events if event.HasField("session_log")] == [21]


def test_a_tensorboard_folder_that_cannot_be_created_does_not_stop_a_run(tmp_path, caplog):
    (tmp_path / "tensorboard").write_text("not a folder")
    sink = open_sink(RunDirectory(tmp_path), tensorboard=True)
    sink.write(1, {"loss": 0.5})
    sink.close()
    assert len(warnings_in(caplog)) == 1
    assert "TensorBoard is switched off: FileExistsError" in warnings_in(caplog)[0]


# Missing packages, and a fake W&B


@pytest.mark.parametrize(
    ("package", "extra", "options"),
    [("tensorboardX", "tensorboard", {"tensorboard": True}), ("wandb", "wandb", {"wandb": "gemax"})],
)
@pytest.mark.fault(39)
def test_a_missing_package_is_reported_with_the_command_to_install_it(monkeypatch, package, extra, options):
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == package else pytest.fail(name)
    )
    with pytest.raises(
        ValueError, match=rf"{extra} needs .*, which is not installed: pip install 'gemax\[{extra}\]'"
    ):
        sinks_for(**options)


WANDB = """
class Run:
    def __init__(self, **settings):
        self.file = open(settings["dir"] + "/log", "a")
        print({name: settings[name] for name in ("project", "name", "config", "id", "resume")}, file=self.file)
    def log(self, metrics, step):
        print(step, metrics, file=self.file)
    def finish(self):
        self.file.close()

init = Run
"""


@pytest.fixture
def fake_wandb(tmp_path, monkeypatch):
    """Returns a function that installs a module named wandb."""

    def install(source):
        (tmp_path / "packages").mkdir()
        (tmp_path / "packages" / "wandb.py").write_text(source)

    monkeypatch.syspath_prepend(tmp_path / "packages")
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    yield install
    sys.modules.pop("wandb", None)


def test_wandb_gets_every_number_and_a_resumed_run_keeps_its_id(tmp_path, fake_wandb, caplog):
    fake_wandb(WANDB)
    with create_run(tmp_path / "two-rooms", {"seed": 1}) as run:
        for update in (5, 10):
            sink = open_sink(run, update, wandb="mine")
            sink.write(update, {"loss": 0.5, "nan": float("nan")})
            sink.close()
    identity = (run.path / "wandb" / "id").read_text()
    opened = {
        "project": "mine",
        "name": "two-rooms",
        "config": {"seed": 1},
        "id": identity,
        "resume": "allow",
    }
    assert (run.path / "wandb" / "log").read_text().splitlines() == [
        str(opened), "5 {'loss': 0.5}", str(opened), "10 {'loss': 0.5}",
    ]  # fmt: skip
    assert warnings_in(caplog) == []


@pytest.mark.fault(39)
def test_a_broken_wandb_does_not_stop_a_run(tmp_path, fake_wandb, caplog):
    fake_wandb("raise ImportError('wrong protobuf')")
    (tmp_path / "config.json").write_text("{}")
    sink = open_sink(RunDirectory(tmp_path), wandb="gemax")
    sink.write(5, {"loss": 0.5})
    sink.close()
    assert warnings_in(caplog) == [
        "Weights & Biases is switched off: ImportError: wrong protobuf. The run continues without it."
    ]
