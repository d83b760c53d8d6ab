"""Describes the environment of a run to the page: its map, the axes of its bins, or neither."""

from typing import Any

import numpy as np

from gemax.envs.base import BINS_PER_AXIS, NUM_BINS, FiniteEnv, Plane
from gemax.envs.maps import MOVES
from gemax.training.compiled import CompiledCollector
from gemax.training.learn import Trainer

MAX_POINTS = 1024
"""Largest number of embedded observations per snapshot."""


def scene_of(trainer: Trainer) -> dict[str, Any]:
    """Returns what the page has to know about the environment.

    `kind` is `map` for gridworlds, `bins` for two continuous variables, and `samples` if visits cannot be counted.
    """
    spec, intrinsic = trainer.spec, trainer.config.intrinsic
    has_similarity = intrinsic.method == "gem" and intrinsic.similarity in ("learned", "exponential")
    scene = {
        "kind": "samples",
        "env": spec.name,
        "horizon": spec.horizon,
        "observation_shape": list(spec.observation.shape),
        "similarity_scale": intrinsic.similarity_scale if has_similarity else None,
    }
    plane = plane_of(trainer)
    if trainer.finite is not None:
        return scene | {"kind": "map"} | _map(trainer.finite)
    if plane is not None:
        axes = [
            {"name": name, "low": low, "high": high}
            for name, low, high in zip(plane.names, plane.low, plane.high, strict=True)
        ]
        return scene | {"kind": "bins", "axes": axes, "bins": BINS_PER_AXIS}
    return scene


def plane_of(trainer: Trainer) -> Plane | None:
    """Returns the two variables that the cells of the environment are bins of, if it has such cells."""
    collector = trainer.collector
    if isinstance(collector, CompiledCollector) and trainer.spec.num_cells == NUM_BINS:
        return collector.env.plane
    return None


def _map(finite: FiniteEnv) -> dict[str, Any]:
    cell, neighbour = np.nonzero(np.triu(finite.distances() == 1))
    return {
        "rows": list(finite.map_rows),
        "cells": finite.cell_positions,
        "neighbours": np.stack([cell, neighbour], axis=1),
        "moves": MOVES,
        "points": embedded_cells(finite),
    }


def embedded_cells(finite: FiniteEnv) -> np.ndarray:
    """Returns the cells whose observation is embedded: all that can be reached, or an even selection of many."""
    cells = np.unique(finite.model.cell)
    if len(cells) <= MAX_POINTS:
        return cells
    return cells[np.linspace(0, len(cells) - 1, MAX_POINTS).astype(int)]
