"""Policies act alone and in batches, keep their LSTM state, and say when it must be reset."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv
from tests.envs.host.toys import Counting, SamplesSpace
from tests.runs.untrained import untrained

import gemax
from gemax.training.assemble import CustomParts


def untrained_run(path, make_env):
    untrained(path, "gym:custom", CustomParts(make_env=make_env), horizon=5)
    return gemax.load(path, make_env=make_env)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return untrained_run(tmp_path_factory.mktemp("runs") / "counting", Counting)


@pytest.fixture
def policy(run):
    return run.policy()


def observations(number, seed=0):
    return (
        np.random.default_rng(seed).uniform(-1, 1, (number, *Counting().observation_space.shape)).astype("f")
    )


def test_a_batch_gets_the_actions_of_its_observations(run, policy):
    """The LSTM states are compared too: two steps each, alone and together."""
    first, second = observations(3), observations(3, seed=1)
    policy.predict(first, deterministic=True)
    together, state = policy.predict(second, deterministic=True)
    for index in range(3):
        alone = run.policy()
        alone.predict(first[index], deterministic=True)
        action, alone_state = alone.predict(second[index], deterministic=True)
        assert action == together[index]
        np.testing.assert_allclose(
            alone_state.lstm_state.hidden[0], state.lstm_state.hidden[index], rtol=1e-5
        )


def test_episode_start_clears_the_state_of_that_environment_only(policy):
    batch = observations(2)
    _, first = policy.predict(batch, deterministic=True)
    _, again = policy.predict(batch, episode_start=np.array([True, False]), deterministic=True)
    np.testing.assert_array_equal(again.lstm_state.hidden[0], first.lstm_state.hidden[0])
    assert not np.allclose(again.lstm_state.hidden[1], first.lstm_state.hidden[1])
    assert again.time.tolist() == [1, 2]


def test_a_state_that_is_passed_replaces_the_one_that_is_kept(policy):
    batch = observations(2)
    _, first = policy.predict(batch, deterministic=True)
    _, second = policy.predict(batch, deterministic=True)
    _, repeated = policy.predict(batch, state=first, deterministic=True)
    np.testing.assert_array_equal(repeated.lstm_state.hidden, second.lstm_state.hidden)


def test_another_batch_size_needs_a_reset(policy):
    policy.predict(observations(2))
    with pytest.raises(ValueError, match=r"batch of 2, as in the steps before; got 3. Call reset\(\) first"):
        policy.predict(observations(3))
    policy.reset()
    assert len(policy.predict(observations(3))[0]) == 3
    # A batch in which every episode starts needs no reset.
    assert len(policy.predict(observations(4), episode_start=np.ones(4, bool))[0]) == 4


def test_more_steps_than_the_horizon_warn_once_that_a_reset_is_due(policy, recwarn):
    observation = observations(1)[0]
    for _ in range(policy.spec.horizon):
        policy.act(observation)
    assert not recwarn.list
    with pytest.warns(UserWarning, match=r"acted for 6 steps without reset\(\).* at most 5"):
        policy.act(observation)
    policy.act(observation)
    policy.reset()
    policy.act(observation)


def test_stable_baselines3_evaluates_a_policy(policy):
    envs = DummyVecEnv([Counting, Counting])
    returns, lengths = evaluate_policy(policy, envs, 6, return_episode_rewards=True, warn=False)
    assert len(returns) == 6
    assert max(lengths) <= policy.spec.horizon


def test_batches_of_dictionaries_and_continuous_actions_are_predicted(tmp_path):
    space = spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Discrete(3)})
    actions = spaces.Box(-2.0, 3.0, (2,))
    run = untrained_run(tmp_path / "run", lambda: SamplesSpace(space, actions))
    envs = gymnasium.vector.SyncVectorEnv([lambda: SamplesSpace(space, actions)] * 3)
    batch, _ = envs.reset(seed=0)
    action, _ = run.policy().predict(batch)
    assert envs.action_space.contains(action)
    single, _ = SamplesSpace(space, actions).reset(seed=0)
    assert actions.contains(run.policy().predict(single)[0])
