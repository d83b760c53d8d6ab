"""The page beside a run that trains: a process of its own, which takes no time of the training process."""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from gemax.view.serve import check_installed, listen, page_address, serve

HOST = "127.0.0.1"
STOP_SECONDS = 5.0
"""How long the end of a run waits for the page to stop."""


@contextlib.contextmanager
def page_beside(root: Path, log: Callable[[str], None], *, opens_browser: bool = True) -> Iterator[str]:
    """Serves the page of a run until the block ends, or this process ends. Yields its address.

    Raises:
        ValueError: A package of the page is not installed.
    """
    check_installed()
    with listen(HOST, None) as listener:
        port = listener.getsockname()[1]
    code = "from gemax.view.beside import serve_until_parent_ends; serve_until_parent_ends()"
    page = subprocess.Popen(
        [sys.executable, "-c", code, str(root), str(port), str(int(opens_browser))],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Ctrl-C is for the training run, which then ends this process.
        start_new_session=True,
    )
    try:
        address = page_address(HOST, port, None)
        log(f"Watch it train: {address}")
        yield address
    finally:
        assert page.stdin is not None
        page.stdin.close()
        try:
            page.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            page.kill()
            page.wait()


def serve_until_parent_ends() -> None:
    """Serves the page named on the command line until standard input ends, which is when the parent process ends."""
    root, port, opens_browser = sys.argv[1:]

    def wait() -> None:
        sys.stdin.buffer.read()
        # The server has no state to save.
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()
    serve(Path(root), HOST, int(port), lambda message: None, opens_browser=opens_browser == "1")
