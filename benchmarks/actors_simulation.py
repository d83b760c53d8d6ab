"""Simulates the queue of rollouts and the lag of the policy, for more actors than one machine can hold.

The schedule is that of `gemax.launch.actor_pool`: an update needs the next rollout of every actor, an actor has at most
two rollouts ordered or waiting, and new ones are ordered after each update. All durations are assumptions; they are the
constants below. Run it with `python benchmarks/actors_simulation.py`.
"""

from typing import NamedTuple

import numpy as np

ROLLOUT_SECONDS = 0.2
"""32 steps of 5 ms, and acting."""
ROLLOUT_SPREAD = 0.1
"""Standard deviation of the logarithm of a rollout's time."""
STRAGGLER_SHARE, STRAGGLER_FACTOR = 0.001, 5.0
"""Rollouts that take longer, because of another process on their machine."""
UPDATE_SECONDS = 0.03
"""Time of an update that does not depend on the number of actors."""
RECEIVE_SECONDS = 2e-4
"""Time of the learner per rollout that it receives: the call, and copying 40 kB."""
LEARN_SECONDS = 2e-5
"""Time of an update per rollout, on an accelerator."""
FRAMES_PER_ROLLOUT = 32
NUM_UPDATES, MAX_PENDING = 300, 2


class Result(NamedTuple):
    """Means over the second half of the updates."""

    frames_per_second: float
    efficiency: float
    """Relative to actors that never wait."""
    learner_busy: float
    lag_updates: float
    lag_seconds: float
    """Age of the policy when its rollout is learned from."""


def simulate(num_actors: int, seed: int = 0) -> Result:
    """Returns the speed and the lag with this many actors of one environment each."""
    generator = np.random.default_rng(seed)
    shape = (NUM_UPDATES, num_actors)
    times = ROLLOUT_SECONDS * np.exp(ROLLOUT_SPREAD * generator.standard_normal(shape, np.float32))
    times[generator.random(shape, np.float32) < STRAGGLER_SHARE] *= STRAGGLER_FACTOR
    learning = UPDATE_SECONDS + num_actors * (RECEIVE_SECONDS + LEARN_SECONDS)
    finished = np.zeros(num_actors)
    learned, starts, lags = [0.0], [], []
    for update in range(NUM_UPDATES):
        # Rollout n is ordered after update n - MAX_PENDING + 1, with the policy of that time.
        version = max(update - MAX_PENDING + 1, 0)
        finished = np.maximum(finished, learned[version]) + times[update]
        starts.append(max(finished.max(), learned[-1]))
        learned.append(starts[-1] + learning)
        lags.append((update - version, starts[-1] - learned[version]))
    half = NUM_UPDATES // 2
    seconds = learned[-1] - learned[half]
    rate = (NUM_UPDATES - half) * num_actors * FRAMES_PER_ROLLOUT / seconds
    busy = (NUM_UPDATES - half) * learning / seconds
    ideal = num_actors * FRAMES_PER_ROLLOUT / times.mean()
    return Result(rate, rate / ideal, busy, *np.mean(lags[half:], axis=0))


def main() -> None:
    print("| actors | frames/s | of linear | learner busy | lag in updates | lag in seconds |")
    print("|---:|---:|---:|---:|---:|---:|")
    for num_actors in (1, 2, 4, 8, 16, 64, 256, 1000, 3000, 10_000):
        result = simulate(num_actors)
        print(
            f"| {num_actors:,} | {result.frames_per_second:,.0f} | {result.efficiency:.0%} | {result.learner_busy:.0%} "
            f"| {result.lag_updates:.1f} | {result.lag_seconds:.2f} |"
        )


if __name__ == "__main__":
    main()
