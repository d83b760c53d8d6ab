"""Describes exceptions for users: one line for their own errors, a traceback and an address for defects of gemax."""

import re
import traceback
from pathlib import Path

from gemax.errors import ExitCode, GemaxError

PACKAGE = Path(__file__).resolve().parents[1]
REPORT = (
    "This is a defect of gemax. Please report it in the issue tracker of gemax, with the lines above and the "
    "output of `gemax doctor`."
)
LOWER = "Lower num_envs, unroll_length or seeds, or use a smaller map. `gemax doctor` says what fits."


def describe_failure(error: Exception) -> tuple[str, int]:
    """Returns the message and the exit code of an exception that ended a command."""
    if is_out_of_memory(error):
        return f"gemax: out of memory{_size_of(error)}. {LOWER}", ExitCode.USAGE
    if isinstance(error, GemaxError):
        return f"gemax: {error}", error.exit_code
    if isinstance(error, OSError) or (isinstance(error, ValueError) and is_ours(error)):
        return f"gemax: {error}", ExitCode.USAGE
    return f"{''.join(traceback.format_exception(error))}gemax: {REPORT}", ExitCode.INCOMPLETE


def is_ours(error: Exception) -> bool:
    """Returns whether gemax itself raised an exception, and not a library that it uses."""
    frames = list(traceback.walk_tb(error.__traceback__))
    return bool(frames) and Path(frames[-1][0].f_code.co_filename).resolve().is_relative_to(PACKAGE)


def is_out_of_memory(error: Exception) -> bool:
    """Returns whether Python, NumPy or XLA could not allocate memory."""
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)[:1000]


def _size_of(error: Exception) -> str:
    """Returns the size that could not be allocated, if the message contains one."""
    size = re.search(r"(\d[\d.]*) ?([KMGT]?i?B|bytes)", str(error))
    return f" while allocating {size[0]}" if size else ""
