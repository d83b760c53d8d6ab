"""`gemax train` and `gemax resume` compute in the calling thread."""

import subprocess
import sys

RUN_AND_PRINT = """
import sys
from gemax.cli import main
exit_code = main(sys.argv[1:])
import jax
print("asynchronous:", jax.config.read("jax_cpu_enable_async_dispatch"), "exit code:", exit_code)
"""


def last_line(*arguments: str) -> str:
    command = [sys.executable, "-c", RUN_AND_PRINT, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1]


def test_runs_compute_in_the_calling_thread(tmp_path):
    run = str(tmp_path / "run")
    small = ("--updates", "2", "--out", run)
    assert last_line("train", "two-rooms", *small) == "asynchronous: False exit code: 0"
    assert last_line("resume", run, "--updates", "3") == "asynchronous: False exit code: 0"
