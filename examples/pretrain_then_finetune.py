"""Pre-trains without reward, collects a dataset, and fine-tunes on the reward.

`python examples/pretrain_then_finetune.py [UPDATES [FINETUNE_UPDATES]]` trains twice in 2-Rooms. Leave out `start_from`
to see the effect of pre-training.
"""

import sys

import gemax


def main(updates: int = 400, finetune_updates: int = 60, out: str = "runs", **settings) -> float:
    """Returns the mean return of the last 1,000 episodes after fine-tuning."""
    explorer = gemax.train("two-rooms", reward_free=True, updates=updates, out=f"{out}/explorer", **settings)
    print("Dataset:", explorer.collect(episodes=100))
    # Keeps the intrinsic reward, so that the policy goes on exploring until it has learned the task.
    expert = gemax.train(
        "two-rooms", start_from=explorer.path, updates=finetune_updates, out=f"{out}/expert", **settings
    )
    print(f"Mean return after fine-tuning: {expert.summary['return']:.2f} of 1.")
    return expert.summary["return"]


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
