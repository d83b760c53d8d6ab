"""Finds short plans in MiniGrid environments: to a goal, or to an object that must be picked up."""

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import gymnasium
import numpy as np
from minigrid.core.constants import DIR_TO_VEC
from minigrid.minigrid_env import MiniGridEnv

Cell: TypeAlias = tuple[int, int]


class Node(NamedTuple):
    """A state of the search: everything that actions change."""

    position: Cell
    direction: int
    carrying: Any
    """The object that the agent carries, or None."""
    changes: frozenset[tuple[Cell, Any]]
    """Cells whose content has changed, with the new content."""
    opened: frozenset[Cell]
    """Positions of the open doors."""


def mean_return_of_plans(env_id: str, layouts: range) -> float:
    """Returns the mean return of plans over layouts, given by their seeds. Every plan is executed."""
    env, returns = gymnasium.make(env_id), []
    for layout in layouts:
        env.reset(seed=layout)
        unwrapped = env.unwrapped
        assert isinstance(unwrapped, MiniGridEnv)
        plan = shortest_plan(unwrapped)
        assert plan is not None, f"{env_id}: the goal of layout {layout} cannot be reached"
        returns.append(sum(float(env.step(action)[1]) for action in plan))
    env.close()
    return float(np.mean(returns))


def shortest_plan(env: MiniGridEnv) -> list[int] | None:
    """Returns a list of actions that ends the task, by breadth-first search. None if there is none.

    Things are only picked up if that can help, and only once: keys, and balls that block a door. So the plan is the
    shortest one wherever there is nothing but doors, keys and a goal.
    """
    first = Node(_cell(env.agent_pos), int(env.agent_dir), None, frozenset(), frozenset())
    target = getattr(env, "obj", None)
    predecessors: dict[Node, tuple[Node, int] | None] = {first: None}
    queue = deque([first])
    while queue:
        node = queue.popleft()
        is_at_goal = getattr(env.grid.get(*node.position), "type", None) == "goal"
        if is_at_goal or (target is not None and node.carrying is target):
            return _actions_to(node, predecessors)
        for action, successor in _successors(env, node, target):
            if successor not in predecessors:
                predecessors[successor] = node, action
                queue.append(successor)
    return None


def _successors(env: MiniGridEnv, node: Node, target: Any) -> Iterator[tuple[int, Node]]:
    actions, carrying = env.actions, node.carrying
    yield actions.left, node._replace(direction=(node.direction - 1) % 4)
    yield actions.right, node._replace(direction=(node.direction + 1) % 4)
    ahead = _cell(DIR_TO_VEC[node.direction] + node.position)
    changes = dict(node.changes)
    thing = _thing_at(env, changes, ahead)
    kind = getattr(thing, "type", None)
    if kind in (None, "goal") or ahead in node.opened:
        yield actions.forward, node._replace(position=ahead)
    if kind is None and carrying is not None and _is_useless(env, node):
        yield actions.drop, node._replace(carrying=None, changes=_with(changes, ahead, carrying))
    elif kind == "door" and ahead not in node.opened:
        if not thing.is_locked or _is_key_of(carrying, thing):
            yield actions.toggle, node._replace(opened=node.opened | {ahead})
    elif kind == "box" and thing.contains is not None:
        yield actions.toggle, node._replace(changes=_with(changes, ahead, thing.contains))
    elif (
        kind in ("key", "ball")
        and carrying is None
        and (thing is target or _is_worth_taking(env, node, ahead))
    ):
        yield actions.pickup, node._replace(carrying=thing, changes=_with(changes, ahead, None))


def _thing_at(env: MiniGridEnv, changes: dict[Cell, Any], cell: Cell) -> Any:
    return changes[cell] if cell in changes else env.grid.get(*cell)


def _is_useless(env: MiniGridEnv, node: Node) -> bool:
    """Returns whether the carried object may be dropped: a ball, or a key whose doors are open."""
    doors = (env.grid.get(*cell) for cell in node.opened)
    return node.carrying.type == "ball" or any(_is_key_of(node.carrying, door) for door in doors)


def _is_worth_taking(env: MiniGridEnv, node: Node, cell: Cell) -> bool:
    """Returns whether a key or ball has not been dropped before. Balls must also block a door."""
    original = env.grid.get(*cell)
    if original is None:
        return False
    if original.type != "ball":
        return True
    neighbours = (env.grid.get(*_cell(vector + cell)) for vector in DIR_TO_VEC)
    return any(neighbour is not None and neighbour.type == "door" for neighbour in neighbours)


def _is_key_of(thing: Any, door: Any) -> bool:
    return thing is not None and thing.type == "key" and thing.color == door.color


def _with(changes: dict[Cell, Any], cell: Cell, thing: Any) -> frozenset[tuple[Cell, Any]]:
    return frozenset({**changes, cell: thing}.items())


def _cell(position: Any) -> Cell:
    return int(position[0]), int(position[1])


def _actions_to(node: Node, predecessors: dict[Node, tuple[Node, int] | None]) -> list[int]:
    actions = []
    while (predecessor := predecessors[node]) is not None:
        node, action = predecessor
        actions.append(int(action))
    return actions[::-1]
