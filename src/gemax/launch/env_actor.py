"""The process that steps environments on a Ray cluster: a `HostActor` that is called from elsewhere.

Ray imports this module in every actor before JAX starts there, so it does not import JAX itself.
"""

import os
import socket
from typing import TYPE_CHECKING, Any, NamedTuple

from gemax.version import VERSION

if TYPE_CHECKING:
    from gemax.envs.host.base import HostVectorEnv
    from gemax.training.assemble import MakeEnv
    from gemax.training.host_rollout import HostActor, PolicySnapshot
    from gemax.training.learn import Trainer
    from gemax.training.state import ActorState
    from gemax.types import Transition

ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


class Ticket(NamedTuple):
    """An order for one rollout of some of the environments. No two have the same number."""

    number: int
    first_env: int
    """Index of the first of the environments, counted over all actors."""
    num_envs: int
    num_steps: int
    seed: int
    """Seed of new episodes, if the actor has not opened these environments yet."""
    policy_version: int
    """Number of updates of the policy that acts."""
    life: int
    """Number of deaths of the actor that the learner knows of. New episodes start when it changes."""


class Rollout(NamedTuple):
    """The transitions of a ticket."""

    ticket: Ticket
    transitions: "Transition"
    actor: "ActorState"
    """The actor's state after the transitions."""
    is_new: bool
    """Whether the environments were opened for this ticket, so that new episodes start."""
    process: str
    """Process number and name of the machine."""


class EnvActor:
    """Steps environments for tickets. Opens them with the first ticket: a restarted actor starts new episodes.

    Args:
        config: Content of `config.json`.
        make_env: Makes a custom environment.
        horizon: Horizon of the environment, as measured by the learner.
        version: Version of gemax that the learner has.
    """

    def __init__(
        self, config: dict[str, Any], make_env: "MakeEnv | None", horizon: int, version: str
    ) -> None:
        self._arguments, self._version = (config, make_env, horizon), version
        self._trainer: Trainer | None = None
        self._opened: dict[int, _Opened] = {}

    def collect(self, ticket: Ticket, snapshot: "PolicySnapshot") -> Rollout:
        """Acts for the steps of a ticket."""
        if self._trainer is None:
            self._trainer = self._assemble()
        import jax

        opened = self._opened.get(ticket.first_env)
        is_new = opened is None or opened.life != ticket.life
        if is_new:
            # The actor was only out of reach if it has these environments: the learner has lost some of its rollouts.
            self._close(ticket.first_env)
            self._opened[ticket.first_env] = self._open(self._trainer, ticket)
        actor = self._opened[ticket.first_env].actor
        # Copied once, so that the object store can free the weights.
        snapshot = jax.tree.map(jax.numpy.array, snapshot)
        key = jax.random.fold_in(jax.random.key(self._trainer.config.run.seed), ticket.number)
        transitions = actor.collect(snapshot, ticket.num_steps, key)
        return Rollout(ticket, transitions, jax.device_get(actor.state), is_new, describe_process())

    def close(self) -> None:
        """Closes all environments."""
        for first_env in list(self._opened):
            self._close(first_env)

    def _close(self, first_env: int) -> None:
        opened = self._opened.pop(first_env, None)
        if opened is not None:
            opened.envs.close()

    def _assemble(self) -> "Trainer":
        """Builds what is needed to act. The intrinsic reward is not."""
        if self._version != VERSION:
            raise ValueError(
                f"{socket.gethostname()} has gemax {VERSION}, and the learner has {self._version}. Install the same "
                "version on all machines."
            )
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {ONE_THREAD}"
        import jax

        jax.config.update("jax_platforms", "cpu")
        from gemax.training.assemble import CustomParts, assemble
        from gemax.training.config import config_from_json

        config, make_env, horizon = self._arguments
        settings = {"method": "none", "similarity": "learned", "horizon": horizon}
        return assemble(config_from_json(config).replace(**settings), CustomParts(make_env=make_env))

    def _open(self, trainer: "Trainer", ticket: Ticket) -> "_Opened":
        from gemax.training.host_rollout import HostActor, HostCollector, first_episode_limits

        assert isinstance(trainer.collector, HostCollector)
        envs = trainer.collector.env.open(ticket.num_envs)
        # Environment i gets the same seed and the same limit in whichever actor it is.
        last_env = ticket.first_env + ticket.num_envs
        limits = first_episode_limits(trainer.spec.horizon, last_env, ticket.seed)[ticket.first_env :]
        try:
            return _Opened(
                HostActor(trainer, envs, ticket.seed + ticket.first_env, limits), envs, ticket.life
            )
        except BaseException:
            envs.close()
            raise


class _Opened(NamedTuple):
    """Environments that an actor has opened."""

    actor: "HostActor"
    envs: "HostVectorEnv"
    life: int
    """As in their first ticket."""


def describe_process() -> str:
    """Returns the number of this process and the name of its machine."""
    return f"process {os.getpid()} on {socket.gethostname()}"
