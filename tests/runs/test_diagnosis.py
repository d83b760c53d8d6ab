import math

import pytest

from gemax.runs.diagnosis import Watchman, diagnose

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
def test_a_geometry_that_has_collapsed_is_told_with_what_may_help(sign, words):
    (name,) = sign
    assert list(diagnose(SOUND | sign)) == [name]
    assert words in diagnose(SOUND | sign)[name]
    early = {"update": 50, "frames": 50 * 1920}
    assert diagnose(SOUND | sign | early) == {}


@pytest.mark.parametrize("nothing", [None, math.nan])
def test_a_sound_geometry_and_numbers_that_are_missing_are_no_news(nothing):
    assert diagnose(SOUND) == {}
    assert diagnose(SOUND | {"similarity_mean": nothing, "embedding_norm": nothing}) == {}
    fixed = {name: value for name, value in SOUND.items() if name != "embedding_norm"}
    assert diagnose(fixed | {"similarity_mean": 0.99}) == {}


def test_a_warning_is_told_when_it_sets_in_and_once_more_after_a_recovery():
    watchman = Watchman()
    similarity = {60: 0.95, 70: 0.95, 80: 0.5, 90: 0.95, 100: 0.5, 150: 0.5, 160: 0.95}
    told = [
        update
        for update, value in similarity.items()
        if watchman.news(SOUND | {"update": update, "frames": update * 1920, "similarity_mean": value})
    ]
    assert told == [60, 160]
