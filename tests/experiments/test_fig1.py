import numpy as np
import pytest

from gemax.experiments import fig1
from gemax.experiments.fig1 import (
    SETTINGS,
    Hyperparameters,
    Outcome,
    Setting,
    analyse,
    compute,
    decide_setting,
    density,
    run,
    sample_states,
    support,
    total_variation,
    true_probability,
)

DISCRETE, CONTINUOUS = Setting(True, False), Setting(False, False)


def test_hyperparameters_are_those_of_the_paper():
    """The table is `tab:gaussianhyper`."""
    hyper = Hyperparameters()
    assert (hyper.batch_size, hyper.num_negatives, hyper.num_buckets, hyper.training_steps) == (
        256,
        8,
        30,
        1000,
    )
    assert (hyper.hidden_size, hyper.embedding_size, hyper.embedding_penalty) == (128, 64, 1e-6)
    assert (hyper.learning_rate, hyper.adam_beta1, hyper.adam_beta2) == (1e-3, 0.0, 0.95)
    assert (hyper.fixed_similarity_scale, hyper.learned_similarity_scale) == (2.0, 1.0)


@pytest.mark.parametrize("setting", [DISCRETE, CONTINUOUS])
def test_states_are_sampled_from_the_true_distribution(setting, key):
    batch = sample_states(setting, key, 200_000)
    states = np.asarray(batch.distinct[batch.row])
    edges = np.linspace(0, 30, 11)
    sampled = np.histogram(states, edges)[0] / len(states)
    weights = np.asarray(true_probability(setting))
    truth = np.histogram(np.asarray(support(setting)), edges, weights=weights)[0]
    np.testing.assert_allclose(sampled, truth, atol=5e-3)


def test_modes_of_the_distribution_have_weights_of_three_and_seven_tenths():
    points = support(CONTINUOUS)
    probability = np.asarray(true_probability(CONTINUOUS))
    np.testing.assert_allclose(probability[:150].sum(), 0.3, atol=1e-3)
    heights = np.asarray(density(points))
    np.testing.assert_allclose(
        np.asarray(points)[[heights[:150].argmax(), 150 + heights[150:].argmax()]], [7.5, 22.5], atol=0.1
    )


def test_total_variation_of_disjoint_distributions_is_one():
    np.testing.assert_allclose(total_variation(np.asarray([1.0, 0.0]), np.asarray([0.0, 1.0])), 1.0)


def test_verdicts_follow_the_numbers():
    truth, uniform = np.asarray([0.9, 0.1]), np.asarray([0.5, 0.5])
    for setting in SETTINGS:
        flattens = setting == Setting(False, True)
        for learned, expected in ((truth, not flattens), (uniform, flattens)):
            outcome = Outcome(setting, np.arange(2.0), np.stack([learned, learned]), truth, truth)
            claim = decide_setting(outcome)
            assert claim.holds is expected
            assert claim.verdict == ("holds" if expected else "does not hold")


def test_outcomes_are_computed_once_and_then_read_from_the_folder(tmp_path, monkeypatch):
    first = compute(tmp_path, smoke=True)
    monkeypatch.setattr(fig1, "run", None)
    for one, other in zip(first, compute(tmp_path, smoke=True), strict=True):
        np.testing.assert_array_equal(one.learned, other.learned)
    assert len(analyse(first).claims) == 4


def test_g_learns_a_discrete_distribution_from_samples():
    """Trains one seed of the easiest setting for a third of the updates."""
    outcome = run(DISCRETE, 1, Hyperparameters(training_steps=350))
    assert total_variation(outcome.learned[0], outcome.truth) < 0.1


@pytest.mark.slow
def test_claims_of_the_figure_hold(tmp_path):
    claims = analyse(compute(tmp_path, smoke=False)).claims
    assert all(claim.holds for claim in claims), claims
