"""Explore without a reward, then learn a task from there; and keep the exploration as data.

`python examples/pretrain_then_finetune.py [UPDATES [FINETUNE_UPDATES]]` trains twice in 2-Rooms. Try the last step
without `start_from`, to see what the exploration was worth.
"""

import sys

import gemax


def main(updates: int = 400, finetune_updates: int = 60, out: str = "runs", **settings) -> float:
    """Pre-trains, collects, fine-tunes; gives the return over the last 1,000 episodes."""
    explorer = gemax.train("two-rooms", reward_free=True, updates=updates, out=f"{out}/explorer", **settings)
    print("Explored in", gemax.collect(explorer.path, episodes=100))
    # The extrinsic reward alone: leave out `method` to keep the intrinsic one beside it.
    expert = gemax.train(
        "two-rooms",
        method="none",
        start_from=explorer.path,
        updates=finetune_updates,
        out=f"{out}/expert",
        **settings,
    )
    print(f"The task returns {expert.summary['return']:.2f} of 1.")
    return expert.summary["return"]


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
