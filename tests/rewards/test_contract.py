"""What every intrinsic reward keeps, whichever it is."""

import jax
import optax
import pytest

from gemax.networks import mlp, torso_and_heads
from gemax.rewards.base import no_reward
from gemax.rewards.centred import centred
from gemax.rewards.combine import ngu_rnd
from gemax.rewards.gem import GemSettings, gem
from gemax.rewards.gem_episodic import gem_episodic
from gemax.rewards.gem_recent import gem_recent
from gemax.rewards.ngu import NguSettings, ngu
from gemax.rewards.oracle import OracleSettings, oracle
from gemax.rewards.rnd import RndSettings, distillation, rnd
from gemax.testing import check_reward

WORLDS, ROWS, ACTIONS = 4, 10, 4
OPTIMISER = optax.apply_if_finite(optax.adam(1e-3), max_consecutive_errors=1000)
NGU = ngu(mlp((8, 4)), ACTIONS, 5, OPTIMISER, NguSettings(hidden_size=8))
MEMBERS = {
    "gem": gem(torso_and_heads(8, 8, (4, 1)), 4, OPTIMISER, GemSettings()),
    "gem-recent": gem_recent(torso_and_heads(8, 8, (4, 1)), 4, OPTIMISER, GemSettings(), capacity=16),
    "gem-episodic": gem_episodic(torso_and_heads(8, 8, (4, 1)), 4, OPTIMISER, GemSettings(), capacity=5),
    "centred": centred(NGU),
    "none": no_reward(),
    "oracle": oracle(ROWS, OracleSettings()),
    "rnd": rnd(mlp((8, 4)), OPTIMISER, RndSettings()),
    "ngu": NGU,
    "ngu-rnd": ngu_rnd(NGU, distillation(mlp((8, 4)), OPTIMISER, RndSettings())),
}
INDEPENDENT = ("none", "ngu")


@pytest.mark.parametrize("name", list(MEMBERS))
def test_the_contract_is_kept(name):
    rows = jax.random.normal(jax.random.key(0), (ROWS, 3))
    check_reward(
        MEMBERS[name],
        rows,
        WORLDS,
        num_actions=ACTIONS,
        num_squares=ROWS,
        worlds_are_independent=name in INDEPENDENT,
    )
