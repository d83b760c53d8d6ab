import functools
import inspect
from itertools import pairwise

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

from gemax.core.ceiling import entropy_ceiling
from gemax.envs.gridworld import custom_map, gridworld, state_tables
from gemax.envs.maps import MOVES, paper_map
from gemax.envs.registry import ENVS, factory_of, make_env
from gemax.envs.render.gridworld import AGENT, DOOR, KEY, REWARD, draw_observation, magnify, noise_position

NO_OP, UP, DOWN, LEFT, RIGHT = range(5)
# Cached, because 16-Leaves takes a second or two.
FACTORIES = [functools.cache(factory_of(row)) for row in ENVS.values() if row.is_gridworld]
two_rooms, two_rooms_noisy, sixteen_leaves, two_keys = FACTORIES


def play(env, actions, seed=0):
    """Takes these actions. Returns all states and timesteps, from the reset on."""
    state, timestep = env.reset(jax.random.key(seed))
    history = [(state, timestep)]
    step = jax.jit(env.step)
    for i, action in enumerate(actions):
        state, timestep = step(jax.random.key(i + 1), state, jnp.asarray(action))
        history.append((state, timestep))
    return history


PATH_TO_GOAL = [RIGHT] * 6 + [DOWN] * 6 + [LEFT] * 6 + [DOWN] * 4


def test_reaching_the_goal_gives_a_reward_of_one_and_terminates():
    history = play(two_rooms("cells"), PATH_TO_GOAL)
    rewards = [float(timestep.reward) for _, timestep in history]
    assert rewards == [0.0] * 22 + [1.0]
    assert [bool(timestep.terminated) for _, timestep in history] == [False] * 22 + [True]
    assert not any(bool(timestep.truncated) for _, timestep in history)


def test_the_horizon_truncates_the_episode():
    history = play(two_rooms("cells"), [NO_OP] * 30)
    assert [bool(timestep.truncated) for _, timestep in history] == [False] * 30 + [True]
    assert not any(bool(timestep.terminated) for _, timestep in history)


def test_a_goal_reached_with_the_last_action_terminates_and_does_not_truncate():
    _, last = play(two_rooms("cells"), [NO_OP] * 8 + PATH_TO_GOAL)[-1]
    assert last.terminated
    assert not last.truncated
    assert last.reward == 1


def test_reward_free_environments_have_floor_instead_of_the_goal():
    env = two_rooms("cells", reward_free=True)
    history = play(env, PATH_TO_GOAL + [NO_OP] * 8)
    assert not any(bool(timestep.terminated) or float(timestep.reward) for _, timestep in history)
    assert history[-1][1].truncated
    assert not any((np.asarray(timestep.observation) == REWARD).all(axis=-1).any() for _, timestep in history)


