"""The report of `gemax reproduce` for the page: its claims, and the plots beside them."""

import json
from pathlib import Path
from typing import Any

from gemax.view.confined import Confined, RefusedError

CLAIMS = "claims.json"
MAX_DEPTH = 2
FIELDS = ("figure", "claim", "verdict", "measure", "seed_count", "bar")


def find_report(confined: Confined) -> Path | None:
    """Returns the folder of the report: the root, or the first folder below it that holds claims."""
    root = confined.root
    for depth in range(MAX_DEPTH + 1):
        for path in sorted(root.glob("*/" * depth + CLAIMS)):
            if path.is_file() and confined.contains(path):
                return path.parent
    return None


def read_report(confined: Confined, folder: Path) -> dict[str, Any]:
    """Returns claims and figures of a report, with messages about what cannot be read."""
    messages: list[str] = []
    claims = _read_json(confined, folder / CLAIMS, messages)
    claims = (
        [_claim(claim) for claim in claims if isinstance(claim, dict)] if isinstance(claims, list) else []
    )
    figures = []
    for name in dict.fromkeys(claim["figure"] for claim in claims):
        figure = _read_json(confined, folder / f"{name}.json", messages) if _is_plain(name) else None
        if isinstance(figure, dict):
            plots = [plot for plot in _list(figure.get("plots")) if is_plot(confined, folder, plot)]
            figures.append(
                {key: str(figure.get(key, "")) for key in ("figure", "title", "claim", "command")}
                | {"plots": plots}
            )
    return {"claims": claims, "figures": figures, "messages": messages}


def is_plot(confined: Confined, folder: Path, name: Any) -> bool:
    """Returns whether a name is that of a PNG file in the folder of the report."""
    is_png = isinstance(name, str) and name.endswith(".png") and _is_plain(name)
    return is_png and (folder / name).is_file() and confined.contains(folder / name)


def _is_plain(name: str) -> bool:
    return bool(name) and name not in (".", "..") and not set(name) & set("/\\\0")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _claim(claim: dict[str, Any]) -> dict[str, Any]:
    interval = [item if isinstance(item, int | float) else None for item in _list(claim.get("interval"))]
    value = claim.get("value")
    return {name: str(claim.get(name, "")) for name in FIELDS} | {
        "value": value if isinstance(value, int | float) else None,
        "interval": interval[:2] if len(interval) >= 2 else [None, None],
    }


def _read_json(confined: Confined, path: Path, messages: list[str]) -> Any:
    try:
        return json.loads(confined.read_bytes(path), parse_constant=lambda _: None)
    except RefusedError as error:
        messages.append(str(error))
    except OSError as error:
        messages.append(f"{path.name} cannot be read: {error.strerror or error}.")
    except (ValueError, RecursionError):
        messages.append(f"{path.name} is damaged: it is not JSON.")
    return None
