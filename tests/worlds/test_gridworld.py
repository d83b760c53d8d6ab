import functools
import inspect
from itertools import pairwise

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

from gemax.core.ceiling import entropy_ceiling
from gemax.worlds.gridworld import gridworld, tables_of
from gemax.worlds.maps import MOVES, SIXTEEN_LEAVES, TWO_KEYS, TWO_ROOMS, parse_map
from gemax.worlds.pixels import AGENT, DOOR, KEY, REWARD, draw_image, magnify, noise_position
from gemax.worlds.registry import GRIDWORLDS, make_world, world_of_map

NO_OP, UP, DOWN, LEFT, RIGHT = range(5)
# Each world is made once: that takes a second or two for 16-Leaves.
FACTORIES = [functools.cache(factory) for factory in GRIDWORLDS.values()]
two_rooms, two_rooms_noisy, sixteen_leaves, two_keys = FACTORIES


def play(world, actions, seed=0):
    """Steps with these actions; gives all states and timesteps, the first included."""
    state, timestep = world.reset(jax.random.key(seed))
    history = [(state, timestep)]
    step = jax.jit(world.step)
    for i, action in enumerate(actions):
        state, timestep = step(jax.random.key(i + 1), state, jnp.asarray(action))
        history.append((state, timestep))
    return history


WAY_TO_THE_GOAL = [RIGHT] * 6 + [DOWN] * 6 + [LEFT] * 6 + [DOWN] * 4


def test_the_way_to_the_goal_pays_one_at_its_end_and_terminates():
    history = play(two_rooms("squares"), WAY_TO_THE_GOAL)
    rewards = [float(timestep.reward) for _, timestep in history]
    assert rewards == [0.0] * 22 + [1.0]
    assert [bool(timestep.terminated) for _, timestep in history] == [False] * 22 + [True]
    assert not any(bool(timestep.truncated) for _, timestep in history)


def test_time_runs_out_after_the_horizon_and_truncates():
    history = play(two_rooms("squares"), [NO_OP] * 30)
    assert [bool(timestep.truncated) for _, timestep in history] == [False] * 30 + [True]
    assert not any(bool(timestep.terminated) for _, timestep in history)


def test_a_goal_reached_with_the_last_action_terminates_and_does_not_truncate():
    _, last = play(two_rooms("squares"), [NO_OP] * 8 + WAY_TO_THE_GOAL)[-1]
    assert last.terminated
    assert not last.truncated
    assert last.reward == 1


def test_without_reward_the_goal_is_floor():
    world = two_rooms("squares", reward_free=True)
    history = play(world, WAY_TO_THE_GOAL + [NO_OP] * 8)
    assert not any(bool(timestep.terminated) or float(timestep.reward) for _, timestep in history)
    assert history[-1][1].truncated
    assert not any((np.asarray(timestep.observation) == REWARD).all(axis=-1).any() for _, timestep in history)


