"""Writes the page and all its data into one HTML file, which needs no server and makes no request."""

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

from gemax.runs.files import write_bytes
from gemax.view.app import image
from gemax.view.assets import MODULES, PAGE, plotly_js
from gemax.view.library import Library
from gemax.view.serve import check_installed

MAX_SNAPSHOTS = 600
"""Snapshots of all runs together. Each run has at least `MIN_SNAPSHOTS`, if it has so many."""
MIN_SNAPSHOTS = 4
LINK, PLOTLY, MODULE, STYLE, HEAD = (
    '<link rel="icon" href="icon.svg" type="image/svg+xml">',
    '<script id="plotly" src="plotly.min.js" async></script>',
    '<script type="module" src="main.js"></script>',
    '<link rel="stylesheet" href="style.css">',
    '<meta charset="utf-8">',
)
"""The tags of `index.html` that are replaced by the content they refer to."""


def write_export(root: Path, path: Path) -> int:
    """Writes the page of a folder to a file. Returns its size in bytes.

    Raises:
        ValueError: The folder or a package is missing.
        OSError: The file cannot be written.
    """
    check_installed()
    if not root.is_dir():
        raise ValueError(f"{root} is not a folder. Name a run directory, or a folder with runs.")
    content = export_page(Library(root)).encode()
    write_bytes(path, content)
    return len(content)


def export_page(library: Library) -> str:
    """Returns the page as one HTML text. A policy in it allows its own scripts by their hashes, and no request."""
    scripts = {PLOTLY: plotly_js().decode(), MODULE: bundle()}
    icon = base64.b64encode((PAGE / "icon.svg").read_bytes()).decode()
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {' '.join(script_hash(script) for script in scripts.values())}",
            "style-src 'unsafe-inline'",
            "img-src data: blob:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    data = json.dumps(export_data(library), allow_nan=False).replace("<", "\\u003c")
    parts = {
        HEAD: f'{HEAD}\n<meta http-equiv="Content-Security-Policy" content="{policy}">',
        LINK: f'<link rel="icon" href="data:image/svg+xml;base64,{icon}">',
        STYLE: f"<style>\n{(PAGE / 'style.css').read_text()}</style>",
        PLOTLY: f'<script type="application/json" id="data">{data}</script>\n<script>{scripts[PLOTLY]}</script>',
        MODULE: f'<script type="module">{scripts[MODULE]}</script>',
    }
    page = (PAGE / "index.html").read_text()
    for tag, replacement in parts.items():
        before, found, after = page.partition(tag)
        assert found, f"index.html has no {tag}"
        page = before + replacement + after
    return page


def bundle() -> str:
    """Returns all modules as one. They import only from each other, and their names differ."""
    modules = ((PAGE / name).read_text() for name in MODULES)
    without_imports = (re.sub(r"^import [^;]*;\n", "", text, flags=re.MULTILINE) for text in modules)
    return "\n".join(re.sub(r"^export ", "", text, flags=re.MULTILINE) for text in without_imports)


def script_hash(script: str) -> str:
    """Returns the source expression of a content security policy that allows exactly this script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def export_data(library: Library) -> dict[str, Any]:
    """Returns everything that the page would ask a server for. Runs keep an even selection of their snapshots."""
    index, report = library.index(), library.report()
    runs = index["runs"]
    per_run = max(MAX_SNAPSHOTS // max(len(runs), 1), MIN_SNAPSHOTS)
    runs = [run | {"snapshots": _selection(run["snapshots"], per_run)} for run in runs]
    snapshots = {
        run["id"]: {update: library.snapshot(run["id"], update) for update in run["snapshots"]}
        for run in runs
    }
    films = {
        run_id: {
            update: _image_text(library.film(run_id, update)) for update in found if "film" in found[update]
        }
        for run_id, found in snapshots.items()
    }
    metrics = sorted({name for run in runs for name in run["last"]})
    figures = [] if report is None else report["figures"]
    return {
        "index": index | {"runs": runs},
        "report": report,
        "curves": library.curves([run["id"] for run in runs], metrics),
        "snapshots": snapshots,
        "films": films,
        "warnings": {run["id"]: library.warnings(run["id"]) for run in runs},
        "plots": {plot: _image_text(library.plot(plot)) for figure in figures for plot in figure["plots"]},
    }


def _selection(updates: list[int], count: int) -> list[int]:
    if len(updates) <= count:
        return updates
    return [updates[round(index * (len(updates) - 1) / (count - 1))] for index in range(count)]


def _image_text(content: bytes) -> str:
    """Returns an image as an address that contains it."""
    return f"data:{image(content).media_type};base64,{base64.b64encode(content).decode()}"
