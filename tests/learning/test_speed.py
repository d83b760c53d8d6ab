"""Training is as many times as fast as a peer as it was when it was recorded, within a third."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "peers.py"
PEER = "RecurrentPPO"
"""The peer that is installed with the test dependencies and whose ratio is recorded."""


@pytest.mark.slow
def test_the_ratio_to_a_peer_has_not_fallen_by_more_than_a_third():
    names = ["ours, cells", PEER]
    command = [sys.executable, str(BENCHMARK), "--check", "--rounds", "3", "--names", *names]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