def test_walls_and_edges_stop_the_agent():
    world = two_rooms("squares")
    history = play(world, [UP, LEFT, DOWN, DOWN, DOWN, DOWN, DOWN])
    squares = [int(world.finite.square_index(state)) for state, _ in history]
    positions = [tuple(world.finite.square_positions[square]) for square in squares]
    assert positions == [(0, 0), (0, 0), (0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (4, 0)]


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("observation", ["squares", "pixels"])
def test_gathering_from_the_table_equals_rendering_in_every_reachable_state(factory, observation):
    """Every state is stepped into through the world, and its picture drawn anew from what it means."""
    world = factory(observation)
    grid_map = parse_map({"sixteen-leaves": SIXTEEN_LEAVES, "two-keys": TWO_KEYS}.get(world.name, TWO_ROOMS))
    tables, facts = tables_of(grid_map, reward_free=False), world.finite
    factor = {"squares": 1, "pixels": 8}[observation]

    meaning = dict(enumerate(zip(tables.squares, tables.gone, tables.reward, strict=True)))
    sources, actions = np.nonzero(np.ones_like(tables.successor))
    is_going_on = ~tables.is_terminal[sources]
    sources, actions = sources[is_going_on], actions[is_going_on]
    # Of the many ways into each state one is enough.
    _, first_way = np.unique(tables.successor[sources, actions], return_index=True)
    sources, actions = jnp.asarray(sources[first_way]), jnp.asarray(actions[first_way])

    def arrive(key, number, action):
        state, _ = world.reset(key)
        state, timestep = world.step(key, state._replace(number=number), action)
        return state, timestep.observation, facts.observation_index(state)

    keys = jax.random.split(jax.random.key(0), len(sources))
    states, observations, rows = jax.jit(jax.vmap(arrive))(keys, sources, actions)
    gathered = np.asarray(facts.observation_table)[np.asarray(rows)]
    for i, index in enumerate(np.asarray(states.number)):
        rendered = draw_image(grid_map, *meaning[int(index)])
        np.testing.assert_array_equal(gathered[i], rendered)
        if world.name == "two-rooms-noisy":
            rendered[(*noise_position(grid_map), slice(2))] = np.asarray(states.noise)[i]
        np.testing.assert_array_equal(np.asarray(observations)[i], magnify(rendered, factor))
    unreached = set(range(facts.num_states)) - set(np.asarray(states.number).tolist())
    assert all(index in tables.starts for index in unreached)


@pytest.mark.parametrize("factory", FACTORIES)
def test_observations_in_the_table_are_distinct_and_all_in_use(factory):
    facts = factory("squares").finite
    table = np.asarray(facts.observation_table)
    assert len(np.unique(table.reshape(len(table), -1), axis=0)) == len(table)


def test_two_rooms_show_71_images_and_sixteen_leaves_1520():
    assert len(two_rooms().finite.observation_table) == 71
    assert len(sixteen_leaves().finite.observation_table) == 95 * 16
    # From below, too, 2-Keys shows which keys were taken: every state has an image of its own.
    facts = two_keys().finite
    assert len(facts.observation_table) == facts.num_states


def test_a_key_is_taken_the_door_opens_and_both_become_floor():
    world = two_keys("squares")
    seeds = (
        seed for seed in range(50) if tuple(position(world, world.reset(jax.random.key(seed))[0])) == (3, 0)
    )
    way = [DOWN, RIGHT, RIGHT, RIGHT, RIGHT, RIGHT, RIGHT, DOWN, DOWN, UP]
    history = play(world, way, seed=next(seeds))

    def count(timestep, colour, rows=slice(3, None)):
        """In the room; the rows above it have the world map, and between the two the keys that were taken."""
        return int((np.asarray(timestep.observation)[rows] == colour).all(axis=-1).sum())

    keys = [count(timestep, KEY) for _, timestep in history]
    assert keys[:4] == [2, 2, 2, 2]
    assert keys[4:8] == [1, 1, 1, 1]  # the lower key was taken with the fourth step
    taken = [count(timestep, KEY, slice(2, 3)) for _, timestep in history]
    assert taken == [0] * 4 + [1] * 7  # and is in view from then on, in the other room too
    doors = [count(timestep, DOOR) for _, timestep in history]
    assert doors[:8] == [1] * 8
    assert doors[8] == 0  # the agent stands in the open door
    assert position(world, history[9][0]).tolist() == [6, 6]
    assert count(history[10][1], DOOR) == 0


def test_the_door_stays_shut_to_one_without_a_key():
    world = two_keys("squares")
    way = [RIGHT] * 6 + [DOWN] * 5
    seeds = (
        seed for seed in range(50) if tuple(position(world, world.reset(jax.random.key(seed))[0])) == (2, 0)
    )
    history = play(world, way, seed=next(seeds))
    assert position(world, history[-1][0]).tolist() == [4, 6]


def position(world, state):
    return world.finite.square_positions[int(world.finite.square_index(state))]


def test_every_start_and_every_reward_is_drawn_and_alike():
    world = sixteen_leaves("squares")
    states, _ = jax.jit(jax.vmap(world.reset))(jax.random.split(jax.random.key(0), 9600))
    counts = np.bincount(np.asarray(states.number), minlength=48)
    assert counts.shape == (48,)
    np.testing.assert_allclose(counts, 200, atol=75)


def test_noise_is_drawn_anew_at_every_step_over_all_colours():
    world = two_rooms_noisy("squares")
    history = play(world, [NO_OP] * 25)
    noise = [tuple(np.asarray(state.noise).tolist()) for state, _ in history]
    assert all(before != after for before, after in pairwise(noise))
    row, column = noise_position(parse_map(TWO_ROOMS))
    for state, timestep in history:
        np.testing.assert_array_equal(
            np.asarray(timestep.observation)[row, column], [*np.asarray(state.noise), 0]
        )
    keys = jax.random.split(jax.random.key(1), 4000)
    colours = np.asarray(jax.vmap(lambda key: world.reset(key)[0].noise)(keys))
    assert colours.min() == 0
    assert colours.max() == 255
    np.testing.assert_allclose(colours.mean(axis=0), 127.5, atol=5)


def test_image_tells_agent_room_reward_room_and_life():
    image = np.asarray(two_rooms("squares").reset(jax.random.key(0))[1].observation)
    np.testing.assert_array_equal(image[0, 0], AGENT)  # in the upper room
    np.testing.assert_array_equal(image[1, 0], REWARD)  # in the lower room
    np.testing.assert_array_equal(image[0, -1], AGENT)  # the life
    np.testing.assert_array_equal(image[3, 0], AGENT)  # and the agent itself


def test_distances_are_those_of_the_open_map():
    facts = two_keys().finite
    positions = [tuple(square) for square in facts.square_positions]
    graph = nx.Graph()
    graph.add_edges_from(
        ((row, column), (row + dr, column + dc))
        for row, column in positions
        for dr, dc in MOVES[1:]
        if (row + dr, column + dc) in positions
    )
    lengths = dict(nx.all_pairs_shortest_path_length(graph))
    expected = [[lengths[a].get(b, -1) for b in positions] for a in positions]
    np.testing.assert_array_equal(facts.distances, expected)


def test_ceilings_are_certified_and_below_the_logarithm_of_the_squares():
    for factory, squares, entropy in ((two_rooms, 71, 4.2513), (sixteen_leaves, 95, 4.4382)):
        ceiling = entropy_ceiling(factory().finite.reward_free_model)
        assert ceiling.gap <= 1e-3
        assert 0.95 * np.log(squares) < ceiling.entropy < np.log(squares)
        np.testing.assert_allclose(ceiling.entropy, entropy, atol=1e-3)


def test_visits_of_a_random_policy_are_those_of_the_model():
    """The tables that the ceiling rests on, against the world as it is stepped."""
    from gemax.core.ceiling import policy_visits, uniform_policy

    world = two_keys("squares")
    model = world.finite.model
    expected = policy_visits(model, uniform_policy(model))

    def episode(key):
        def one_step(carry, key):
            state, over = carry
            action_key, step_key = jax.random.split(key)
            following, timestep = world.step(step_key, state, jax.random.randint(action_key, (), 0, 5))
            visit = jax.nn.one_hot(world.finite.square_index(following), len(expected)) * ~over
            return (following, over | timestep.terminated | timestep.truncated), visit

        reset_key, steps_key = jax.random.split(key)
        state, _ = world.reset(reset_key)
        keys = jax.random.split(steps_key, world.horizon)
        return jax.lax.scan(one_step, (state, jnp.asarray(False)), keys)[1].sum(axis=0)

    visits = np.asarray(jax.jit(jax.vmap(episode))(jax.random.split(jax.random.key(0), 20_000)).sum(axis=0))
    np.testing.assert_allclose(visits / visits.sum(), expected, atol=2e-3)


def test_a_map_of_ones_own_becomes_a_world(tmp_path):
    path = tmp_path / "my-maze.txt"
    path.write_text("S..\n.#.\n..G\n")
    world = world_of_map(path, 10, observation="squares")
    assert world.name == "my-maze"
    assert world.observation.shape == (5, 3, 3)
    assert world_of_map("S..\n.#.\n..G\n", 10).finite.num_states == 8


def test_wrong_names_and_modes_are_refused_with_what_there_is():
    with pytest.raises(
        ValueError, match=r"world must be one of two-rooms, .*got 'two-room'. Did you mean two-rooms\?"
    ):
        make_world("two-room")
    with pytest.raises(ValueError, match="observation must be one of pixels, squares; got 'rgb'"):
        inspect.unwrap(gridworld)("x", parse_map(TWO_ROOMS), 30, observation="rgb")
