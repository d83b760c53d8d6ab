"""Snapshots: what they hold, that they are few and cheap, and that they change nothing about training."""

import io
import json
import time
import zipfile

import gymnasium
import jax
import numpy as np
import pytest

from gemax.runs.run_directory import RunDirectory
from gemax.runs.session import Hooks, resume, start_run
from gemax.runs.snapshots import writer
from gemax.runs.snapshots.files import (
    SnapshotError,
    read_scene,
    read_snapshot,
    snapshot_path,
    snapshot_updates,
    thinned,
    write_snapshot,
)
from gemax.runs.snapshots.film import encode_film
from gemax.runs.snapshots.recording import EpisodeRecorder, Recording
from gemax.runs.snapshots.sampler import compact, episode_sampler
from gemax.runs.snapshots.scene import scene_of
from gemax.runs.snapshots.writer import MAX_SNAPSHOTS, SnapshotWriter
from gemax.training.assemble import CustomParts, assemble
from gemax.training.loop import initial_states
from gemax.training.presets import configure

pytestmark = pytest.mark.whole_runs

TINY = {"num_envs": 8, "torso_size": 8, "lstm_size": 8, "head_size": 8, "embedding_size": 4}


def tiny(env, **settings):
    return configure(env, **TINY, **settings)


@pytest.fixture(scope="module")
def two_rooms():
    trainer = assemble(tiny("two-rooms"))
    return trainer, initial_states(trainer)


@pytest.fixture(scope="module")
def sample(two_rooms):
    trainer, state = two_rooms
    return compact(trainer, jax.jit(episode_sampler(trainer))(state))


def test_the_scene_of_a_map_has_its_walls_cells_and_neighbours(two_rooms):
    trainer, _ = two_rooms
    scene = scene_of(trainer)
    cells = [tuple(cell) for cell in scene["cells"]]
    assert scene["kind"] == "map"
    assert all((scene["rows"][row][column] != "#") for row, column in cells)
    assert len(cells) == sum(character != "#" for row in scene["rows"] for character in row)
    for one, other in scene["neighbours"]:
        assert np.abs(np.subtract(cells[one], cells[other])).sum() == 1


def test_paths_of_a_map_are_single_steps_and_agree_with_the_actions(two_rooms, sample):
    trainer, _ = two_rooms
    positions = trainer.finite.cell_positions[sample["path_cell"]]
    moves = np.asarray(scene_of(trainer)["moves"])
    for episode, length in enumerate(sample["path_length"]):
        for step in range(1, length + 1):
            moved = positions[episode, step] - positions[episode, step - 1]
            wanted = moves[sample["path_action"][episode, step]]
            assert (moved == wanted).all() or (moved == 0).all()


def test_counted_actions_are_those_of_all_sampled_steps(sample):
    counted_paths = np.zeros_like(sample["actions"])
    for episode, length in enumerate(sample["path_length"]):
        for step in range(1, length + 1):
            counted_paths[sample["path_cell"][episode, step - 1], sample["path_action"][episode, step]] += 1
    # The stored paths are some of the counted episodes.
    assert (counted_paths <= sample["actions"]).all()
    assert counted_paths.sum() > 0


