"""Converts the arrays of a snapshot to JSON for the page. Missing arrays are left out."""

import base64
from typing import Any

import numpy as np

from gemax.runs.snapshots.files import SnapshotError
from gemax.view.geometry import expected_similarity, principal_components

PATH_ARRAYS = (
    "path_cell",
    "path_action",
    "path_return",
    "path_step",
    "path_length",
    "path_plane",
    "path_vector",
)


def snapshot_json(scene: dict[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Returns a snapshot for the page.

    Raises:
        SnapshotError: The arrays do not fit together.
    """
    try:
        content = _environment(arrays) | _geometry(scene, arrays)
        paths = {name.removeprefix("path_"): arrays[name] for name in PATH_ARRAYS if name in arrays}
        if "step" in paths:
            content["paths"] = {name: rounded(values) for name, values in paths.items()}
        if "film_grid" in arrays:
            frames, height, width, columns = (int(size) for size in arrays["film_grid"])
            content["film"] = {"frames": frames, "height": height, "width": width, "columns": columns}
    except (KeyError, IndexError, ValueError, TypeError, np.linalg.LinAlgError) as error:
        raise SnapshotError(f"The arrays of the snapshot do not fit together: {error}.") from error
    return content


def _environment(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    content = {}
    if "visits" in arrays:
        visits = np.nan_to_num(arrays["visits"].astype(np.float64))
        content["visits"] = rounded(visits / max(visits.sum(), 1e-30))
    if "actions" in arrays:
        counts = arrays["actions"].astype(np.float64)
        content["policy"] = rounded(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0))
    return content


def _geometry(scene: dict[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    content = {
        name: rounded(arrays[name])
        for name in ("point_cell", "point_time", "point_frame", "log_g")
        if name in arrays
    }
    embedding = arrays.get("embedding")
    if embedding is None or not len(embedding):
        return content
    if not np.isfinite(embedding).all():
        return content | {"note": "The embedding is not finite, so it cannot be drawn."}
    components = principal_components(embedding, _positions(scene, arrays))
    content |= {
        "two": rounded(components.two),
        "three": rounded(components.three),
        "shares": rounded(np.asarray(components.shares)),
        "components": base64.b64encode(components.all.astype("<f4").tobytes()).decode(),
        "num_components": components.all.shape[1],
    }
    if (scale := scene.get("similarity_scale")) is not None:
        content["p_k"] = rounded(expected_similarity(embedding, _probability(scene, arrays), scale))
    return content


def _positions(scene: dict[str, Any], arrays: dict[str, np.ndarray]) -> np.ndarray | None:
    """Returns what the drawing is oriented by: x to the right and y down on the map, or the time in the episode."""
    if scene["kind"] == "map":
        return np.asarray(scene["cells"], float)[arrays["point_cell"]][:, ::-1]
    if scene["kind"] == "bins":
        bins = int(scene["bins"])
        row, column = np.divmod(arrays["point_cell"], bins)
        return np.stack([row, bins - 1 - column], axis=1).astype(float)
    return arrays["point_time"][:, None].astype(float) if "point_time" in arrays else None


def _probability(scene: dict[str, Any], arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Returns the probability of each point: its share of the visits, or equal ones for a sample of the visits."""
    num_points = len(arrays["embedding"])
    if scene["kind"] == "map" and "visits" in arrays:
        visits = arrays["visits"][arrays["point_cell"]].astype(np.float64)
        if visits.sum() > 0:
            return visits / visits.sum()
    return np.full(num_points, 1 / num_points)


def rounded(values: np.ndarray) -> list[Any]:
    """Returns nested lists with four digits, and None for numbers that are not finite."""
    if values.dtype.kind in "biu":
        return values.tolist()
    values = values.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = 4 - np.ceil(np.log10(np.abs(values)))
    digits = np.where(np.isfinite(digits), np.clip(digits, -300, 300), 0)
    short = np.round(values * 10.0**digits) / 10.0**digits
    numbers = short.astype(object)
    numbers[~np.isfinite(short)] = None
    return numbers.tolist()
