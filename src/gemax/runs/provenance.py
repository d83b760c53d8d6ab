"""Versions, commit and machine, stored with every result."""

import functools
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from gemax.version import VERSION

NO_RESULTS = (":(exclude)results", ":(exclude)benchmarks/*.json")
"""Leaves out what experiments and benchmarks write."""


def provenance() -> dict[str, Any]:
    """Returns what is needed to reproduce a result: versions, source commit, machine and number of cores."""
    return {
        "gemax": VERSION,
        "commit": _commit(),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "flax", "numpy", "optax")},
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    }


def check_clean(commit: str | None) -> None:
    """Raises ValueError if the source tree has uncommitted changes."""
    if commit is not None and commit.endswith("-dirty"):
        raise ValueError(
            "the source tree has uncommitted changes, so that the results could not be repeated. Commit them, or pass "
            "--allow-dirty."
        )


@functools.cache
def _commit() -> str | None:
    """Returns the commit of the source tree, with `-dirty` if files changed; None for an installed package.

    Read once, because a process keeps the code that it has loaded.
    """
    return commit_of(Path(__file__).resolve().parents[3])


def commit_of(source: Path) -> str | None:
    """Returns the commit of a source tree, as above. Changed results do not count: long commands write them."""
    if not (source / ".git").exists():
        return None
    commit = _git(source, "describe", "--always", "--abbrev=12")
    changed = _git(source, "status", "--porcelain", "--untracked-files=no", "--", ".", *NO_RESULTS)
    return f"{commit}-dirty" if commit and changed else commit


def _git(source: Path, *arguments: str) -> str | None:
    """Returns the output of a git command. None if it is empty, or if git fails."""
    command = ["git", "-C", str(source), *arguments]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() or None
