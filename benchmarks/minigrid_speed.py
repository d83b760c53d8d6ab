"""Measures how fast GEM's default trains in MiniGrid, against small updates with negatives of the same episode.

`make bench-minigrid-speed`

The second one has the settings that `--per-episode` had: eight new steps per update, each used in four updates. Both
train in turn, so that other load on the machine affects both.
"""

import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from gemax.runs.provenance import provenance
from gemax.training.assemble import assemble
from gemax.training.loop import initial_states, train
from gemax.training.presets import configure

ENV_ID = "gym:MiniGrid-DoorKey-8x8-v0"
SMALL_UPDATES = {
    "episodic_weight": 1.0, "unroll_period": 8, "update_epochs": 1, "policy_clip": 0.0,
}  # fmt: skip
ROUNDS, FRAMES = 7, 16_384
"""Number of rounds, and frames of each in a round."""


def main() -> None:
    default, small = frames_per_second(), frames_per_second(**SMALL_UPDATES)
    # The first rounds compile.
    next(default), next(small)
    rounds = [(next(default), next(small)) for _ in range(ROUNDS)]
    ratios = sorted(fast / slow for fast, slow in rounds)
    result = {
        "default": statistics.median(fast for fast, _ in rounds),
        "small_updates": statistics.median(slow for _, slow in rounds),
        "ratio": statistics.median(ratios),
        "ratio_range": [ratios[0], ratios[-1]],
    }
    print(", ".join(f"{name} {value}" for name, value in result.items()))
    Path(__file__).with_suffix(".json").write_text(json.dumps(result | provenance(), indent=2) + "\n")


def frames_per_second(**settings) -> Iterator[float]:
    """Trains, and yields the frames per second of each round."""
    config = configure(ENV_ID, updates=10**6, **settings)
    updates = FRAMES // config.frames_per_update
    trainer = assemble(config)
    steps = train(trainer, initial_states(trainer))
    while True:
        start = time.perf_counter()
        for _ in range(updates):
            next(steps)
        yield FRAMES / (time.perf_counter() - start)


if __name__ == "__main__":
    main()
