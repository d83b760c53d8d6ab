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
    assert (fake_record().first_crossing, fake_record().solved_at) == (np.inf, np.inf)
    solved = fake_record(solved_at=30)
    assert (solved.first_crossing, solved.solved_at) == (30, 30)


def test_a_run_that_loses_the_return_again_has_a_first_crossing_but_is_not_solved():
    lost = fake_record(solved_at=30, lost_at=80)
    assert (lost.first_crossing, lost.solved_at) == (30, np.inf)


def test_a_run_is_solved_from_its_last_crossing_on():
    record = fake_record(solved_at=30)
    record.curves["return"][49] = 0.5
    assert (record.first_crossing, record.solved_at) == (30, 51)


def test_a_mean_return_of_95_hundredths_in_float32_solves_a_gridworld():
    assert fake_record(solved_at=30, final_return=0.949999988).solved_at == 30
    assert fake_record(solved_at=30, final_return=0.9499).solved_at == np.inf


def test_a_run_is_not_solved_before_a_thousand_episodes():
    record = fake_record(solved_at=30)
    record.curves["episodes"][:60] = 999
    assert (record.first_crossing, record.solved_at) == (61, 61)


def test_records_without_the_number_of_episodes_are_read(tmp_path):
    path, record = tmp_path / "run.npz", fake_record(solved_at=30)
    del record.curves["episodes"]
    save_record(path, record)
    assert load_record(path).solved_at == 30


def test_a_record_of_an_older_generation_is_read_but_is_not_taken_for_the_run(tmp_path):
    path, record = tmp_path / "run.npz", fake_record()
    save_record(path, record._replace(generation=records.GENERATION - 1))
    assert load_record(path).generation == records.GENERATION - 1
    assert not is_record_of(path, record.config)
    save_record(path, record)
    assert is_record_of(path, record.config)


def test_records_without_a_generation_are_of_the_first(tmp_path):
    path, record = tmp_path / "run.npz", fake_record()
    save_record(path, record)
    with np.load(path) as arrays:
        np.savez(path, **{name: values for name, values in arrays.items() if name != "generation"})
    assert load_record(path).generation == 0
    assert not is_record_of(path, record.config)


def test_a_record_has_the_commits_that_it_was_trained_at():
    record = fake_record()
    assert record.commits == ["unknown"]
    assert record._replace(summary={"commit": "b"}).commits == ["b"]
    assert record._replace(summary={"commit": "b", "commits": ["a", "b"]}).commits == ["a", "b"]


def test_half_of_the_return_is_reached_before_the_environment_is_solved():
    record = fake_record(solved_at=50)
    record.curves["return"][29:49] = 0.5
    assert (record.half_crossing, record.solved_at) == (30, 50)
    assert fake_record("mountain-car", solved_at=20, final_return=-500.0).half_crossing == 1


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
