"""Runs without updates, which take no time to compile."""

from gemax.runs.checkpoint_writer import save
from gemax.runs.run_directory import create_run
from gemax.training.assemble import assemble
from gemax.training.loop import initial_states
from gemax.training.presets import configure

TINY = {
    "num_envs": 8, "unroll_length": 6, "unroll_period": 6, "updates": 2, "updates_per_call": 2, "torso_size": 6,
    "lstm_size": 5, "head_size": 5, "embedding_size": 3, "time_buckets": 3, "episodic_weight": 0.0,
}  # fmt: skip


def untrained(path, env, custom=None, **changes):
    """Writes a run without updates. Its random networks are as good as any to act with, or to start from."""
    trainer = assemble(configure(env, **(TINY | {"seed": 5} | changes)), custom=custom)
    with create_run(path, trainer.config.to_json()) as run:
        save(run, trainer.config, initial_states(trainer), seconds=0.0)
    return path
