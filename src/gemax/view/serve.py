"""Serves the page of a folder, and opens it in a browser."""

import os
import socket
import threading
import webbrowser
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gemax.stopping import catch_stop_signals, check_stop
from gemax.view.events import Changes
from gemax.view.library import Library

DEFAULT_PORT = 8420
STOP_CHECK_SECONDS = 0.2
NICENESS = 10
NUM_PORTS = 20
"""If the default port is in use, this many ports after it are tried."""


def check_installed() -> None:
    """Raises ValueError if a package of the page is not installed."""
    missing = [name for name in ("starlette", "uvicorn", "plotly") if find_spec(name) is None]
    if missing:
        raise ValueError(f"gemax view needs {', '.join(missing)}. Install it with: pip install 'gemax[view]'")


def serve(
    root: Path, host: str, port: int | None, log: Callable[[str], None], *, opens_browser: bool = True
) -> None:
    """Serves the page until the process is interrupted.

    Args:
        root: A run directory, or a folder with runs.
        host: The interface to listen on. All others than the local one need a token.
        port: The port to listen on. None is the first free one from `DEFAULT_PORT` on.
        log: Called with messages.
        opens_browser: Whether the page is opened in a browser.

    Raises:
        ValueError: The folder or a package is missing.
        OSError: The port is in use.
    """
    check_installed()
    import uvicorn

    from gemax.view.app import make_app
    from gemax.view.security import access_to

    if not root.is_dir():
        raise ValueError(f"{root} is not a folder. Name a run directory, or a folder with runs.")
    with listen(host, port) as listener:
        access = access_to(host, listener.getsockname()[1])
        address = page_address(host, access.port, access.token)
        if access.token is not None:
            log(
                f"Warning: {host} is not the local interface, so other computers can reach this page. The address "
                "holds a token: everybody who has it can read these runs. The connection is not encrypted."
            )
        log(f"{root}: {address} (stop with Ctrl-C)")
        library = Library(root)
        changes = Changes(library)
        app = make_app(library, access, changes)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=3))
        if opens_browser:
            threading.Timer(0.5, webbrowser.open, [address]).start()
        _run_until_stopped(server, changes, listener)


def _run_until_stopped(server: Any, changes: Changes, listener: socket.socket) -> None:
    """Runs the server in a thread, where it leaves signals alone, until it ends or the user asks to stop."""

    def run() -> None:
        # Training comes first. On Linux this changes the threads of the server only, not a browser that it opens.
        os.nice(NICENESS)
        server.run(sockets=[listener])

    thread = threading.Thread(target=run, name="page", daemon=True)
    with catch_stop_signals() as stop:
        thread.start()
        while thread.is_alive() and stop.signal is None:
            thread.join(STOP_CHECK_SECONDS)
        # The server waits for its answers to end, and the streams of open pages have no end of their own.
        changes.close()
        server.should_exit = True
        thread.join()
        check_stop()


def listen(host: str, port: int | None) -> socket.socket:
    """Returns a socket that listens on the port, or on the first free one if it is None.

    Raises:
        OSError: The port is in use, or the interface does not exist.
    """
    ports = range(DEFAULT_PORT, DEFAULT_PORT + NUM_PORTS) if port is None else [port]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in ports:
        listener = socket.socket(family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, number))
            # From here on browsers wait for an answer, also before the server has started.
            listener.listen(128)
        except OSError as error:
            listener.close()
            if number != ports[-1]:
                continue
            reason = error.strerror or error
            raise OSError(
                f"Cannot listen on {host}, port {number}: {reason}. Choose another with --port."
            ) from error
        return listener
    raise AssertionError("there is at least one port")


def page_address(host: str, port: int, token: str | None) -> str:
    """Returns the address of the page, with the token if it needs one."""
    name = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    name = f"[{name}]" if ":" in name else name
    return f"http://{name}:{port}/" + ("" if token is None else f"?token={token}")
