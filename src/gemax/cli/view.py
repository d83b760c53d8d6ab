"""`gemax view`: shows runs in the browser."""

import contextlib
import select
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

if TYPE_CHECKING:
    from gemax.training.config import Config


def view(
    runs: Annotated[Positional[Path], arg(metavar="RUNS")] = Path("runs"),
    /,
    host: str = "127.0.0.1",
    port: Annotated[int | None, arg(metavar="PORT")] = None,
    browser: bool = True,
    export: Annotated[Path | None, arg(metavar="FILE")] = None,
) -> int:
    """Shows runs in the browser: live curves, where the agent has been, the geometry, and episodes.

    Args:
        runs: A run directory, or a folder with runs.
        host: Interface to listen on. By default, only this computer can open the page. With another interface, such as
            0.0.0.0, other computers can too, if they have the printed token.
        port: Port to listen on. The default is the first free one from 8420 on.
        browser: Open the page in a browser.
        export: Write one HTML file that needs no server, and exit.
    """
    from gemax.view.serve import serve

    if export is not None:
        from gemax.view.export import write_export

        size = write_export(runs, export)
        log(f"{export}: {size / 1e6:.1f} MB, opens in any browser.")
        return 0
    serve(runs, host, port, log, opens_browser=browser)
    return 0


def prepare_live_view(
    config: "Config", out: Path | None
) -> tuple[Path, contextlib.AbstractContextManager[None]]:
    """Returns the directory of a new run, and a context manager that shows its page."""
    from gemax.runs.seed_directories import new_run_path
    from gemax.view.serve import check_installed

    check_installed()
    path = new_run_path(config, out)
    return path, _live_page(path)


@contextlib.contextmanager
def _live_page(path: Path) -> Iterator[None]:
    from gemax.stopping import check_stop
    from gemax.view.beside import page_beside
    from gemax.view.serve import STOP_CHECK_SECONDS

    path.mkdir(parents=True, exist_ok=True)
    with page_beside(path, log) as address:
        yield
        if sys.stdin.isatty():
            log(f"Press Enter to close the page at {address}")
            while not select.select([sys.stdin], [], [], STOP_CHECK_SECONDS)[0]:
                check_stop()


def log(message: str) -> None:
    """Prints a message."""
    from gemax.runs.progress import make_console

    make_console().print(message, soft_wrap=True)