def test_the_embedding_and_ln_g_are_those_of_the_cells_observation(two_rooms, sample):
    trainer, state = two_rooms
    assert trainer.reward.embed is not None
    assert trainer.reward.log_g is not None
    finite, rows = trainer.finite, trainer.table.rows
    cell = int(sample["point_cell"][5])
    first_state = int(np.flatnonzero(finite.model.cell == cell)[0])
    row = rows[finite.observation_of_state[first_state]][None]
    np.testing.assert_allclose(
        sample["embedding"][5], trainer.reward.embed(state.reward, row)[0], rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(
        sample["log_g"][5], trainer.reward.log_g(state.reward, row)[0], rtol=1e-4, atol=1e-5
    )


def test_the_film_shows_the_observation_of_every_step(two_rooms, sample):
    from PIL import Image

    trainer, _ = two_rooms
    frames, height, width, columns = sample["film_grid"]
    assert frames == sample["path_cell"].size
    sheet = np.asarray(Image.open(io.BytesIO(sample["film"].tobytes())))
    number = len(sample["path_step"]) + 1  # second step of the second episode
    row, column = divmod(number, int(columns))
    shown = sheet[row * height : (row + 1) * height, column * width : (column + 1) * width]
    cell = sample["path_cell"][1, 1]
    states = np.flatnonzero(trainer.finite.model.cell == cell)
    images = np.asarray(trainer.finite.observation_table)[trainer.finite.observation_of_state[states]]
    assert any((shown == image).all() for image in images)


def test_trajectories_of_a_continuous_environment_lie_in_the_bins_that_were_counted():
    trainer = assemble(tiny("mountain-car"))
    state = initial_states(trainer)
    arrays = compact(trainer, jax.jit(episode_sampler(trainer))(state))
    scene = scene_of(trainer)
    low, high = (np.array([axis[end] for axis in scene["axes"]]) for end in ("low", "high"))
    bins = np.clip((arrays["path_plane"] - low) / (high - low) * scene["bins"], 0, scene["bins"] - 1).astype(
        int
    )
    index = bins[..., 0] * scene["bins"] + bins[..., 1]
    last = np.searchsorted(arrays["path_step"], arrays["path_length"][0], side="right")
    agreement = np.mean(index[0, :last] == arrays["path_cell"][0, :last])
    assert agreement > 0.98  # float32 at the edges of bins


def test_training_is_the_same_with_and_without_snapshots(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "COMPILE_AFTER_SECONDS", 0.0)
    config = tiny("two-rooms", updates=6, updates_per_call=2)
    for name, snapshots in (("with", True), ("without", False)):
        hooks = Hooks(lambda message: None, plots=False, snapshots=snapshots)
        start_run(config, tmp_path / name, hooks=hooks)
    lines = [
        [
            {key: value for key, value in json.loads(line).items() if key != "seconds"}
            for line in text.splitlines()
        ]
        for text in ((tmp_path / name / "metrics.jsonl").read_text() for name in ("with", "without"))
    ]
    assert lines[0] == lines[1]
    assert not (tmp_path / "without" / "snapshots").exists()
    folder = tmp_path / "with" / "snapshots"
    assert snapshot_updates(folder)[-1] == 6
    last = read_snapshot(folder, 6)
    assert {"visits", "actions", "embedding", "log_g", "path_cell", "film"} <= last.keys()
    assert last["visits"].sum() > 0
    assert read_scene(folder)["kind"] == "map"


def test_a_resumed_run_drops_later_snapshots_and_leftovers(tmp_path):
    hooks = Hooks(lambda message: None, plots=False)
    run = start_run(tiny("two-rooms", updates=2, updates_per_call=1), tmp_path / "run", hooks=hooks)
    folder = run.path / "snapshots"
    write_snapshot(folder, 3, {"visits": np.ones(3)})
    (folder / ".update-0000000001.npz.abcdefgh.tmp").touch()
    resume(run.path, {"updates": 4}, hooks=hooks)
    assert read_snapshot(folder, 4)["visits"].shape != (3,)
    assert 3 not in snapshot_updates(folder) or read_snapshot(folder, 3)["visits"].shape != (3,)
    assert not list(folder.glob(".*"))


def test_the_number_of_snapshots_is_bounded_and_they_stay_evenly_spaced(tmp_path, two_rooms, monkeypatch):
    trainer, state = two_rooms
    monkeypatch.setattr(writer, "MAX_SHARE", np.inf)
    snapshots = SnapshotWriter(trainer, {0: RunDirectory(tmp_path)}, 0, print)
    state = jax.tree.map(np.asarray, state._replace(key=0))
    for update in range(1, 1501):
        snapshots.consider(state._replace(update=np.asarray(update)))
        assert len(snapshot_updates(tmp_path / "snapshots")) <= MAX_SNAPSHOTS
    updates = snapshot_updates(tmp_path / "snapshots")
    assert updates[0] == 1
    assert updates[-1] > 1400
    assert len(updates) > MAX_SNAPSHOTS // 3
    gaps = np.diff(updates)
    assert gaps.max() <= 3 * np.median(gaps)


def test_snapshots_take_a_bounded_share_of_the_time(tmp_path, two_rooms, monkeypatch):
    trainer, state = two_rooms
    clock = [0.0]
    monkeypatch.setattr(writer.time, "monotonic", lambda: clock[0])

    def slow_write(folder, update, arrays):
        clock[0] += 1.0

    monkeypatch.setattr(writer, "write_snapshot", slow_write)
    snapshots = SnapshotWriter(trainer, {0: RunDirectory(tmp_path)}, 0, print)
    state = jax.tree.map(np.asarray, state._replace(key=0))
    written = 0
    for update in range(1, 1001):
        before = clock[0]
        snapshots.consider(state._replace(update=np.asarray(update)))
        written += clock[0] > before
        clock[0] += 1.0
    assert 15 <= written <= 1000 * writer.MAX_SHARE + 1


@pytest.mark.parametrize("error", [OSError("the disk is full"), RuntimeError("anything")])
def test_an_error_switches_snapshots_off_with_one_message_and_the_run_goes_on(
    tmp_path, two_rooms, monkeypatch, error
):
    trainer, state = two_rooms
    messages = []

    def fail(*arguments):
        raise error

    monkeypatch.setattr(writer, "write_snapshot", fail)
    snapshots = SnapshotWriter(trainer, {0: RunDirectory(tmp_path)}, 0, messages.append)
    snapshots.consider(state)
    snapshots.consider(state)
    snapshots.finish(state, wait=True)
    snapshots.close()
    assert len(messages) == 1
    assert str(error) in messages[0]
    assert "The run continues" in messages[0]


def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path, two_rooms):
    trainer, state = two_rooms
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    run = tmp_path / "run"
    run.mkdir()
    (run / "snapshots").symlink_to(elsewhere)
    messages = []
    SnapshotWriter(trainer, {0: RunDirectory(run)}, 0, messages.append).consider(state)
    assert "is a link" in messages[0]
    assert not list(elsewhere.iterdir())


