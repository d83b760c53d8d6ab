import dataclasses

import numpy as np
import pytest
from tests.experiments.fake import fake_record

from gemax.experiments import records
from gemax.experiments.records import is_record_of, load_record, run_name, save_record
from gemax.training.config import Config, RunConfig
from gemax.training.presets import configure


def test_a_record_is_read_as_it_was_written(tmp_path):
    written = fake_record(solved_at=50, embedding=np.ones((1, 71, 4), np.float32))
    save_record(tmp_path / "run.npz", written)
    loaded = load_record(tmp_path / "run.npz")
    assert loaded.config == written.config
    assert loaded.summary == written.summary
    for name, values in written.curves.items():
        np.testing.assert_array_equal(loaded.curves[name], values)
    np.testing.assert_array_equal(loaded.embedding, written.embedding)


def test_a_record_without_an_embedding_is_read_without_one(tmp_path):
    save_record(tmp_path / "run.npz", fake_record())
    assert load_record(tmp_path / "run.npz").embedding is None


def test_a_run_that_is_not_solved_has_infinite_solving_time():
    assert fake_record().solved_at == float("inf")
    assert fake_record(solved_at=30).solved_at == 30


@pytest.mark.parametrize("change", [{"seed": 1}, {"intrinsic_scale": 0.3}, {"updates": 7}, {"method": "rnd"}])
def test_every_changed_setting_changes_the_name(change):
    assert run_name(configure("two-rooms", **change)) != run_name(configure("two-rooms"))


def test_a_new_setting_with_its_default_value_does_not_change_the_name(monkeypatch):
    before = run_name(Config().replace(intrinsic_scale=0.3))

    @dataclasses.dataclass(frozen=True)
    class NewerRunConfig(RunConfig):
        new_setting: float = 1.0

    def newer(**run):
        config = Config().replace(intrinsic_scale=0.3)
        return dataclasses.replace(config, run=NewerRunConfig(**run))

    monkeypatch.setattr(records, "Config", lambda: Config(run=NewerRunConfig()))
    assert run_name(newer()) == before
    assert run_name(newer(new_setting=2.0)) != before


def test_a_record_with_other_settings_is_not_taken_for_the_run(tmp_path):
    path = tmp_path / "run.npz"
    save_record(path, fake_record(intrinsic_scale=0.3))
    assert is_record_of(path, fake_record(intrinsic_scale=0.3).config)
    assert not is_record_of(path, fake_record(intrinsic_scale=0.4).config)
    assert not is_record_of(tmp_path / "none.npz", fake_record().config)
