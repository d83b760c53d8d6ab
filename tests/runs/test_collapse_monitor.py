import math
from pathlib import Path

import numpy as np
import pytest

from gemax.runs.collapse_monitor import CollapseMonitor, ReturnMonitor, collapse_warnings

SOUND = {
    "update": 60,
    "frames": 60 * 1920,
    "similarity_mean": 0.05,
    "effective_states": 60.0,
    "embedding_norm": 5.0,
}


@pytest.mark.parametrize(
    ("sign", "words"),
    [
        (
            {"similarity_mean": 0.95},
            "everything looks the same to f: raise huber_offset or lower adjacency_scale",
        ),
        (
            {"effective_states": 1e9},
            "everything looks distinct to f: lower similarity_scale or raise adjacency",
        ),
        ({"embedding_norm": 1.5e3}, "f grows without limit"),
    ],
)
def test_a_collapsed_geometry_gives_a_warning_with_advice(sign, words):
    (name,) = sign
    assert list(collapse_warnings(SOUND | sign)) == [name]
    assert words in collapse_warnings(SOUND | sign)[name]
    early = {"update": 50, "frames": 50 * 1920}
    assert collapse_warnings(SOUND | sign | early) == {}


@pytest.mark.parametrize("nothing", [None, math.nan])
def test_a_sound_geometry_and_missing_metrics_give_no_warning(nothing):
    assert collapse_warnings(SOUND) == {}
    assert collapse_warnings(SOUND | {"similarity_mean": nothing, "embedding_norm": nothing}) == {}
    fixed = {name: value for name, value in SOUND.items() if name != "embedding_norm"}
    assert collapse_warnings(fixed | {"similarity_mean": 0.99}) == {}


def test_a_warning_is_reported_once_and_again_after_a_recovery():
    monitor = CollapseMonitor()
    similarity = {60: 0.95, 70: 0.95, 80: 0.5, 90: 0.95, 100: 0.5, 150: 0.5, 160: 0.95}
    warned = [
        update
        for update, value in similarity.items()
        if monitor.new_warnings(SOUND | {"update": update, "frames": update * 1920, "similarity_mean": value})
    ]
    assert warned == [60, 160]


# The return


def lines_of(returns, per_update=10):
    """Returns the metrics of updates in each of which some episodes end."""
    for update in range(1, len(returns) // per_update + 1):
        recent = returns[: update * per_update][-100:]
        yield {
            "update": update,
            "episodes": float(update * per_update),
            "recent_return": float(np.mean(recent)),
            "recent_return_std": float(np.std(recent)),
        }


def warnings_in(returns):
    monitor = ReturnMonitor(Path("runs/a"))
    return [(line["update"], warning) for line in lines_of(returns) for warning in monitor.new_warnings(line)]


def episodes(rng, *phases):
    """Returns of episodes: in each phase, a number of them succeeds with a probability."""
    return np.concatenate([rng.random(number) < success for success, number in phases]).astype(float)


@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), (300.0, -500.0), (1e-3, 7.0)])
def test_a_return_that_falls_far_below_its_peak_gives_one_warning(scale, offset):
    rng = np.random.default_rng(0)
    returns = offset + scale * episodes(rng, (0.02, 1000), (0.9, 1000), (0.1, 3000))
    ((update, warning),) = warnings_in(returns)
    assert 200 < update < 225
    assert "--checkpoint best" in warning


def test_the_warning_gives_the_numbers_and_what_helps():
    returns = np.repeat([0.0, 0.91, 0.12], 500)
    ((_, warning),) = warnings_in(returns)
    assert "fell from 0.91 (update 60) to 0.12" in warning
    assert "`gemax evaluate runs/a --checkpoint best`" in warning
    assert "A lower learning_rate usually helps" in warning
    assert "`--from runs/a --from-checkpoint best`" in warning


def test_a_second_fall_gives_a_second_warning():
    rng = np.random.default_rng(1)
    returns = episodes(rng, (0.0, 500), (0.9, 500), (0.1, 1000), (0.9, 1000), (0.0, 1000))
    first, second = [update for update, _ in warnings_in(returns)]
    assert 100 < first < 130
    assert 300 < second < 330


def test_a_short_dip_gives_no_warning():
    rng = np.random.default_rng(2)
    assert warnings_in(episodes(rng, (0.0, 500), (0.9, 500), (0.0, 70), (0.9, 1000))) == []


@pytest.mark.parametrize("success", [0.01, 0.1, 0.5, 0.9])
def test_noise_gives_no_warning(success):
    rng = np.random.default_rng(3)
    for _ in range(10):
        assert warnings_in(episodes(rng, (success, 5000))) == []
    assert warnings_in(rng.normal(-50.0, 30.0, 20_000)) == []


def test_a_return_that_only_rises_or_only_falls_gives_no_warning():
    rng = np.random.default_rng(4)
    slope = np.linspace(0.0, 1.0, 5000)
    assert warnings_in((rng.random(5000) < slope).astype(float)) == []
    # Exploration may cost reward from the start. There is no peak to go back to.
    assert warnings_in((rng.random(5000) < 0.5 - slope / 2).astype(float)) == []


def test_metrics_without_returns_give_no_warning():
    monitor = ReturnMonitor(Path("runs/a"))
    for missing in ({}, {"recent_return": None, "recent_return_std": None}):
        assert monitor.new_warnings({"update": 5, "episodes": 0.0} | missing) == []
