"""The contrast of a reward is how far it is above its mean where the steps lead farthest from the start."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemax.envs.gridworld import gridworld
from gemax.envs.maps import parse_map
from gemax.experiments import contrast as module
from gemax.experiments import reproduction
from gemax.experiments.contrast import (
    MEMORY,
    ORACLE,
    Contrast,
    analyse,
    compute,
    contrast,
    mean_before_crossing,
    measure,
    measure_seeds,
    steps_from_start,
)
from gemax.experiments.experiment import SMOKE, figure_config
from gemax.experiments.reproduction import Options, reproduce
from gemax.runs.files import write_arrays
from gemax.runs.provenance import provenance
from gemax.training.assemble import assemble
from gemax.training.loop import initial_states

MAP = """S..
##.
G..
"""
"""Seven cells in a row, around a wall."""


@pytest.fixture
def steps_by_cell():
    """The number of steps from the start to each cell of `MAP`, by row and column."""
    finite = gridworld("small", parse_map(MAP), 10).finite
    assert finite is not None
    cells = map(tuple, finite.cell_positions.tolist())
    return dict(zip(cells, steps_from_start(finite).tolist(), strict=True))


def fake_contrast(level, returns=0.0, num_seeds=5):
    shape = (num_seeds, 3)
    return Contrast(np.arange(10, 40, 10), np.full(shape, level), np.full(shape, returns))


@pytest.fixture
def without_training(monkeypatch):
    """Replaces the training by a constant. Returns the configurations that were asked for."""
    asked = []

    def run(config):
        asked.append(config)
        return fake_contrast(1.0, num_seeds=config.run.seeds)

    monkeypatch.setattr(module, "run", run)
    return asked


def set_commit(monkeypatch, commit):
    for where in (module, reproduction):
        monkeypatch.setattr(where, "provenance", lambda: provenance() | {"commit": commit})


def reproduce_contrast(out, **options):
    reproduce(Options(["extension-contrast"], out, **options), lambda progress: None, lambda line: None)
    return json.loads((out / "extension-contrast.json").read_text())


def test_steps_are_counted_on_the_map(steps_by_cell):
    assert steps_by_cell == {(0, 0): 0, (0, 1): 1, (0, 2): 2, (1, 2): 3, (2, 2): 4, (2, 1): 5, (2, 0): 6}


def test_contrast_is_the_standardised_reward_of_the_farthest_steps(steps_by_cell):
    near, far = steps_by_cell[0, 1], steps_by_cell[2, 1]
    steps = jnp.asarray([[near] * 5, [near, near, far, near, near]])
    reward = jnp.where(steps == far, 4.0, 1.0)
    # One step of ten has the reward 4: the mean is 1.3 and the standard deviation 0.9.
    np.testing.assert_allclose(contrast(reward, steps), (4.0 - 1.3) / 0.9, rtol=1e-5)
    np.testing.assert_allclose(contrast(-reward, steps), -(4.0 - 1.3) / 0.9, rtol=1e-5)


def test_steps_that_lead_equally_far_all_count():
    steps = jnp.asarray([[0, 1, 1, 2, 2], [3, 3, 3, 3, 0]])
    reward = jnp.asarray([[0.0] * 5, [0.0, 0.0, 0.0, 4.0, 0.0]])
    np.testing.assert_allclose(contrast(reward, steps), (1.0 - 0.4) / 1.2, rtol=1e-5)


def test_a_constant_reward_has_no_contrast():
    assert contrast(jnp.ones((2, 5)), jnp.arange(10).reshape(2, 5)) == 0.0


def test_every_seed_and_every_call_is_measured_with_its_own_keys():
    # The reward samples negatives, so that it uses its key.
    config = figure_config("two-rooms", "laptop", num_negatives=4)
    trainer = assemble(config.replace(**SMOKE | {"seeds": 2}))
    # Both seeds have the same state, so that only their keys differ.
    state = jax.tree.map(lambda leaf: leaf[0], initial_states(trainer))
    states = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), state)
    with jax.debug_key_reuse(True):
        jax.jit(lambda state, key: measure(trainer, state, key))(state, jax.random.key(0))
    measure_both = jax.jit(lambda states: measure_seeds(trainer, states))
    (first, second), _ = measure_both(states)
    (later, _), returns = measure_both(states._replace(update=states.update + 1))
    assert len({float(first), float(second), float(later)}) == 3
    assert np.isnan(returns).all()


def test_only_the_time_before_a_seeds_own_first_crossing_counts():
    values = np.asarray(
        [[1.0, 2.0, 9.0, 9.0], [1.0, 2.0, 3.0, 9.0], [1.0, 2.0, 3.0, 4.0], [9.0, 9.0, 9.0, 9.0]]
    )
    returns = np.asarray([[np.nan, 0.9, 0.95, 0.1], [np.nan, 0.0, 0.9, 1.0], [0.0] * 4, [1.0, 0.0, 0.0, 0.0]])
    found = Contrast(np.arange(1, 5), values, returns.astype(np.float32))
    np.testing.assert_array_equal(mean_before_crossing(found), [1.5, 2.0, 2.5, np.nan])


@pytest.mark.parametrize(("oracle", "memory", "verdict"), [(3.0, 1.5, "holds"), (1.0, 1.0, "does not hold")])
def test_verdicts_follow_the_mean_contrast(oracle, memory, verdict):
    levels = {"GEM": 1.0, MEMORY: memory, ORACLE: oracle}
    claims = analyse({label: fake_contrast(level) for label, level in levels.items()}).claims
    assert [claim.verdict for claim in claims] == [verdict, verdict]
    assert claims[0].numbers["measured_until"] == {"oracle": [30] * 5, "gem": [30] * 5}


def test_the_json_has_the_provenance_of_the_training(tmp_path, monkeypatch, without_training):
    set_commit(monkeypatch, "0123456789ab")
    first = reproduce_contrast(tmp_path, preset="paper")
    set_commit(monkeypatch, "ba9876543210")
    second = reproduce_contrast(tmp_path, preset="paper")
    assert len(without_training) == 3
    for content, analysed_at in ((first, "0123456789ab"), (second, "ba9876543210")):
        assert content["commit"] == analysed_at
        assert (content["runs"], content["trained_at"]) == (15, {"0123456789ab": 15})
        assert content["preset"] == "laptop"
        assert content["configurations"][ORACLE]["method"] == "oracle"
    assert second["seconds_of_training"] == first["seconds_of_training"]
    text = "15 runs, 0 s of training, trained at 0123456789ab (15). Analysed at commit ba9876543210."
    assert text in (tmp_path / "README.md").read_text()


def test_the_seconds_of_training_are_stored(tmp_path, monkeypatch, without_training):
    times = iter([0.0, 100.0, 200.0, 350.0, 400.0, 450.0])
    with monkeypatch.context() as patch:
        patch.setattr(module.time, "monotonic", lambda: next(times))
        compute(tmp_path, smoke=False)
    assert [row[0].seconds for row in compute(tmp_path, smoke=False).trainings.values()] == [100, 150, 50]


def test_a_file_of_older_code_is_trained_again(tmp_path, monkeypatch, without_training):
    compute(tmp_path, smoke=False)
    for path in tmp_path.glob("contrast-*.npz"):
        with np.load(path) as arrays:
            older = dict(arrays) | {"generation": np.asarray(0)}
        write_arrays(path, older)
    compute(tmp_path, smoke=False)
    assert len(without_training) == 6


def test_a_tree_with_uncommitted_changes_is_refused_unless_allowed(tmp_path, monkeypatch, without_training):
    set_commit(monkeypatch, "0123456789ab-dirty")
    with pytest.raises(ValueError, match=r"uncommitted changes.*--allow-dirty"):
        reproduce_contrast(tmp_path)
    assert without_training == []
    assert list(tmp_path.iterdir()) == []
    assert reproduce_contrast(tmp_path, allow_dirty=True)["trained_at"] == {"0123456789ab-dirty": 15}


@pytest.mark.whole_runs
def test_contrasts_are_computed_once_and_then_read_from_the_folder(tmp_path, monkeypatch):
    first = compute(tmp_path, smoke=True)
    assert list(first.results) == list(module.SETTINGS)
    for found in first.results.values():
        assert found.update.tolist() == [5, 10, 15, 20]
        assert found.values.shape == found.returns.shape == (2, 4)
        assert np.isfinite(found.values).all()
    monkeypatch.setattr(module, "run", None)
    again = compute(tmp_path, smoke=True)
    assert again.trainings == first.trainings
    for label, found in again.results.items():
        np.testing.assert_array_equal(found.values, first.results[label].values)
