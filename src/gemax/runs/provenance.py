"""What made a result: versions, commit and machine."""

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from gemax.version import VERSION


def provenance() -> dict[str, Any]:
    """Facts that stand beside every result, so that it can be made again."""
    return {
        "gemax": VERSION,
        "commit": _commit(),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "flax", "numpy", "optax")},
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    }


def _commit() -> str | None:
    """The commit of the source tree, with a mark if it was changed since; None for an installed package."""
    source = Path(__file__).resolve().parents[3]
    if not (source / ".git").exists():
        return None
    try:
        command = ["git", "-C", str(source), "describe", "--always", "--dirty", "--abbrev=12"]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None
