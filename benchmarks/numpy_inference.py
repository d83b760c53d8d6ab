"""Measures RND's two networks on the observations of one step: a compiled call against NumPy.

`make bench-numpy`. This decides whether `per_step=True` of the Gymnasium wrapper should compute rewards in NumPy. A
training program does other work between two calls, which takes the networks out of the processor's caches.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import one_thread  # isort: skip  # noqa: F401  (before jax)
import jax
import numpy as np
from interleaved import ratio_of, write_results

from gemax.networks import mlp

NUM_ENVS, OBSERVATION_SIZE, SIZES = 16, 4, (256, 128)
"""As in `wrapper.py`: CartPole-v1, and layers of the sizes of rllte's RND."""
ROUNDS, CALLS = 15, 100
OTHER_MEMORY = np.zeros(4_000_000)
"""Read between calls: 32 MB, more than the caches."""


def make_calls() -> dict[str, Callable[[], Any]]:
    """Returns the prediction error of RND in both libraries, for the same networks and observations."""
    network = mlp(SIZES)
    observations = np.random.default_rng(0).normal(size=(NUM_ENVS, OBSERVATION_SIZE)).astype(np.float32)
    predictor, target = (network.init(jax.random.key(seed), observations) for seed in (0, 1))

    @jax.jit
    def compiled(predictor: Any, target: Any, observations: jax.Array) -> jax.Array:
        error = network.apply(predictor, observations) - network.apply(target, observations)
        return (error**2).mean(axis=1)

    layers = [_layers(parameters) for parameters in (predictor, target)]

    def in_numpy() -> np.ndarray:
        error = _apply(layers[0], observations) - _apply(layers[1], observations)
        return (error**2).mean(axis=1)

    def in_jax() -> np.ndarray:
        return np.asarray(compiled(predictor, target, observations))

    np.testing.assert_allclose(in_jax(), in_numpy(), rtol=1e-4)
    return {"NumPy": in_numpy, "compiled": in_jax}


def _layers(parameters: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns kernels and biases in the order of the layers."""
    dense = [layer for _, layer in sorted(parameters["params"].items())]
    return [(np.asarray(layer["kernel"]), np.asarray(layer["bias"])) for layer in dense]


def _apply(layers: list[tuple[np.ndarray, np.ndarray]], rows: np.ndarray) -> np.ndarray:
    for number, (kernel, bias) in enumerate(layers):
        rows = rows @ kernel + bias
        if number < len(layers) - 1:
            rows = np.maximum(rows, 0.0)
    return rows


def median_microseconds(call: Callable[[], Any], between: Callable[[], Any]) -> float:
    """Returns the median time of a call, with another call before each."""
    times = []
    for _ in range(CALLS):
        between()
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return 1e6 * statistics.median(times)


def main() -> None:
    calls, results = make_calls(), {}
    for place, between in {"in a loop": lambda: None, "between other work": OTHER_MEMORY.sum}.items():
        found: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(ROUNDS):
            for name, call in calls.items():
                found[name].append(median_microseconds(call, between))
        ratio = ratio_of(theirs=found["compiled"], ours=found["NumPy"])
        medians = {name: round(statistics.median(times), 1) for name, times in found.items()}
        results[place] = {"ratio": ratio._asdict(), "microseconds": medians}
        print(f"{place}: NumPy is {ratio.ratio} × as fast; {medians} µs")
    write_results(__file__, ("numpy",), results=results)


if __name__ == "__main__":
    main()
