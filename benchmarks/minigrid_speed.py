"""Measures how fast GEM's default trains in MiniGrid, against `--per-episode` of an earlier commit.

`make bench-minigrid-speed`

The earlier source is read from the repository. Both train in turn, each in a process of its own, so that other load on
the machine affects both.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from gemax.runs.provenance import provenance

ROOT = Path(__file__).parents[1]
ENV_ID = "gym:MiniGrid-DoorKey-8x8-v0"
EARLIER_COMMIT = "de0f8a4"
"""The last commit with `--per-episode`, before the entropies over and within episodes were combined."""
ROUNDS, FRAMES = 7, 16_384
"""Number of rounds, and frames of each in a round."""

TRAIN = """
import sys, time
from gemax.training.assemble import assemble
from gemax.training.loop import initial_states, train
from gemax.training.presets import configure

env_id, frames, settings = sys.argv[1], int(sys.argv[2]), eval(sys.argv[3])
config = configure(env_id, updates=10**6, **settings)
trainer = assemble(config)
steps = train(trainer, initial_states(trainer))
for _ in sys.stdin:
    start = time.perf_counter()
    for _ in range(frames // config.frames_per_update):
        next(steps)
    print("frames per second:", frames / (time.perf_counter() - start), flush=True)
"""


class Trainer:
    """A process that trains with one version of the source, a round at a time."""

    def __init__(self, source: Path, **settings) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", TRAIN, ENV_ID, str(FRAMES), repr(settings)],
            env={**os.environ, "PYTHONPATH": str(source)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def frames_per_second(self) -> float:
        """Trains for one round."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("frames per second:"):
                return float(line.split(":")[1])
        raise RuntimeError(f"the process ended with exit code {self._process.wait()}")

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()


def extract_source(commit: str, folder: Path) -> Path:
    """Writes the source of a commit to a folder. Returns the path to import from."""
    archive = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    return folder / "src"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        default = Trainer(ROOT / "src")
        earlier = Trainer(extract_source(EARLIER_COMMIT, Path(folder)), per_episode=True)
        # The first rounds compile.
        default.frames_per_second(), earlier.frames_per_second()
        rounds = [(default.frames_per_second(), earlier.frames_per_second()) for _ in range(ROUNDS)]
        default.close()
        earlier.close()
    ratios = sorted(fast / slow for fast, slow in rounds)
    result = {
        "command": "make bench-minigrid-speed",
        "default": statistics.median(fast for fast, _ in rounds),
        "per_episode_before": statistics.median(slow for _, slow in rounds),
        "earlier_commit": EARLIER_COMMIT,
        "ratio": statistics.median(ratios),
        "ratio_range": [ratios[0], ratios[-1]],
    }
    print(", ".join(f"{name} {value}" for name, value in result.items()))
    Path(__file__).with_suffix(".json").write_text(json.dumps(result | provenance(), indent=2) + "\n")


if __name__ == "__main__":
    main()
