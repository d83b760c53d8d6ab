"""The first things that a user types answer at once. Processor time, so that other load does not count."""

import resource
import subprocess
import sys

import pytest

SLACK = 2.0
"""Two programs that share a core slow each other down."""


def processor_seconds(*arguments):
    """Returns the processor time of a Python program, the fastest of three."""

    def measure():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], capture_output=True, timeout=120, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(measure() for _ in range(3))


@pytest.mark.parametrize(
    ("arguments", "seconds"),
    [
        (["-m", "gemax.cli", "--help"], 0.5),
        (["-m", "gemax.cli", "train", "--help"], 1.0),
        (["-c", "import gemax"], 0.15),
    ],
)
def test_help_and_import_are_fast(arguments, seconds):
    assert processor_seconds(*arguments) < SLACK * seconds
