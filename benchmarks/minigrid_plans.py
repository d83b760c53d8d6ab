"""The best that can be done in a MiniGrid of doors, keys and a goal: plans as short as any."""

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from minigrid.core.constants import DIR_TO_VEC
from minigrid.minigrid_env import MiniGridEnv


class Situation(NamedTuple):
    """All that a plan changes."""

    position: tuple[int, int]
    direction: int
    key: tuple[int, int] | None
    """Where the key that is carried lay."""
    opened: frozenset[tuple[int, int]]
    """Doors."""


def shortest_plan(env: MiniGridEnv) -> list[int] | None:
    """The fewest actions from where the agent stands to the goal; None if there is no way."""
    first = Situation(_place(env.agent_pos), int(env.agent_dir), None, frozenset())
    found: dict[Situation, tuple[Situation, int] | None] = {first: None}
    queue = deque([first])
    while queue:
        situation = queue.popleft()
        if _kind(env.grid.get(*situation.position)) == "goal":
            return _actions_to(situation, found)
        for action, following in _following(env, situation):
            if following not in found:
                found[following] = situation, action
                queue.append(following)
    return None


def _following(env: MiniGridEnv, situation: Situation) -> Iterator[tuple[int, Situation]]:
    position, direction, key, opened = situation
    actions = env.actions
    yield actions.left, situation._replace(direction=(direction - 1) % 4)
    yield actions.right, situation._replace(direction=(direction + 1) % 4)
    ahead = _place(DIR_TO_VEC[direction] + position)
    thing = env.grid.get(*ahead)
    kind = _kind(thing)
    if kind in (None, "goal") or ahead == key or ahead in opened:
        yield actions.forward, situation._replace(position=ahead)
    elif kind == "key" and key is None:
        yield actions.pickup, situation._replace(key=ahead)
    elif kind == "door" and (not thing.is_locked or _fits(env, key, thing)):
        yield actions.toggle, situation._replace(opened=opened | {ahead})


def _fits(env: MiniGridEnv, key: tuple[int, int] | None, door: Any) -> bool:
    return key is not None and env.grid.get(*key).color == door.color


def _kind(thing: Any) -> str | None:
    return None if thing is None else thing.type


def _place(position: Any) -> tuple[int, int]:
    return int(position[0]), int(position[1])


def _actions_to(situation: Situation, found: dict[Situation, tuple[Situation, int] | None]) -> list[int]:
    actions = []
    while (before := found[situation]) is not None:
        situation, action = before
        actions.append(int(action))
    return actions[::-1]
