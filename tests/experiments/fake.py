"""Fake records, to test which verdicts follow from them."""

import numpy as np

from gemax.experiments.records import CURVES, Record
from gemax.training.presets import configure


def fake_record(
    env="two-rooms", *, solved_at=None, lost_at=None, final_return=1.0, constant_return=None, entropy=4.0, share=0.9,
    visits=None, embedding=None, seed=0, **changes,
):  # fmt: skip
    """Returns a record with a return of `final_return` from `solved_at` until before `lost_at`, and otherwise of 0."""
    config = configure(env, seed=seed, **({"updates": 100} | changes))
    update = np.arange(1.0, config.run.updates + 1, dtype=np.float32)
    curves = {name: np.ones_like(update) for name in CURVES} | {"update": update, "seconds": update}
    curves["episodes"] = np.full_like(update, 1000)
    is_reached = (update >= (solved_at or np.inf)) & (update < (lost_at or np.inf))
    curves["return"] = np.where(is_reached, final_return, 0.0).astype(np.float32)
    if constant_return is not None:
        curves["return"] = np.full_like(update, constant_return)
    curves["visitation_entropy"] = np.full_like(update, entropy)
    summary = {
        "seconds": 10.0,
        "entropy_ceiling": 4.25,
        "evaluation": {"entropy_share": {"mean": share}, "coverage": {"mean": 1.0}},
    }
    return Record(config, summary, curves, np.ones(71) if visits is None else visits, embedding)


def fake_seeds(**settings):
    """Returns fake records of five seeds that are solved at slightly different updates."""
    solved_at = settings.pop("solved_at", None)
    return [
        fake_record(seed=seed, solved_at=None if solved_at is None else solved_at + seed, **settings)
        for seed in range(5)
    ]
