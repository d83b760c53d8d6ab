"""The wrapper pays for exploring, at every step and in every autoreset mode, and leaves all else as it was."""

import functools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from gemax.integrations.gymnasium import IntrinsicReward
from gemax.integrations.learner import LearnerState, Steps, learner, rollout_of
from gemax.integrations.modules import module_for
from gemax.rewards.base import IntrinsicReward as Module
from gemax.runs.checkpoints import CheckpointError

CORRIDOR = {"map": "S....G\n", "horizon": 7, "observation": "squares"}
TINY = {"torso_size": 8, "head_size": 8, "embedding_size": 4}
NUM_ENVS, LENGTH = 2, 4


def make(mode="NextStep", num_envs=NUM_ENVS):
    return gymnasium.make_vec("gemax/Map-v0", num_envs, autoreset_mode=mode, **CORRIDOR)


def wrap(mode="NextStep", method="gem", **settings):
    settings = settings if isinstance(method, Module) else {**TINY, **settings}
    return IntrinsicReward(make(mode), method, rollout_length=LENGTH, horizon=7, **settings)


def walk(envs, num_transitions, seed=0):
    """What each environment is paid for each of its transitions, under actions that depend on nothing else."""
    actions = np.random.default_rng(seed).integers(5, size=(envs.num_envs, num_transitions))
    paid = [[] for _ in range(envs.num_envs)]
    mode = envs.metadata["autoreset_mode"]
    envs.reset(seed=0)
    while min(map(len, paid)) < num_transitions:
        action = np.asarray(
            [row[min(len(past), len(row) - 1)] for row, past in zip(actions, paid, strict=True)]
        )
        _, _, terminated, truncated, infos = envs.step(action)
        for i in np.flatnonzero(infos["_intrinsic_reward"]):
            paid[i].append(infos["intrinsic_reward"][i])
        assert not infos["intrinsic_reward"][~infos["_intrinsic_reward"]].any()
        ends = terminated | truncated
        if mode is AutoresetMode.DISABLED and ends.any():
            envs.reset(options={"reset_mask": ends})
    return np.asarray([past[:num_transitions] for past in paid])


def numbers():
    """Pays each step the number of rollouts that were learned from, and one more for each it remembers since."""

    def init(key, rows, num_worlds):
        return {"learned": jnp.zeros(()), "remembered": jnp.zeros(num_worlds)}

    def reward(state, rollout, key):
        return jnp.broadcast_to(100 * state["learned"] + state["remembered"][None], rollout.action.shape)

    def step(state, rollout, key):
        after = {"learned": state["learned"] + 1, "remembered": jnp.zeros_like(state["remembered"])}
        return reward(state, rollout, key), after, {"actions": jnp.mean(rollout.action.astype(float))}

    def remember(state, rollout, is_real):
        return {**state, "remembered": state["remembered"] + is_real}

    return Module(init, reward, step, None, remember)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_steps_are_paid_one_by_one_and_learned_from_rollout_by_rollout(mode):
    paid = walk(wrap(mode, numbers()), 3 * LENGTH)
    # How far each world is ahead of the slowest when a rollout is complete depends on the mode; SameStep has no resets.
    assert (paid[:, :LENGTH] == 0).all()
    if mode != "NextStep":
        np.testing.assert_array_equal(paid[:, LENGTH:], [[100, 101, 102, 103, 200, 201, 202, 203]] * NUM_ENVS)


@functools.cache
def paid_by(method, mode):
    return walk(wrap(mode, method), 5 * LENGTH)


@pytest.mark.parametrize("method", ["gem", "rnd", "ngu", "ngu-rnd"])
def test_every_method_pays_finite_numbers_once_it_has_learned(method):
    paid = paid_by(method, "SameStep")
    assert np.isfinite(paid).all()
    assert not paid[:, :LENGTH].any()
    assert (paid[:, LENGTH:] != 0).mean() > 0.9


def test_a_reset_by_hand_and_one_within_the_step_are_the_same():
    np.testing.assert_allclose(paid_by("gem", "Disabled"), paid_by("gem", "SameStep"), rtol=1e-5)


def test_rewards_are_added_or_replaced_and_all_else_is_passed_on():
    bare, added, replaced = make("SameStep"), wrap("SameStep"), wrap("SameStep", replaces=True)
    for envs in (bare, added, replaced):
        envs.reset(seed=3)
    for action in np.random.default_rng(1).integers(5, size=(3 * LENGTH, NUM_ENVS)):
        told = [envs.step(action) for envs in (bare, added, replaced)]
        intrinsic = told[1][4]["intrinsic_reward"]
        np.testing.assert_allclose(told[1][1], told[0][1] + intrinsic)
        np.testing.assert_allclose(told[2][1], intrinsic)
        for one in told[1:]:
            np.testing.assert_array_equal(one[0], told[0][0])
            np.testing.assert_array_equal(one[2], told[0][2])
            assert {"intrinsic_reward", "_intrinsic_reward", *told[0][4]} == one[4].keys()
    assert "gem_loss" in added.metrics


