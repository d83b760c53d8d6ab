"""The contrast of a reward is how far it is above its mean where the agent has rarely been."""

import jax.numpy as jnp
import numpy as np
import pytest

from gemax.experiments import contrast as module
from gemax.experiments.contrast import MEMORY, Contrast, analyse, compute, contrast

VISITS = jnp.asarray([100.0, 50.0, 1.0])
CELLS = jnp.asarray([[0, 0, 0, 0, 1], [1, 1, 0, 1, 2]])


def test_contrast_is_the_standardised_reward_of_the_rarest_steps():
    reward = jnp.where(CELLS == 2, 4.0, 1.0)
    # One step of ten has the reward 4: the mean is 1.3 and the standard deviation 0.9.
    np.testing.assert_allclose(contrast(reward, CELLS, VISITS), (4.0 - 1.3) / 0.9, rtol=1e-5)
    np.testing.assert_allclose(contrast(-reward, CELLS, VISITS), -(4.0 - 1.3) / 0.9, rtol=1e-5)


def test_a_constant_reward_has_no_contrast():
    assert contrast(jnp.ones((2, 5)), CELLS, VISITS) == 0.0


@pytest.mark.whole_runs
def test_contrasts_are_computed_once_and_then_read_from_the_folder(tmp_path, monkeypatch):
    first = compute(tmp_path, smoke=True)
    assert list(first) == list(module.SETTINGS)
    for found in first.values():
        assert found.update.tolist() == [5, 10, 15, 20]
        assert found.values.shape == (2, 4)
        assert np.isfinite(found.values).all()
    monkeypatch.setattr(module, "run", None)
    for label, found in compute(tmp_path, smoke=True).items():
        np.testing.assert_array_equal(found.values, first[label].values)


@pytest.mark.parametrize(("oracle", "memory", "verdict"), [(3.0, 1.5, "holds"), (1.0, 1.0, "does not hold")])
def test_verdicts_follow_the_mean_contrast(oracle, memory, verdict):
    levels = {"GEM": 1.0, MEMORY: memory, "oracle, n = 1": oracle}
    found = {label: Contrast(np.arange(1, 4), np.full((5, 3), level)) for label, level in levels.items()}
    assert [claim.verdict for claim in analyse(found).claims] == [verdict, verdict]
