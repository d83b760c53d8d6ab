"""The `Run` handle: everything that can be done with a run from Python."""

import base64
import io
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.runs.children import checkpoints

import gemax
from gemax.runs.checkpoint_format import ARRAYS
from gemax.runs.files import write_image

SMALL = {
    "num_envs": 8, "unroll_length": 6, "unroll_period": 6, "lstm_size": 8, "torso_size": 16, "head_size": 8,
    "embedding_size": 4, "updates_per_call": 2, "updates": 4, "checkpoint_every": 2, "episodic_weight": 0.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return gemax.train("two-rooms", out=tmp_path_factory.mktemp("runs") / "rooms", **SMALL)


def test_the_repr_is_one_short_line(run):
    assert re.fullmatch(
        r"Run\('.*rooms': two-rooms, gem, finished after 4 of 4 updates(, return \S+)?\)", repr(run)
    )


def test_a_notebook_shows_the_curve_and_the_map(run):
    content = run._repr_html_()
    images = [base64.b64decode(text) for text in re.findall(r"base64,([^\"]+)", content)]
    curve, heatmap = (Image.open(io.BytesIO(png)) for png in images)
    assert curve.width > heatmap.width > 100
    assert images[1] == (run.path / "heatmap.png").read_bytes()
    assert "two-rooms, gem, finished" in content


def test_metrics_are_arrays_by_name_with_nan_for_unknown_values(run):
    metrics = run.metrics
    np.testing.assert_array_equal(metrics["update"], [2, 4])
    assert np.isnan(metrics["return"][0])  # no episode has ended yet
    assert set(metrics) >= {"frames", "seconds", "visitation_entropy"}
    with pytest.raises(KeyError, match=r"there is no metric 'retun'. Did you mean return\?"):
        metrics["retun"]


def test_metrics_become_a_data_frame(run):
    frame = run.metrics.to_pandas()
    assert list(frame.index) == [2, 4]
    assert frame["frames"].tolist() == [96, 192]


def test_a_plot_has_the_curve_and_the_map_and_can_be_written(run, tmp_path):
    figure = run.plot(tmp_path / "plot.png")
    curve, heatmap = figure.axes
    assert curve.get_xlabel() == "updates"
    assert len(heatmap.images) == 1
    assert figure._repr_png_() == (tmp_path / "plot.png").read_bytes()


def test_a_missing_run_is_a_sentence(run, tmp_path):
    with pytest.raises(ValueError, match=r"there is no run at .*room\. Did you mean rooms\?"):
        gemax.load(run.path.with_name("room"))
    with pytest.raises(ValueError, match=r"holds no run: .* Choose one of the runs in it: rooms\."):
        gemax.load(run.path.parent)
    with pytest.raises(ValueError, match=r"holds no run: config.json is missing\.$"):
        gemax.load(tmp_path)


def test_a_run_without_a_summary_is_unfinished(run, tmp_path):
    path = Path(shutil.copytree(run.path, tmp_path / "run"))
    (path / "summary.json").unlink()
    assert gemax.load(path).summary == {"status": "unfinished", "updates": 4}
    assert "unfinished after 4 of 4" in repr(gemax.load(path))


def test_functions_take_a_run_or_its_directory(run):
    report = run.evaluate(4)
    assert gemax.evaluate(run, episodes=4) == gemax.evaluate(run.path, episodes=4) == report


def test_a_run_resumed_from_an_earlier_checkpoint_repeats_what_came_after(run, tmp_path, capsys):
    path = Path(shutil.copytree(run.path, tmp_path / "run"))
    before = (checkpoints(path)[-1] / ARRAYS).read_bytes()
    again = gemax.load(path).resume(checkpoint=2, progress=False)
    message = "Deleted the checkpoint of update 4: the run continues from update 2."
    assert message in capsys.readouterr().out.splitlines()
    assert (checkpoints(path)[-1] / ARRAYS).read_bytes() == before
    np.testing.assert_array_equal(again.metrics["update"], [2, 4])


# Films


def film_size(path):
    """Returns the number of images of a GIF, and their size."""
    with Image.open(path) as film:
        return film.n_frames, film.size


def test_a_film_of_a_gridworld_shows_the_visited_cells(run, tmp_path):
    short, long = (
        run.record(tmp_path / f"{episodes}.gif", episodes=episodes, max_episode_steps=None)
        for episodes in (1, 3)
    )
    assert film_size(long)[0] > 2 * film_size(short)[0] > 40

    def num_green(path):
        with Image.open(path) as film:
            film.seek(film.n_frames - 1)
            red, green, blue = np.moveaxis(np.asarray(film.convert("RGB"), int), -1, 0)
        return int(((green > red + 10) & (blue < 210)).sum())

    assert num_green(long) > num_green(short) > 0


def test_films_need_a_known_format(run, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"the film must be a \.gif or \.mp4 file; got .*film\.avi"):
        run.record(tmp_path / "film.avi")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match=r"MP4 films need ffmpeg, .* Install it, or record a \.gif"):
        run.record(tmp_path / "film.mp4")


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
def test_mp4_films_are_written(run, tmp_path):
    assert b"ftyp" in run.record(tmp_path / "film.mp4", episodes=1).read_bytes()[:16]


def test_an_image_is_captioned_at_an_even_size(tmp_path):
    from gemax.runs.film import MAX_WIDTH, add_caption

    frame = add_caption(np.full((301, 2 * MAX_WIDTH + 2, 3), 200, np.uint8), "episode 1")
    assert frame.width == MAX_WIDTH
    assert frame.height % 2 == 0
    write_image(tmp_path / "frame.png", np.asarray(frame))