def test_damaged_snapshots_are_named_and_hold_no_pickle(tmp_path):
    write_snapshot(tmp_path, 1, {"visits": np.arange(5.0)})
    path = snapshot_path(tmp_path, 1)
    whole = path.read_bytes()
    for damaged in (b"", b"nonsense", whole[: len(whole) // 2], whole[:-40]):
        path.write_bytes(damaged)
        with pytest.raises(SnapshotError, match=r"update-0000000001\.npz"):
            read_snapshot(tmp_path, 1)
    np.savez(path, visits=np.array([{"a": 1}], object))
    with pytest.raises(SnapshotError, match="damaged"):
        read_snapshot(tmp_path, 1)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("visits.npy", bytes(80 * 2**20))
    with pytest.raises(SnapshotError, match="at most"):
        read_snapshot(tmp_path, 1)


def test_a_scene_of_a_newer_version_is_refused_with_advice(tmp_path):
    (tmp_path / "scene.json").write_text('{"format": 99}')
    with pytest.raises(SnapshotError, match="Update gemax"):
        read_scene(tmp_path)
    (tmp_path / "scene.json").write_text("[]")
    with pytest.raises(SnapshotError, match="damaged"):
        read_scene(tmp_path)


def test_thinning_keeps_the_first_and_the_last():
    assert thinned([1, 2, 3, 4, 5]) == [1, 3, 5]
    assert thinned([1, 2, 3, 4]) == [1, 3, 4]


def test_films_are_cut_to_a_bounded_size():
    frames = np.zeros((100, 300, 400, 3), np.uint8)
    film = encode_film(frames, is_lossless=False)
    count, height, width, columns = film["film_grid"]
    assert (height, width) == (300, 400)
    assert 1 <= count < 100
    assert columns * width <= 8_000


class Lamp(gymnasium.Env):
    """Shows how many steps an episode has had, as the brightness of an image."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012 (Gymnasium's name)
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, render_mode=None):
        self.render_mode, self.steps = render_mode, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        observation = np.array([self.steps / 10, action], np.float32)
        return observation, 1.0, False, self.steps == 10, {}

    def render(self):
        return np.full((240, 320, 3), 20 * self.steps, np.uint8)


def test_a_gymnasium_environment_that_renders_is_filmed_and_its_frames_are_points(tmp_path, monkeypatch):
    from PIL import Image

    monkeypatch.setattr(writer, "COMPILE_AFTER_SECONDS", 0.0)
    monkeypatch.setattr(writer, "MAX_SHARE", np.inf)
    config = tiny("gym:custom", updates=30, unroll_length=4, unroll_period=4, horizon=10)
    hooks = Hooks(lambda message: None, plots=False)
    start_run(config, tmp_path / "run", CustomParts(make_env=Lamp), hooks)
    folder = tmp_path / "run" / "snapshots"
    assert read_scene(folder)["kind"] == "samples"
    last = read_snapshot(folder, 30)
    frames, height, width, columns = last["film_grid"]
    assert (frames, height, width) == (11, 120, 160)
    assert last["path_step"].tolist() == list(range(11))
    assert last["path_return"][0].tolist() == list(range(11))
    sheet = np.asarray(Image.open(io.BytesIO(last["film"].tobytes())).convert("L"))
    for frame in range(frames):
        row, column = divmod(frame, columns)
        middle = sheet[row * height + height // 2, column * width + width // 2]
        assert abs(int(middle) - 20 * frame) < 12
    assert last["point_frame"][:11].tolist() == list(range(11))
    assert (last["point_frame"][11:] == -1).all()
    assert len(last["embedding"]) == len(last["point_time"]) == len(last["point_frame"])


def test_an_environment_that_cannot_render_is_not_filmed():
    class Dark(Lamp):
        def __init__(self):
            super().__init__()

    trainer = assemble(tiny("gym:custom", horizon=10), CustomParts(make_env=Dark))
    state, recorder = initial_states(trainer), EpisodeRecorder(trainer)
    assert recorder.record(state) is None  # not compiled yet
    recorder.start(state)
    deadline = time.monotonic() + 60
    while not recorder.is_ready and time.monotonic() < deadline:
        time.sleep(0.05)
    assert recorder.is_ready
    assert recorder.record(state) is None
    assert not recorder.is_ready
    recorder.close()


def test_long_recordings_are_thinned_evenly():
    recording = Recording([], [], [], [])
    for step in range(9):
        recording.append(np.zeros((1, 1, 3), np.uint8), np.zeros(2), step, float(step))
    assert recording.thinned().steps == [0, 2, 4, 6, 8]
