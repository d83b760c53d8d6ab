"""Small file systems for tests of full and read-only disks."""

import contextlib
import subprocess

import pytest


@contextlib.contextmanager
def mounted(folder, options):
    """Mounts a tmpfs on a folder. Skips the test if mounting is not permitted."""
    try:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        is_mounted = subprocess.run(command, capture_output=True, timeout=10).returncode == 0
    except OSError:
        is_mounted = False
    if not is_mounted:
        pytest.skip("mounting is not permitted")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True, timeout=10)
