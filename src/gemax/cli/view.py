"""`gemax view`: shows runs in the browser."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg


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
        host: Interface to listen on. Other computers can reach all but the default one; they need the printed token.
        port: Port to listen on. The default is the first free one from 8420 on.
        browser: Open the page in a browser.
        export: Write one HTML file that needs no server, and exit.
    """
    from gemax.cli.progress import make_console
    from gemax.view.serve import serve

    def log(message: str) -> None:
        make_console().print(message, soft_wrap=True)

    if export is not None:
        from gemax.view.export import write_export

        size = write_export(runs, export)
        log(f"{export}: {size / 1e6:.1f} MB, opens in any browser.")
        return 0
    serve(runs, host, port, log, opens_browser=browser)
    return 0
