"""The bookkeeping of the actor pool, with a Ray whose actors die as the tests say."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemax.errors import EnvFault
from gemax.launch import actor_pool
from gemax.launch.actor_pool import MAX_DEATHS, ActorPool
from gemax.launch.env_actor import Rollout, Ticket

NUM_ACTORS, NUM_ENVS, NUM_STEPS = 3, 6, 4
FRAMES_PER_TICKET = NUM_ENVS // NUM_ACTORS * NUM_STEPS


class ActorError(Exception):
    """Of Ray."""


@dataclass(eq=False)
class PendingCall:
    """A reference of Ray."""

    ticket: Ticket
    actor: "Actor"


class Actor:
    """An actor that finishes its calls in order, and loses all of them when it dies."""

    def __init__(self, ray, index):
        self.ray, self.index, self.calls, self.is_killed = ray, index, [], False
        self.collect = SimpleNamespace(remote=self._collect)
        self.close = SimpleNamespace(remote=object)

    def _collect(self, ticket, policy):
        self.calls.append(PendingCall(ticket, self))
        return self.calls[-1]


class FakeRay:
    """Lets the actor of the next outcome finish its oldest call, or die."""

    exceptions = SimpleNamespace(
        RayTaskError=type("RayTaskError", (Exception,), {}),
        RayActorError=ActorError,
        ObjectLostError=ActorError,
        NodeDiedError=ActorError,
        WorkerCrashedError=ActorError,
        ObjectStoreFullError=type("ObjectStoreFullError", (Exception,), {}),
        OutOfDiskError=type("OutOfDiskError", (Exception,), {}),
    )

    def __init__(self, deaths=(), num_cpus=NUM_ACTORS):
        self.actors, self.deaths, self.num_cpus = [], list(deaths), num_cpus
        self.lost, self.is_stuck = [], lambda actor: False

    def remote(self, **options):
        assert options["max_task_retries"] == 0
        return lambda cls: SimpleNamespace(remote=self._make_actor)

    def _make_actor(self, *arguments):
        self.actors.append(Actor(self, len(self.actors)))
        return self.actors[-1]

    def put(self, value):
        return value

    def wait(self, references, num_returns, timeout):
        references = [call for call in references if not hasattr(call, "ticket") or self._can_finish(call)]
        return references[:1], []

    def _can_finish(self, call):
        return call in self.lost or (call is call.actor.calls[0] and not self.is_stuck(call.actor))

    def get(self, call):
        if call in self.lost:
            raise ActorError("the actor is dead")
        if self.deaths and self.deaths.pop(0):
            self.lose_calls(call.actor)
            raise ActorError("the actor is dead")
        call.actor.calls.remove(call)
        return Rollout(call.ticket, (), (), False, "process 1")

    def lose_calls(self, actor):
        self.lost += actor.calls
        actor.calls = []

    def kill(self, actor):
        actor.is_killed = True
        self.lose_calls(actor)

    def cluster_resources(self):
        return {"CPU": self.num_cpus}

    available_resources = cluster_resources


@pytest.fixture(autouse=True)
def no_delays(monkeypatch):
    monkeypatch.setattr(actor_pool, "RESTART_SECONDS", 0.0)
    monkeypatch.setattr(actor_pool, "WAIT_SECONDS", 0.0)


def make_pool(ray, log=lambda message: None):
    return ActorPool(
        ray,
        (),
        num_actors=NUM_ACTORS,
        num_envs=NUM_ENVS,
        num_steps=NUM_STEPS,
        max_pending=2,
        seed=0,
        log=log,
    )


def tickets_of_updates(pool, num_updates):
    """The tickets that each update learns from."""
    learned = []
    for number in range(num_updates):
        pool.publish("policy", number)
        learned.append([rollout.ticket for rollout in pool.next_rollouts()])
    return learned


@given(st.lists(st.booleans(), max_size=60))
def test_every_ticket_is_learned_from_once_or_counted_as_lost(deaths):
    ray, messages = FakeRay(deaths), []
    pool = make_pool(ray, messages.append)
    try:
        updates = tickets_of_updates(pool, 10)
    except EnvFault:
        assert sum(actor.is_killed for actor in ray.actors) == NUM_ACTORS
        return
    numbers = [ticket.number for update in updates for ticket in update]
    assert len(numbers) == len(set(numbers)) == 10 * NUM_ACTORS
    assert not set(numbers) & {call.ticket.number for call in ray.lost}
    for update in updates:
        assert [ticket.first_env for ticket in update] == [0, 2, 4]
    reported = sum(int(message.split()[0]) for message in messages if "frames of actor" in message)
    assert pool.lost_frames == reported
    # Calls of an actor that was given up may not have been noticed yet.
    assert reported <= FRAMES_PER_TICKET * len(ray.lost)
    assert reported >= FRAMES_PER_TICKET * (len(ray.lost) - 2 * NUM_ACTORS)


def test_a_policy_lags_one_update_behind():
    updates = tickets_of_updates(make_pool(FakeRay()), 5)
    versions = [{ticket.policy_version for ticket in update} for update in updates]
    assert versions == [{0}, {0}, {1}, {2}, {3}]


def test_rollouts_after_a_lost_one_start_new_episodes():
    ray = FakeRay([False] * NUM_ACTORS + [True])
    updates = tickets_of_updates(make_pool(ray), 3)
    assert {ticket.life for ticket in updates[0]} == {0}
    # Both calls of the actor were lost, and both are replaced in its next life.
    assert (
        sorted(ticket.life for ticket in updates[1])
        == sorted(ticket.life for ticket in updates[2])
        == [0, 0, 1]
    )


def test_an_actor_that_dies_again_and_again_is_given_up_and_the_last_one_ends_the_run():
    ray, messages = FakeRay([True] * 100), []
    with pytest.raises(EnvFault, match=f"the last one, is given up: it died {MAX_DEATHS} times"):
        tickets_of_updates(make_pool(ray, messages.append), 1)
    assert sum("is given up" in message for message in messages) == NUM_ACTORS - 1


def test_an_actor_whose_node_is_gone_hands_its_environments_over():
    ray, messages, without_place = FakeRay([False] * NUM_ACTORS + [True]), [], []
    ray.is_stuck = lambda actor: actor in without_place

    def log(message):
        messages.append(message)
        if "died" in message:
            # From now on, calls of this actor neither finish nor fail.
            without_place.extend(actor for actor in ray.actors if f"Actor {actor.index} " in message)
            ray.num_cpus = NUM_ACTORS - 1

    pool = make_pool(ray, log)
    updates = tickets_of_updates(pool, 4)
    assert all([ticket.first_env for ticket in update] == [0, 2, 4] for update in updates)
    assert pool.num_actors == NUM_ACTORS - 1
    [message] = [message for message in messages if "is given up" in message]
    assert "the cluster has only 2 CPUs left for 3 actors" in message
