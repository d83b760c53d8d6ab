"""Counts the frames to the first reward of the key-and-door map, after exploring it reward-free and from scratch.

`make bench-finetune`. Runs that are in `results/finetune.json` are not repeated. Delete the file to start over.

Every seed has its own explorer. Fine-tuning is the first recipe of docs/howto/pretrain.md, `gemax train ENV --from
RUN`, which keeps the intrinsic reward.
"""

import contextlib
import json
import shutil
import statistics
from pathlib import Path
from typing import Any

import gemax
from gemax.runs.files import write_json
from gemax.runs.provenance import provenance
from gemax.runs.warm_start import first_state
from gemax.training.assemble import CustomParts, assemble
from gemax.training.config import Config
from gemax.training.loop import train
from gemax.training.presets import configure

ROOT = Path(__file__).parents[1]
RESULTS, RUNS = ROOT / "results" / "finetune.json", ROOT / "runs" / "bench-finetune"
ENV_ID = "gym:gemax/KeyAndDoor-v0"
NUM_SEEDS, EXPLORATION_UPDATES, MAX_UPDATES = 10, 200, 300


def first_reward_frame(config: Config, custom: CustomParts | None = None) -> int | None:
    """Trains until an episode earns a reward. Returns the number of frames, or None if no episode does."""
    trainer, state = first_state(assemble(config, custom), log=print)
    with contextlib.closing(train(trainer, state)) as training:
        for update, (_, (metrics,)) in enumerate(training, 1):
            if metrics["return"] > 0:
                return update * config.frames_per_update
    return None


def explore(seed: int) -> Path:
    """Trains reward-free with the default settings. Returns the run directory."""
    path = RUNS / f"explorer-{seed}"
    shutil.rmtree(path, ignore_errors=True)
    run = gemax.train(ENV_ID, seed=seed, reward_free=True, updates=EXPLORATION_UPDATES, out=path)
    if run.stop_signal is not None:
        raise SystemExit(128 + run.stop_signal)
    return path


def measure(seed: int) -> dict[str, Any]:
    """Returns the frames to the first reward with an explorer of this seed, and from scratch."""
    scratch = configure(ENV_ID, seed=seed, updates=MAX_UPDATES)
    return {
        "seed": seed,
        "finetuned": first_reward_frame(scratch.replace(start_from=str(explore(seed)))),
        "scratch": first_reward_frame(scratch),
        "commit": provenance()["commit"],
    }


def median(rows: list[dict[str, Any]], name: str) -> float:
    """Returns the median over seeds. Runs without a reward count as infinite."""
    return statistics.median(float("inf") if row[name] is None else row[name] for row in rows)


def main() -> None:
    rows = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []
    for seed in range(NUM_SEEDS):
        if any(row["seed"] == seed for row in rows):
            continue
        rows.append(measure(seed))
        print(json.dumps(rows[-1]), flush=True)
        medians = {f"median_{name}": median(rows, name) for name in ("finetuned", "scratch")}
        header = {"command": "make bench-finetune", "env_id": ENV_ID, "updates": EXPLORATION_UPDATES}
        origin = {name: value for name, value in provenance().items() if name != "commit"}
        write_json(RESULTS, {**header, **origin, **medians, "rows": rows})
    ratio = median(rows, "finetuned") / median(rows, "scratch")
    print(f"frames to the first reward, fine-tuned against from scratch: {ratio:.2f} (medians)")


if __name__ == "__main__":
    main()
