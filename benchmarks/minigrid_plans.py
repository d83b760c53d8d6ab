"""Finds shortest plans in MiniGrid environments with doors, keys and a goal."""

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from minigrid.core.constants import DIR_TO_VEC
from minigrid.minigrid_env import MiniGridEnv


class Node(NamedTuple):
    """A state of the search: everything that actions change."""

    position: tuple[int, int]
    direction: int
    key: tuple[int, int] | None
    """Original position of the carried key."""
    opened: frozenset[tuple[int, int]]
    """Positions of the open doors."""


def shortest_plan(env: MiniGridEnv) -> list[int] | None:
    """Returns a shortest list of actions to the goal, by breadth-first search. None if it cannot be reached."""
    first = Node(_position(env.agent_pos), int(env.agent_dir), None, frozenset())
    predecessors: dict[Node, tuple[Node, int] | None] = {first: None}
    queue = deque([first])
    while queue:
        node = queue.popleft()
        if _kind(env.grid.get(*node.position)) == "goal":
            return _actions_to(node, predecessors)
        for action, successor in _successors(env, node):
            if successor not in predecessors:
                predecessors[successor] = node, action
                queue.append(successor)
    return None


def _successors(env: MiniGridEnv, node: Node) -> Iterator[tuple[int, Node]]:
    position, direction, key, opened = node
    actions = env.actions
    yield actions.left, node._replace(direction=(direction - 1) % 4)
    yield actions.right, node._replace(direction=(direction + 1) % 4)
    ahead = _position(DIR_TO_VEC[direction] + position)
    thing = env.grid.get(*ahead)
    kind = _kind(thing)
    if kind in (None, "goal") or ahead == key or ahead in opened:
        yield actions.forward, node._replace(position=ahead)
    elif kind == "key" and key is None:
        yield actions.pickup, node._replace(key=ahead)
    elif kind == "door" and (not thing.is_locked or _fits(env, key, thing)):
        yield actions.toggle, node._replace(opened=opened | {ahead})


def _fits(env: MiniGridEnv, key: tuple[int, int] | None, door: Any) -> bool:
    return key is not None and env.grid.get(*key).color == door.color


def _kind(thing: Any) -> str | None:
    return None if thing is None else thing.type


def _position(position: Any) -> tuple[int, int]:
    return int(position[0]), int(position[1])


def _actions_to(node: Node, predecessors: dict[Node, tuple[Node, int] | None]) -> list[int]:
    actions = []
    while (predecessor := predecessors[node]) is not None:
        node, action = predecessor
        actions.append(int(action))
    return actions[::-1]
