"""How much memory an update needs, and how much there is: runs that cannot fit are refused before they start."""

import os
import resource
from pathlib import Path

from gemax.training.config import Config

BYTES_PER_UNIT = 4 * 4
"""A float32 for each unit of the network and step, for activations and gradients. A lower bound."""
LSTM_UNITS = 6
"""Values per LSTM unit and step: four gates, hidden state and cell state."""


def bytes_per_update(config: Config) -> int:
    """Returns a lower bound of the memory that one update needs, over all seeds."""
    agent = config.agent
    # Without the torso: in finite environments it runs once per distinct observation, not per step.
    units = LSTM_UNITS * agent.lstm_size + 2 * agent.head_size
    steps = config.run.seeds * config.env.num_envs * agent.unroll_length
    return BYTES_PER_UNIT * units * steps


def max_num_envs(config: Config, num_bytes: int) -> int:
    """Returns the largest `num_envs` whose update may fit into this many bytes."""
    return num_bytes // bytes_per_update(config.replace(num_envs=1, num_minibatches=1, method="none"))


def check_memory(config: Config) -> None:
    """Raises ValueError if an update cannot fit into memory. The message says which `num_envs` may fit."""
    needed, available = bytes_per_update(config), available_bytes()
    if needed > available:
        env, agent, run = config.env, config.agent, config.run
        raise ValueError(
            f"an update of {run.seeds} × {env.num_envs:,} environments × {agent.unroll_length} steps needs at least "
            f"{needed / 1e9:.1f} GB, and {available / 1e9:.1f} GB are available. Lower num_envs to about "
            f"{max_num_envs(config, available):,} at most, or unroll_length, seeds or the sizes of the networks."
        )


def available_bytes() -> int:
    """Returns the memory that this process can still get: of the machine, its container and its own limit."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
        if "MemAvailable" in fields:
            limits.append(int(fields["MemAvailable"].split()[0]) * 1024)
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        if Path(path).exists() and (text := Path(path).read_text().strip()).isdecimal():
            limits.append(int(text))
    own_limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if own_limit != resource.RLIM_INFINITY:
        limits.append(own_limit)
    return min(limits)
