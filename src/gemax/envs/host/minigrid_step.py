"""Steps MiniGrid's environments faster, with the same results.

MiniGrid looks up the action in an enumeration up to seven times per step, and computes positions as NumPy arrays of two
integers. Both take longer than all that remains of the step.

Worker processes import this module, so it does not import JAX.
"""

import functools
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import Env

from gemax.envs.host.minigrid_view import FORWARD, View

if TYPE_CHECKING:
    from minigrid.minigrid_env import MiniGridEnv

VIEW_METHODS = ("gen_obs", "gen_obs_grid", "get_view_exts")
STEP_METHODS = ("step", "front_pos", "dir_vec")
LEFT, RIGHT, FORWARDS, PICKUP, DROP, TOGGLE, DONE = range(7)
"""MiniGrid's actions."""


def speed_up(env: Env) -> None:
    """Replaces the observations and steps of a MiniGrid environment. Leaves all other environments unchanged.

    An environment that changes how MiniGrid computes one of them keeps its own functions.
    """
    module: Any = sys.modules.get("minigrid.minigrid_env")
    unwrapped: Any = env.unwrapped
    if module is None or not isinstance(unwrapped, module.MiniGridEnv):
        return
    original, kind = module.MiniGridEnv, type(unwrapped)

    def has_original(names: tuple[str, ...]) -> bool:
        return all(
            getattr(kind, name) is getattr(original, name) and name not in vars(unwrapped) for name in names
        )

    if has_original(VIEW_METHODS):
        unwrapped.gen_obs = View(unwrapped).observe
    if has_original(STEP_METHODS):
        unwrapped.step = functools.partial(step, unwrapped, unwrapped.step, module.Actions)


def step(
    env: "MiniGridEnv", original_step: Any, actions: Any, action: Any
) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
    """Takes an action, as `MiniGridEnv.step` does, which is `original_step` and handles all unusual actions."""
    is_usual = type(action) in (int, np.int64, np.int32) and LEFT <= action <= DONE
    if not is_usual or env.actions is not actions:
        return original_step(action)
    action, reward, terminated = int(action), 0, False
    env.step_count += 1
    if action == LEFT:
        env.agent_dir = (env.agent_dir - 1) % 4
    elif action == RIGHT:
        env.agent_dir = (env.agent_dir + 1) % 4
    elif action != DONE:
        (x, y), (forward_x, forward_y) = env.agent_pos, FORWARD[env.agent_dir]
        position = int(x) + forward_x, int(y) + forward_y
        cell = env.grid.get(*position)
        if action == FORWARDS:
            if cell is None or cell.can_overlap():
                env.agent_pos = position
            if cell is not None and cell.type in ("goal", "lava"):
                terminated = True
                reward = env._reward() if cell.type == "goal" else 0
        else:
            _use_hands(env, action, cell, position)
    if env.render_mode == "human":
        env.render()
    return env.gen_obs(), reward, terminated, env.step_count >= env.max_steps, {}


def _use_hands(env: "MiniGridEnv", action: int, cell: Any, position: tuple[int, int]) -> None:
    """Picks up, drops or toggles an object in front of the agent. Objects store their position as an array."""
    if action == PICKUP:
        if cell and cell.can_pickup() and env.carrying is None:
            env.carrying = cell
            cell.cur_pos = np.array([-1, -1])
            env.grid.set(*position, None)
    elif action == DROP:
        if not cell and env.carrying:
            env.grid.set(*position, env.carrying)
            carried: Any = env.carrying
            carried.cur_pos = np.array(position)
            env.carrying = None
    elif cell:
        cell.toggle(env, np.array(position))