def test_what_was_learned_is_saved_and_goes_on(tmp_path):
    first = wrap("SameStep", "rnd")
    walk(first, 3 * LENGTH)
    first.save(tmp_path / "model.zip")
    assert (tmp_path / "model.intrinsic").is_dir()
    second = wrap("SameStep", "rnd", seed=5)
    assert not (tmp_path / "model.zip").exists()
    second.load(tmp_path / "model")
    first.load(tmp_path / "model")
    np.testing.assert_array_equal(walk(first, LENGTH), walk(second, LENGTH))
    with pytest.raises(CheckpointError, match="another kind of run"):
        wrap("SameStep", "rnd", torso_size=9).load(tmp_path / "model")


class Sensor(gymnasium.Env):
    """Breaks at the third step. Its action is a number."""

    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.num_steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.num_steps += 1
        broken = np.nan if self.num_steps == 3 else 0.0
        return np.asarray([0.5, broken], np.float32), 0.0, False, False, {}


def test_a_broken_sensor_is_named_before_it_spoils_an_average():
    envs = IntrinsicReward(SyncVectorEnv([Sensor]), "rnd", rollout_length=LENGTH, **TINY)
    envs.reset()
    action = np.zeros((1, 1), np.float32)
    envs.step(action)
    envs.step(action)
    with pytest.raises(ValueError, match="the observation of environment 0 is not finite at step 3"):
        envs.step(action)


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("oracle", {}, "Only gemax's own worlds tell the true squares"),
        ("gme", {}, "method must be one of gem, rnd, ngu, ngu-rnd, none, or an intrinsic reward of your own"),
        ("gem", {"intrinsic_scael": 1.0}, "Did you mean intrinsic_scale"),
    ],
)
def test_what_cannot_be_is_refused_in_words(method, settings, message):
    with pytest.raises(ValueError, match=message):
        IntrinsicReward(make(), method, **settings)


def test_ngu_needs_numbered_actions_and_says_so():
    with pytest.raises(ValueError, match="ngu predicts which action was taken and needs a Discrete"):
        IntrinsicReward(SyncVectorEnv([Sensor]), "ngu")


def test_an_environment_without_autoreset_mode_is_refused():
    envs = SyncVectorEnv([Sensor])
    envs.metadata = {}
    with pytest.raises(ValueError, match="autoreset_mode"):
        IntrinsicReward(envs)


def test_to_step_before_a_reset_is_an_error():
    with pytest.raises(ResetNeeded, match="call reset"):
        wrap(method=numbers()).step(np.zeros(NUM_ENVS, int))


def test_ngu_is_paid_step_by_step_what_it_would_be_paid_for_the_whole_rollout():
    num_steps, shape = 6, (6, NUM_ENVS)
    module = module_for(
        "ngu", (3,), spaces.Discrete(2), horizon=4, few_worlds=True, settings={**TINY, "intrinsic_scale": 1.0}
    )
    learned = learner(module, (3,), NUM_ENVS)
    draw, never = np.random.default_rng(0), np.zeros(shape, bool)
    is_first = np.broadcast_to((np.arange(num_steps) % 4 == 0)[:, None], shape)
    rows = draw.normal(size=(2, *shape, 3)).astype(np.float32)
    steps = Steps(rows[0], rows[1], np.zeros(shape, np.int32), np.zeros(shape), never, never, is_first)
    _, state, _ = learned.learn(learned.init(jax.random.key(0)), steps)
    rollout = rollout_of(state.centring, Steps(*map(jnp.asarray, steps)))
    whole = module.reward(state.reward, rollout, state.key)
    for t in range(num_steps):
        step = Steps(*(field[t : t + 1] for field in steps))
        paid, state = learned.pay(state, step, np.ones(NUM_ENVS, bool))
        np.testing.assert_allclose(paid, whole[t], rtol=1e-4)


def test_an_annealed_reward_goes_down_to_nothing():
    paid = walk(wrap("SameStep", "rnd", anneal_updates=3), 5 * LENGTH)
    assert paid[:, LENGTH : 3 * LENGTH].all()
    assert not paid[:, 3 * LENGTH :].any()


@pytest.mark.parametrize("method", ["rnd", "ngu"])
def test_what_is_said_of_a_world_without_a_step_does_not_matter(method):
    module = module_for(
        method,
        (3,),
        spaces.Discrete(2),
        horizon=4,
        few_worlds=True,
        settings={**TINY, "intrinsic_scale": 1.0},
    )
    learned = learner(module, (3,), NUM_ENVS)
    draw, never = np.random.default_rng(0), np.zeros((1, NUM_ENVS), bool)
    rows = draw.normal(size=(1, NUM_ENVS, 3)).astype(np.float32)
    steps = Steps(rows, rows + 1, never.astype(np.int32), never.astype(np.float32), never, never, ~never)
    _, state, _ = learned.learn(learned.init(jax.random.key(0)), steps)
    is_real = np.asarray([True, False])
    broken = steps._replace(arrived=np.where(is_real[None, :, None], steps.arrived, np.nan))
    for one, other in zip(*(learned.pay(state, said, is_real) for said in (steps, broken)), strict=True):
        jax.tree.map(np.testing.assert_array_equal, *(_without_keys(tree) for tree in (one, other)))


def _without_keys(tree):
    return tree._replace(key=None) if isinstance(tree, LearnerState) else tree


def test_without_an_intrinsic_reward_nothing_is_paid():
    envs = wrap("SameStep", "none")
    assert not walk(envs, 3 * LENGTH).any()
    assert envs.metrics == {}
