"""Errors that the command line reports without a traceback, each with its exit code. Imports nothing heavy."""


class GemaxError(Exception):
    """Base class. Invalid input raises ValueError or OSError instead, with exit code 2."""

    exit_code = 1


class EnvFault(GemaxError):  # noqa: N818 the fault is in the user's environment, not in gemax
    """A user's environment failed and the run cannot continue. The message names the environment, step and cause."""

    exit_code = 3


class CheckpointError(GemaxError):
    """No usable checkpoint was found, or the last one could not be written. The message gives the reasons."""

    exit_code = 4


class NumericalError(GemaxError):
    """Too many consecutive updates were not finite."""

    exit_code = 5