def test_walls_and_edges_block_the_agent():
    env = two_rooms("cells")
    history = play(env, [UP, LEFT, DOWN, DOWN, DOWN, DOWN, DOWN])
    cells = [int(env.finite.cell_index(state)) for state, _ in history]
    positions = [tuple(env.finite.cell_positions[cell]) for cell in cells]
    assert positions == [(0, 0), (0, 0), (0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (4, 0)]


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("observation", ["cells", "pixels"])
def test_observations_from_the_table_equal_drawn_images_in_every_reachable_state(factory, observation):
    """Reaches every state by a step of the environment, and draws its image from the map."""
    env = factory(observation)
    grid_map = paper_map(env.spec.name.removesuffix("-noisy"))
    tables, finite = state_tables(grid_map, reward_free=False), env.finite
    factor = {"cells": 1, "pixels": 8}[observation]

    contents = list(zip(tables.cells, tables.removed, tables.reward_cell, strict=True))
    sources, actions = np.nonzero(np.ones_like(tables.successor))
    is_running = ~tables.is_terminal[sources]
    sources, actions = sources[is_running], actions[is_running]
    # One way into each state is enough.
    _, first = np.unique(tables.successor[sources, actions], return_index=True)
    sources, actions = jnp.asarray(sources[first]), jnp.asarray(actions[first])

    def step_from(key, index, action):
        state, _ = env.reset(key)
        state, timestep = env.step(key, state._replace(state_index=index), action)
        return state, timestep.observation, finite.observation_index(state)

    keys = jax.random.split(jax.random.key(0), len(sources))
    states, observations, rows = jax.jit(jax.vmap(step_from))(keys, sources, actions)
    gathered = np.asarray(finite.observation_table)[np.asarray(rows)]
    for i, index in enumerate(np.asarray(states.state_index)):
        rendered = draw_observation(grid_map, *contents[int(index)])
        np.testing.assert_array_equal(gathered[i], rendered)
        if env.spec.name == "two-rooms-noisy":
            rendered[(*noise_position(grid_map), slice(2))] = np.asarray(states.noise)[i]
        np.testing.assert_array_equal(np.asarray(observations)[i], magnify(rendered, factor))
    unreached = set(range(finite.num_states)) - set(np.asarray(states.state_index).tolist())
    assert all(index < tables.num_starts for index in unreached)


@pytest.mark.parametrize("factory", FACTORIES)
def test_observations_in_the_table_are_distinct(factory):
    finite = factory("cells").finite
    table = np.asarray(finite.observation_table)
    assert len(np.unique(table.reshape(len(table), -1), axis=0)) == len(table)


def test_number_of_distinct_observations():
    assert len(two_rooms().finite.observation_table) == 71
    assert len(sixteen_leaves().finite.observation_table) == 95 * 16
    # 2-Keys shows the taken keys in both rooms, so every state has its own image.
    finite = two_keys().finite
    assert len(finite.observation_table) == finite.num_states


def test_a_key_opens_the_door_and_both_become_floor():
    env = two_keys("cells")
    seeds = (seed for seed in range(50) if tuple(position(env, env.reset(jax.random.key(seed))[0])) == (3, 0))
    way = [DOWN, RIGHT, RIGHT, RIGHT, RIGHT, RIGHT, RIGHT, DOWN, DOWN, UP]
    history = play(env, way, seed=next(seeds))

    def count(timestep, colour, rows=slice(3, None)):
        """Counts cells of a colour. Rows 0 to 1 are the overview map, row 2 has the taken keys, then comes the room."""
        return int((np.asarray(timestep.observation)[rows] == colour).all(axis=-1).sum())

    keys = [count(timestep, KEY) for _, timestep in history]
    assert keys[:4] == [2, 2, 2, 2]
    assert keys[4:8] == [1, 1, 1, 1]  # the fourth step takes the lower key
    taken = [count(timestep, KEY, slice(2, 3)) for _, timestep in history]
    assert taken == [0] * 4 + [1] * 7  # and it stays visible, also in the other room
    doors = [count(timestep, DOOR) for _, timestep in history]
    assert doors[:8] == [1] * 8
    assert doors[8] == 0  # the agent stands in the open door
    assert position(env, history[9][0]).tolist() == [6, 6]
    assert count(history[10][1], DOOR) == 0


def test_the_door_stays_closed_without_a_key():
    env = two_keys("cells")
    way = [RIGHT] * 6 + [DOWN] * 5
    seeds = (seed for seed in range(50) if tuple(position(env, env.reset(jax.random.key(seed))[0])) == (2, 0))
    history = play(env, way, seed=next(seeds))
    assert position(env, history[-1][0]).tolist() == [4, 6]


def position(env, state):
    return env.finite.cell_positions[int(env.finite.cell_index(state))]


def test_all_starts_and_rewards_are_equally_likely():
    env = sixteen_leaves("cells")
    states, _ = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 9600))
    counts = np.bincount(np.asarray(states.state_index), minlength=48)
    assert counts.shape == (48,)
    np.testing.assert_allclose(counts, 200, atol=75)


