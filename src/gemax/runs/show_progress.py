"""The hooks of a run that is started from Python: a progress bar and the user's callback."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from gemax.runs.session import Callback, Hooks
from gemax.runs.sinks import OpenSink


@contextlib.contextmanager
def show_progress(
    updates: int, progress: bool, callback: Callback | None, sinks: Sequence[OpenSink]
) -> Iterator[Hooks]:
    """Yields the hooks of a run, with a progress bar if `progress` is set."""
    if not progress:
        yield Hooks(callback=callback, sinks=sinks)
        return
    # `rich` is slow to import.
    from gemax.runs.progress import training_bar

    with training_bar(updates) as bar:

        def show(metrics: dict[str, Any]) -> None:
            bar.show(metrics)
            if callback is not None:
                callback(metrics)

        yield Hooks(bar.log, show, sinks)
