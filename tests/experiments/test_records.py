import dataclasses

import numpy as np
import pytest
from tests.experiments.made_up import made_up

from gemax.experiments import records
from gemax.experiments.records import is_record_of, load_record, name_of, save_record
from gemax.training.config import Config
from gemax.training.presets import configure


def test_a_record_is_what_was_kept(tmp_path):
    kept = made_up(solved_at=50, embedding=np.ones((1, 71, 4), np.float32))
    save_record(tmp_path / "run.npz", kept)
    loaded = load_record(tmp_path / "run.npz")
    assert loaded.config == kept.config
    assert loaded.facts == kept.facts
    for name, values in kept.curves.items():
        np.testing.assert_array_equal(loaded.curves[name], values)
    np.testing.assert_array_equal(loaded.embedding, kept.embedding)


def test_a_run_without_embedding_has_none(tmp_path):
    save_record(tmp_path / "run.npz", made_up())
    assert load_record(tmp_path / "run.npz").embedding is None


def test_never_solved_is_infinitely_late():
    assert made_up().solved_at == float("inf")
    assert made_up(solved_at=30).solved_at == 30


@pytest.mark.parametrize("change", [{"seed": 1}, {"intrinsic_scale": 0.3}, {"updates": 7}, {"method": "rnd"}])
def test_every_setting_is_part_of_the_name(change):
    assert name_of(configure("two-rooms", **change)) != name_of(configure("two-rooms"))


def test_a_new_setting_that_is_left_alone_changes_no_name(monkeypatch):
    before = name_of(Config(intrinsic_scale=0.3))

    @dataclasses.dataclass(frozen=True)
    class Newer(Config):
        brand_new: float = 1.0

    monkeypatch.setattr(records, "Config", Newer)
    assert name_of(Newer(intrinsic_scale=0.3)) == before
    assert name_of(Newer(intrinsic_scale=0.3, brand_new=2.0)) != before


def test_a_record_from_when_a_default_was_another_is_not_taken_for_the_run(tmp_path):
    path = tmp_path / "run.npz"
    save_record(path, made_up(intrinsic_scale=0.3))
    assert is_record_of(path, made_up(intrinsic_scale=0.3).config)
    assert not is_record_of(path, made_up(intrinsic_scale=0.4).config)
    assert not is_record_of(tmp_path / "none.npz", made_up().config)
