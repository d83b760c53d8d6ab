"""The files of the page: our own HTML, CSS and JavaScript, and the charts of the installed package `plotly`."""

import functools
import gzip
from pathlib import Path

PAGE = Path(__file__).parent / "page"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
MODULES = (
    "dom.js", "words.js", "colours.js", "source.js", "state.js", "bands.js", "charts.js", "curves.js", "map.js",
    "embedding.js", "timeline.js", "environment.js", "player.js", "episodes.js", "report.js", "main.js",
)  # fmt: skip
"""The JavaScript modules. Each one imports only from earlier ones."""


def page_files() -> dict[str, Path]:
    """Returns the files that the server sends, by name."""
    return {path.name: path for path in sorted(PAGE.iterdir()) if path.suffix in TYPES}


@functools.cache
def plotly_js() -> bytes:
    """Returns the JavaScript of Plotly, from the installed Python package."""
    from plotly.offline import get_plotlyjs

    return get_plotlyjs().encode()


@functools.cache
def compressed_plotly_js() -> bytes:
    """Returns the JavaScript of Plotly, compressed."""
    return gzip.compress(plotly_js(), 1)
