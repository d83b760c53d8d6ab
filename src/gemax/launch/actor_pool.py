"""Keeps the actors of a Ray cluster busy, with a bounded number of unfinished calls, and replaces actors that die.

Every rollout has a ticket, and is learned from once or lost. A ticket that is lost with its actor is reported and
replaced by a new one, with new episodes.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gemax.envs.host.workers import split_envs
from gemax.errors import ClusterError, EnvFault
from gemax.launch.env_actor import EnvActor, Rollout, Ticket
from gemax.stopping import check_stop

MAX_DEATHS = 5
"""An actor that dies this often without finishing a rollout in between is given up."""
RESTART_SECONDS = 2.0
"""Time before a lost rollout is ordered again, doubled with every death. Ray needs about 20 s to notice that a node has
died, and can only then restart its actors elsewhere."""
WAIT_SECONDS = 1.0
"""Time of one wait for results, after which signals are handled."""
REPORT_SECONDS = 30.0
"""Time without any result after which the user is informed."""
CLOSE_SECONDS = 10.0


@dataclass(eq=False)
class Member:
    """An actor, as the pool sees it."""

    index: int
    handle: Any
    deaths: int = 0
    """Deaths since its last rollout."""
    life: int = 0
    """Number of its deaths so far."""
    process: str = "not started yet"


@dataclass(eq=False)
class Shard:
    """Environments that are stepped together, and their unfinished and unread tickets, oldest first."""

    first_env: int
    num_envs: int
    member: Member
    pending: deque["Call"] = field(default_factory=deque)
    retry_times: list[float] = field(default_factory=list)
    """When lost tickets are to be replaced."""


@dataclass(eq=False)
class Call:
    """A ticket that was sent to an actor, and its rollout once it has arrived."""

    ticket: Ticket
    shard: Shard
    member: Member
    rollout: Rollout | None = None

    @property
    def is_outdated(self) -> bool:
        """Whether the actor has died since, so that its rollouts do not continue where the last one ended."""
        return self.ticket.life != self.member.life


class ActorPool:
    """Actors on a Ray cluster, and the rollouts that they are making.

    Args:
        ray: The module, connected to a cluster.
        arguments: Arguments of `EnvActor`.
        num_actors: Number of actors.
        num_envs: Number of environments of all actors.
        num_steps: Steps per rollout.
        max_pending: Maximum number of rollouts per environment that are being made or wait for the learner.
        seed: Seed of the environments.
        log: Called with messages for the user.
    """

    def __init__(
        self,
        ray: Any,
        arguments: Sequence[Any],
        *,
        num_actors: int,
        num_envs: int,
        num_steps: int,
        max_pending: int,
        seed: int,
        log: Callable[[str], None],
    ) -> None:
        self._ray, self._log, self._seed = ray, log, seed
        self._num_steps, self._max_pending = num_steps, max_pending
        # At most once: a rollout that was lost is not repeated by Ray, because its environments are gone.
        actor_class = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=0)(EnvActor)
        members = [Member(index, actor_class.remote(*arguments)) for index in range(num_actors)]
        self._members = members
        self._shards = [
            Shard(envs.start, len(envs), member)
            for envs, member in zip(split_envs(num_envs, num_actors), members, strict=True)
        ]
        self._calls: dict[Any, Call] = {}
        self._num_tickets = 0
        self._policy: Any = None
        self._policy_version = 0
        self._last_result = time.monotonic()
        self.lost_frames = 0
        """Number of steps that were ordered and lost with their actor. They may or may not have been taken."""

    @property
    def num_actors(self) -> int:
        """Number of actors that are not given up."""
        return len(self._members)

    def publish(self, policy: Any, version: int) -> None:
        """Sends a policy to the object store, and orders rollouts with it up to the limit.

        Raises:
            ClusterError: The object store is full.
        """
        try:
            self._policy = self._ray.put(policy)
        except (self._ray.exceptions.ObjectStoreFullError, self._ray.exceptions.OutOfDiskError) as error:
            raise full_object_store(error) from error
        self._policy_version = version
        for shard in self._shards:
            while len(shard.pending) + len(shard.retry_times) < self._max_pending:
                self._order(shard)

    def next_rollouts(self) -> list[Rollout]:
        """Waits for the next rollout of every environment. Returns them in the order of the environments.

        Raises:
            EnvFault: An environment failed, or no actor is left.
            ClusterError: The object store is full.
        """
        while not all(shard.pending and shard.pending[0].rollout is not None for shard in self._shards):
            self._receive()
        rollouts = [shard.pending.popleft().rollout for shard in self._shards]
        return [rollout for rollout in rollouts if rollout is not None]

    def close(self) -> None:
        """Closes the environments and ends the actors."""
        closing = [member.handle.close.remote() for member in self._members]
        self._ray.wait(closing, num_returns=len(closing), timeout=CLOSE_SECONDS)
        for member in self._members:
            self._ray.kill(member.handle)
        self._calls.clear()

    def _order(self, shard: Shard) -> None:
        """Sends a ticket for the next rollout of a shard."""
        seed = self._seed
        if self._num_tickets >= len(self._shards) * self._max_pending:
            # Actors only use this seed after a restart, when new episodes must not repeat earlier ones.
            seed = int(np.random.SeedSequence([self._seed, self._num_tickets]).generate_state(1)[0] >> 1)
        ticket = Ticket(
            self._num_tickets,
            shard.first_env,
            shard.num_envs,
            self._num_steps,
            seed,
            self._policy_version,
            shard.member.life,
        )
        self._num_tickets += 1
        call = Call(ticket, shard, shard.member)
        shard.pending.append(call)
        self._calls[shard.member.handle.collect.remote(ticket, self._policy)] = call

    def _receive(self) -> None:
        """Waits for any result, for at most a second."""
        check_stop()
        self._order_again()
        if not self._calls:
            time.sleep(WAIT_SECONDS / 10)
            return
        ready, _ = self._ray.wait(list(self._calls), num_returns=1, timeout=WAIT_SECONDS)
        if not ready:
            self._give_up_without_place()
            self._report_waiting()
            return
        self._last_result = time.monotonic()
        for reference in ready:
            self._accept(self._calls.pop(reference), reference)

    def _accept(self, call: Call, reference: Any) -> None:
        """Stores the rollout of a finished call, or replaces it if it is lost."""
        try:
            # The arrays are views of the object store. They are copied when the shards are put together.
            rollout = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise self._task_fault(call, error) from error
        except self._lost_errors as error:
            self._count_death(call, error)
            self._replace_lost(call)
            return
        if call.is_outdated:
            # The actor was only out of reach, and one of its rollouts before this one is lost.
            self._replace_lost(call)
            return
        call.rollout = rollout
        call.member.deaths, call.member.process = 0, rollout.process

    def _order_again(self) -> None:
        """Replaces lost tickets whose actor has had the time to restart."""
        now = time.monotonic()
        for shard in self._shards:
            is_due = [retry_time <= now for retry_time in shard.retry_times]
            shard.retry_times = [retry_time for retry_time in shard.retry_times if retry_time > now]
            for _ in range(sum(is_due)):
                self._order(shard)

    @property
    def _lost_errors(self) -> tuple[type[Exception], ...]:
        errors = self._ray.exceptions
        return errors.RayActorError, errors.ObjectLostError, errors.NodeDiedError, errors.WorkerCrashedError

    def _task_fault(self, call: Call, error: Any) -> Exception:
        """Returns the error of an exception in an actor. A restart would not help, since the actor is alive."""
        cause, name = error.cause, f"actor {call.member.index}"
        if isinstance(cause, EnvFault):
            return EnvFault(f"{name} ({call.member.process}), {cause}")
        if isinstance(cause, ValueError | OSError):
            return EnvFault(f"{name} could not start: {cause}")
        if isinstance(cause, self._ray.exceptions.ObjectStoreFullError | self._ray.exceptions.OutOfDiskError):
            return full_object_store(cause)
        return error

    def _count_death(self, call: Call, error: Exception) -> None:
        """Counts a death once, although all calls of the actor fail. Gives the actor up if it dies again and again."""
        member = call.member
        if call.is_outdated or member not in self._members:
            return
        member.life, member.deaths = member.life + 1, member.deaths + 1
        reason = " ".join(str(error).split())
        self._log(f"Actor {member.index} ({member.process}) died or cannot be reached: {reason}")
        if member.deaths >= MAX_DEATHS:
            self._give_up(member, f"it died {member.deaths} times without finishing a rollout: {reason}")

    def _replace_lost(self, call: Call) -> None:
        """Plans a new rollout instead of a lost one."""
        num_frames = call.ticket.num_steps * call.ticket.num_envs
        self.lost_frames += num_frames
        call.shard.pending.remove(call)
        delay = RESTART_SECONDS * 2 ** (call.member.deaths - 1) if call.shard.member is call.member else 0.0
        call.shard.retry_times.append(time.monotonic() + delay)
        self._log(
            f"{num_frames} frames of actor {call.member.index} are lost. Its environments start new episodes."
        )

    def _give_up_without_place(self) -> None:
        """Gives actors up that have died and for which the cluster has no CPUs any more, because a node is gone."""
        for member in [member for member in self._members if member.deaths]:
            num_cpus = self._ray.cluster_resources().get("CPU", 0)
            if num_cpus < len(self._members):
                self._give_up(
                    member, f"the cluster has only {num_cpus:g} CPUs left for {len(self._members)} actors"
                )

    def _give_up(self, member: Member, why: str) -> None:
        """Ends an actor and moves its environments to the others."""
        self._members.remove(member)
        self._ray.kill(member.handle)
        if not self._members:
            raise EnvFault(f"actor {member.index}, the last one, is given up: {why}")
        for shard in self._shards:
            if shard.member is member:
                shard.member = min(self._members, key=self._num_envs_of)
        self._log(
            f"Actor {member.index} is given up: {why.rstrip('.')}. Its environments move to the other actors."
        )

    def _num_envs_of(self, member: Member) -> int:
        return sum(shard.num_envs for shard in self._shards if shard.member is member)

    def _report_waiting(self) -> None:
        if time.monotonic() - self._last_result < REPORT_SECONDS:
            return
        self._last_result = time.monotonic()
        waiting = sorted({call.member.index for call in self._calls.values()})
        num_cpus = self._ray.available_resources().get("CPU", 0)
        self._log(
            f"No actor has answered for {REPORT_SECONDS:g} s. Waiting for {', '.join(map(str, waiting))}; the cluster "
            f"has {num_cpus:g} free CPUs."
        )


def full_object_store(error: Exception) -> ClusterError:
    """Returns the error for an object store that has no room for a policy or a rollout."""
    reason = " ".join(str(error).split())
    return ClusterError(
        "the object store of the Ray cluster is full. Start it with a larger --object-store-memory, or lower "
        f"num_envs: {reason}"
    )
