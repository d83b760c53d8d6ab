"""All intrinsic rewards follow the interface of `rewards.base`."""

import jax
import optax
import pytest

from gemax.networks import mlp, torso_and_heads
from gemax.rewards.base import no_reward
from gemax.rewards.centred import centred
from gemax.rewards.combine import ngu_rnd
from gemax.rewards.config import IntrinsicConfig
from gemax.rewards.e3b import E3bSettings, e3b
from gemax.rewards.gem import Term, gem
from gemax.rewards.negatives_earlier import earlier_steps
from gemax.rewards.negatives_episode import own_episode
from gemax.rewards.negatives_other_envs import other_envs
from gemax.rewards.negatives_recent import recent_episodes
from gemax.rewards.ngu import NguSettings, ngu
from gemax.rewards.oracle import oracle
from gemax.rewards.re3 import Re3Settings, re3
from gemax.rewards.rnd import RndSettings, distillation, rnd
from gemax.testing import check_reward

ENVS, ROWS, ACTIONS = 4, 10, 4
OPTIMISER = optax.apply_if_finite(optax.adam(1e-3), max_consecutive_errors=1000)
CONFIG = IntrinsicConfig(embedding_size=4)
NGU = ngu(mlp((8, 4)), ACTIONS, 5, OPTIMISER, 0.0003, NguSettings(hidden_size=8))
RE3 = Re3Settings(memory_size=16)


def gem_with(*negatives):
    return gem(torso_and_heads(8, 8, (4, len(negatives))), OPTIMISER, CONFIG, tuple(map(Term, negatives)))


MEMBERS = {
    "gem": gem_with(other_envs(CONFIG)),
    "gem-recent": gem_with(recent_episodes(CONFIG, capacity=16)),
    "gem-episode": gem_with(own_episode(CONFIG, capacity=5)),
    "gem-both": gem_with(recent_episodes(CONFIG, capacity=16), own_episode(CONFIG, capacity=5)),
    "gem-earlier": gem_with(earlier_steps(CONFIG, capacity=6)),
    "gem-earlier-both": gem_with(earlier_steps(CONFIG, capacity=6), own_episode(CONFIG, capacity=5)),
    "centred": centred(NGU),
    "none": no_reward(),
    "oracle": oracle(ROWS, 0.005, 0.005, 0.99),
    "rnd": rnd(mlp((8, 4)), OPTIMISER, 0.001, RndSettings()),
    "ngu": NGU,
    "ngu-rnd": ngu_rnd(NGU, distillation(mlp((8, 4)), OPTIMISER, RndSettings())),
    "e3b": e3b(mlp((8, 4)), ACTIONS, OPTIMISER, 0.01, E3bSettings(hidden_size=8)),
    "re3": re3(mlp((8, 4)), 0.01, RE3),
    "re3-memory": re3(mlp((8, 4)), 0.01, RE3, has_memory=True),
}
INDEPENDENT = ("none", "ngu")


@pytest.mark.parametrize("name", list(MEMBERS))
def test_every_method_follows_the_contract(name):
    rows = jax.random.normal(jax.random.key(0), (ROWS, 3))
    check_reward(
        MEMBERS[name],
        rows,
        ENVS,
        num_actions=ACTIONS,
        num_states=ROWS,
        envs_are_independent=name in INDEPENDENT,
    )