def test_noise_is_sampled_at_every_step_over_all_colours():
    env = two_rooms_noisy("cells")
    history = play(env, [NO_OP] * 25)
    noise = [tuple(np.asarray(state.noise).tolist()) for state, _ in history]
    assert all(before != after for before, after in pairwise(noise))
    row, column = noise_position(paper_map("two-rooms"))
    for state, timestep in history:
        np.testing.assert_array_equal(
            np.asarray(timestep.observation)[row, column], [*np.asarray(state.noise), 0]
        )
    keys = jax.random.split(jax.random.key(1), 4000)
    colours = np.asarray(jax.vmap(lambda key: env.reset(key)[0].noise)(keys))
    assert colours.min() == 0
    assert colours.max() == 255
    np.testing.assert_allclose(colours.mean(axis=0), 127.5, atol=5)


def test_the_image_shows_the_rooms_of_agent_and_reward_and_the_life():
    image = np.asarray(two_rooms("cells").reset(jax.random.key(0))[1].observation)
    np.testing.assert_array_equal(image[0, 0], AGENT)  # in the upper room
    np.testing.assert_array_equal(image[1, 0], REWARD)  # in the lower room
    np.testing.assert_array_equal(image[0, -1], AGENT)  # the life
    np.testing.assert_array_equal(image[3, 0], AGENT)  # and the agent itself


def test_distances_are_shortest_paths_with_open_doors():
    finite = two_keys().finite
    positions = [tuple(cell) for cell in finite.cell_positions]
    graph = nx.Graph()
    graph.add_edges_from(
        ((row, column), (row + dr, column + dc))
        for row, column in positions
        for dr, dc in MOVES[1:]
        if (row + dr, column + dc) in positions
    )
    lengths = dict(nx.all_pairs_shortest_path_length(graph))
    expected = [[lengths[a].get(b, -1) for b in positions] for a in positions]
    np.testing.assert_array_equal(finite.distances(), expected)


def test_entropy_ceilings_are_certified_and_below_the_log_of_the_number_of_cells():
    for factory, cells, entropy in ((two_rooms, 71, 4.2513), (sixteen_leaves, 95, 4.4382)):
        ceiling = entropy_ceiling(factory().finite.reward_free_model)
        assert ceiling.gap <= 1e-3
        assert 0.95 * np.log(cells) < ceiling.entropy < np.log(cells)
        np.testing.assert_allclose(ceiling.entropy, entropy, atol=1e-3)


def test_visits_of_a_random_policy_equal_those_of_the_model():
    """Compares the tables that the ceiling is computed from with the environment."""
    from gemax.core.finite_model import policy_visits, uniform_policy

    env = two_keys("cells")
    model = env.finite.model
    expected = policy_visits(model, uniform_policy(model))

    def episode(key):
        def one_step(carry, key):
            state, over = carry
            action_key, step_key = jax.random.split(key)
            following, timestep = env.step(step_key, state, jax.random.randint(action_key, (), 0, 5))
            visit = jax.nn.one_hot(env.finite.cell_index(following), len(expected)) * ~over
            return (following, over | timestep.terminated | timestep.truncated), visit

        reset_key, steps_key = jax.random.split(key)
        state, _ = env.reset(reset_key)
        keys = jax.random.split(steps_key, env.spec.horizon)
        return jax.lax.scan(one_step, (state, jnp.asarray(False)), keys)[1].sum(axis=0)

    visits = np.asarray(jax.jit(jax.vmap(episode))(jax.random.split(jax.random.key(0), 20_000)).sum(axis=0))
    np.testing.assert_allclose(visits / visits.sum(), expected, atol=2e-3)


def test_custom_maps_become_environments(tmp_path):
    path = tmp_path / "my-maze.txt"
    path.write_text("S..\n.#.\n..G\n")
    env = custom_map(path, 10, observation="cells")
    assert env.spec.name == "my-maze"
    assert env.spec.observation.shape == (5, 3, 3)
    assert custom_map("S..\n.#.\n..G\n", 10).finite.num_states == 8


def test_errors_for_unknown_names_list_the_known_ones():
    with pytest.raises(
        ValueError, match=r"environment must be one of two-rooms, .*got 'two-room'. Did you mean two-rooms\?"
    ):
        make_env("two-room")
    with pytest.raises(ValueError, match="observation must be one of pixels, cells; got 'rgb'"):
        inspect.unwrap(gridworld)("x", paper_map("two-rooms"), 30, observation="rgb")
