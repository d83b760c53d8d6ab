"""Errors that the command line reports without a traceback, and all exit codes. Imports nothing heavy."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of the command line. A program that a signal stopped has 128 plus the number of the signal."""

    OK = 0
    INCOMPLETE = 1
    """Some of several runs or seeds failed. Also the code of a defect in gemax, with a traceback."""
    USAGE = 2
    """Wrong arguments or configuration, files that cannot be used, or too little memory."""
    ENV = 3
    """An environment failed, or the cluster that steps it."""
    CHECKPOINT = 4
    NUMERICAL = 5


class GemaxError(Exception):
    """Base class. Invalid input raises ValueError or OSError instead, with exit code 2."""

    exit_code: int = ExitCode.INCOMPLETE


class SeedsFailedError(GemaxError):
    """Some of several seeds failed. The message says which and why, and what became of the others."""


class EnvFault(GemaxError):  # noqa: N818 the fault is in the user's environment, not in gemax
    """A user's environment failed and the run cannot continue. The message names the environment, step and cause."""

    exit_code = ExitCode.ENV


class CheckpointError(GemaxError):
    """No usable checkpoint was found, or the last one could not be written. The message gives the reasons."""

    exit_code = ExitCode.CHECKPOINT


class NumericalError(GemaxError):
    """Too many consecutive updates were not finite."""

    exit_code = ExitCode.NUMERICAL


class ClusterError(GemaxError):
    """The Ray cluster cannot continue a run. The message gives the reason."""

    exit_code = ExitCode.ENV
