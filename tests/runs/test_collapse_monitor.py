import math

import pytest

from gemax.runs.collapse_monitor import CollapseMonitor, collapse_warnings

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
