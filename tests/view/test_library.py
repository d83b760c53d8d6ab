import json
import os
import time
import tracemalloc

import numpy as np
import pytest
from tests.view.fake_runs import CELLS, make_run, metrics_line, snapshot_arrays

from gemax.runs.locks import locked
from gemax.runs.snapshots.files import snapshot_path
from gemax.view.library import Library, NotFoundError


def entry(library, run_id):
    return next(run for run in library.index()["runs"] if run["id"] == run_id)


def test_a_run_directory_and_a_folder_of_runs_are_both_shown(tmp_path):
    make_run(tmp_path / "a-gem-0")
    make_run(tmp_path / "b" / "a-rnd-10", method="rnd", seed=10)
    make_run(tmp_path / "b" / "a-rnd-9", method="rnd", seed=9)
    runs = Library(tmp_path).index()["runs"]
    assert [run["id"] for run in runs] == ["a-gem-0", "b/a-rnd-9", "b/a-rnd-10"]
    assert [run["method"] for run in runs] == ["gem", "rnd", "rnd"]
    alone = Library(tmp_path / "a-gem-0").index()["runs"]
    assert [(run["id"], run["name"]) for run in alone] == [(".", "a-gem-0")]


def test_the_seeds_of_a_group_are_shown_instead_of_their_mean(tmp_path):
    make_run(tmp_path / "group", snapshots=())
    for seed in (0, 1):
        make_run(tmp_path / "group" / f"seed-{seed}", seed=seed)
    assert [run["id"] for run in Library(tmp_path).index()["runs"]] == ["group/seed-0", "group/seed-1"]


def test_a_locked_run_is_training_and_a_killed_one_was_interrupted(tmp_path):
    path = make_run(tmp_path / "run")
    library = Library(tmp_path)
    assert entry(library, "run")["status"] == "finished"
    with locked(path / "run.lock"):
        assert entry(library, "run")["status"] == "training"
    (path / "summary.json").unlink()
    assert entry(library, "run")["status"] == "interrupted"


def test_curves_grow_with_the_file_and_ignore_a_line_that_is_being_written(tmp_path):
    path = make_run(tmp_path / "run", updates=3)
    library = Library(tmp_path)
    assert library.curves(["run"], ["coverage"])["run"]["update"] == [1, 2, 3]
    with (path / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(metrics_line(4)) + "\n" + '{"update": 5, "cov')
    curves = library.curves(["run"], ["coverage"])["run"]
    assert curves["update"] == [1, 2, 3, 4]
    np.testing.assert_allclose(curves["coverage"], [update / 300 for update in range(1, 5)], rtol=1e-4)
    assert entry(library, "run")["messages"] == []


def test_curves_of_a_run_that_trains_for_long_keep_the_memory_flat(tmp_path):
    path = make_run(tmp_path / "run", updates=400, snapshots=())
    library, sizes = Library(tmp_path), []
    tracemalloc.start()
    try:
        for update in range(401, 441):
            with (path / "metrics.jsonl").open("a") as file:
                file.write(json.dumps(metrics_line(update)) + "\n")
            assert library.curves(["run"], ["coverage"])["run"]["update"][-1] == update
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert sizes[-1] < sizes[5] + 20_000


def test_curves_and_warnings_of_a_long_file_take_as_little_memory_as_those_of_a_short_one(tmp_path):
    extra = {f"metric_{index}": index / 7 for index in range(30)}
    lines = [metrics_line(update) | extra for update in range(1, 2001)]
    peaks = {}
    for num_lines in (20, 2000):
        make_run(tmp_path / f"{num_lines}" / "run", lines=lines[:num_lines], snapshots=())
        library = Library(tmp_path / f"{num_lines}")
        tracemalloc.start()
        try:
            library.index(), library.curves(["run"], ["coverage"]), library.warnings("run")
            peaks[num_lines] = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peaks[2000] < peaks[20] + 400_000


def test_large_files_are_thinned_without_being_read_as_a_whole(tmp_path):
    lines = [metrics_line(update) for update in range(1, 20_001)]
    make_run(tmp_path / "run", lines=lines, updates=20_000)
    before = time.perf_counter()
    curves = Library(tmp_path).curves(["run"], ["coverage"])["run"]
    assert time.perf_counter() - before < 2.0
    updates = curves["update"]
    assert 300 <= len(updates) <= 400
    assert (updates[0], updates[-1]) == (1, 20_000)
    assert np.diff(updates).min() > 0
    assert np.diff(updates).max() < 2.5 * np.median(np.diff(updates))
    for update, coverage in zip(updates, curves["coverage"], strict=True):
        assert coverage == pytest.approx(min(update / 300, 1.0), rel=1e-4)


@pytest.mark.fault(38)
def test_values_that_are_not_finite_become_gaps(tmp_path):
    path = make_run(tmp_path / "run", updates=3)
    with (path / "metrics.jsonl").open("a") as file:
        file.write(
            '{"update": 4, "coverage": NaN}\n{"update": 5, "coverage": Infinity}\n{"update": 6, "coverage": "x"}\n'
        )
    assert Library(tmp_path).curves(["run"], ["coverage"])["run"]["coverage"][3:] == [None, None, None]


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b"\xff\xfe", b'{"env": 3, "run": []}', b'{"new": {"a": 1}}']
)
def test_a_damaged_or_newer_configuration_still_shows_the_curves(tmp_path, damage):
    path = make_run(tmp_path / "run")
    (path / "config.json").write_bytes(damage)
    library = Library(tmp_path)
    assert library.curves(["run"], ["coverage"])["run"]["coverage"]
    found = entry(library, "run")
    assert found["method"] == "unknown method"
    if damage in (b"", b"{", b"[]", b"\xff\xfe"):
        assert "config.json is damaged" in found["messages"][0]


def test_damaged_metrics_are_left_out_and_said(tmp_path):
    path = make_run(tmp_path / "run", updates=3)
    text = (path / "metrics.jsonl").read_text().splitlines()
    (path / "metrics.jsonl").write_text("\n".join([text[0], "broken", text[2], ""]))
    library = Library(tmp_path)
    assert library.curves(["run"], [])["run"]["update"] == [1, 3]
    assert "damaged lines" in entry(library, "run")["messages"][0]


def test_a_run_deleted_while_the_page_is_open_is_gone_and_nothing_fails(tmp_path):
    path = make_run(tmp_path / "run")
    library = Library(tmp_path)
    library.index()
    for file in sorted(path.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    path.rmdir()
    assert library.index()["runs"] == []
    assert library.curves(["run"], ["coverage"])["run"]["coverage"] == []
    with pytest.raises(NotFoundError, match="deleted"):
        library.snapshot("run", 1)


def test_a_deleted_folder_is_said(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    library = Library(folder)
    folder.rmdir()
    assert library.index()["messages"] == ["The folder has been deleted."]


def test_a_snapshot_holds_shares_components_and_expected_similarity(tmp_path):
    make_run(tmp_path / "run")
    found = Library(tmp_path).snapshot("run", 20)
    assert sum(found["visits"]) == pytest.approx(1, abs=1e-3)
    assert found["policy"][0] == [0, 0, 0, 0, 1]
    arrays = snapshot_arrays(20)
    points, p = arrays["embedding"], arrays["visits"] / arrays["visits"].sum()
    expected = [
        sum(p[j] * np.exp(-np.linalg.norm(points[i] - points[j])) for j in range(len(p)))
        for i in range(len(p))
    ]
    np.testing.assert_allclose(found["p_k"], expected, rtol=2e-3, atol=1e-6)
    # The embedding is the map itself here, so its components are drawn like the map: x to the right, y down.
    drawn, cells = np.asarray(found["two"]), np.asarray(CELLS, float)[:, ::-1]
    np.testing.assert_allclose(drawn, 20 * (cells - cells.mean(axis=0)), atol=0.05)


def test_similarities_of_the_page_are_those_of_the_embedding(tmp_path):
    import base64

    make_run(tmp_path / "run")
    found = Library(tmp_path).snapshot("run", 20)
    points = np.frombuffer(base64.b64decode(found["components"]), "<f4").reshape(-1, found["num_components"])
    original = snapshot_arrays(20)["embedding"]
    for i in range(len(points)):
        distances = np.linalg.norm(points - points[i], axis=1)
        np.testing.assert_allclose(
            distances, np.linalg.norm(original - original[i], axis=1), rtol=1e-3, atol=1e-4
        )


def test_a_damaged_snapshot_is_said_and_the_others_are_shown(tmp_path):
    path = make_run(tmp_path / "run")
    snapshot_path(path / "snapshots", 20).write_bytes(b"broken")
    library = Library(tmp_path)
    assert "damaged" in library.snapshot("run", 20)["message"]
    assert library.snapshot("run", 50)["visits"]
    assert "deleted" in library.snapshot("run", 7)["message"]
    np.savez(
        snapshot_path(path / "snapshots", 50), visits=np.ones(3), embedding=np.ones((2, 2)), log_g=np.ones(1)
    )
    assert "do not fit" in library.snapshot("run", 50)["message"]


def test_snapshots_of_a_newer_version_are_said_in_the_index(tmp_path):
    path = make_run(tmp_path / "run")
    (path / "snapshots" / "scene.json").write_text('{"format": 99}')
    found = entry(Library(tmp_path), "run")
    assert found["snapshots"] == []
    assert "Update gemax" in found["messages"][0]


@pytest.mark.parametrize(
    "run_id", ["..", "../outside", "/etc", "run/../../outside", "", "run/checkpoints", "\0"]
)
@pytest.mark.fault(36)
def test_paths_that_are_not_runs_of_the_folder_are_refused(tmp_path, run_id):
    make_run(tmp_path / "outside")
    make_run(tmp_path / "inside" / "run")
    library = Library(tmp_path / "inside")
    with pytest.raises(NotFoundError):
        library.snapshot(run_id, 1)
    assert library.curves([run_id], ["coverage"])[run_id]["coverage"] == []


@pytest.mark.fault(36)
def test_links_out_of_the_folder_are_refused(tmp_path):
    secret = make_run(tmp_path / "outside")
    inside = tmp_path / "inside"
    run = make_run(inside / "run")
    (inside / "linked").symlink_to(secret)
    library = Library(inside)
    assert [found["id"] for found in library.index()["runs"]] == ["run"]
    for name in ("config.json", "metrics.jsonl"):
        (run / name).unlink()
        (run / name).symlink_to(secret / name)
    found = entry(library, "run")
    assert any("config.json is a link out of the folder" in message for message in found["messages"])
    assert library.curves(["run"], ["coverage"])["run"]["coverage"] == []
    snapshot = snapshot_path(run / "snapshots", 20)
    snapshot.unlink()
    snapshot.symlink_to(snapshot_path(secret / "snapshots", 20))
    assert "link" in library.snapshot("run", 20)["message"]


def test_links_inside_the_folder_and_to_the_folder_itself_are_followed(tmp_path):
    make_run(tmp_path / "inside" / "run")
    (tmp_path / "inside" / "again").symlink_to(tmp_path / "inside" / "run")
    (tmp_path / "entry").symlink_to(tmp_path / "inside")
    runs = Library(tmp_path / "entry").index()["runs"]
    assert [run["id"] for run in runs] == ["again", "run"]


def test_loops_of_links_end(tmp_path):
    make_run(tmp_path / "run")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert "run" in [run["id"] for run in Library(tmp_path).index()["runs"]]


def test_warnings_are_those_of_the_training_monitors(tmp_path):
    lines = [
        metrics_line(update) | {"embedding_norm": 1.0 if update < 80 else 2e3} for update in range(1, 101)
    ]
    make_run(tmp_path / "run", lines=lines)
    warnings = Library(tmp_path).warnings("run")
    assert len(warnings) == 1
    assert warnings[0].startswith("Update 80: embedding_norm is 2e+03")


def test_unreadable_files_are_said(tmp_path):
    path = make_run(tmp_path / "run")
    (path / "metrics.jsonl").unlink()
    (path / "metrics.jsonl").mkdir()
    assert "metrics.jsonl cannot be read: Is a directory" in entry(Library(tmp_path), "run")["messages"][0]
    assert os.listdir(path / "metrics.jsonl") == []


def test_the_report_lists_claims_and_plots_of_its_folder_only(tmp_path):
    claim = {
        "figure": "fig1", "claim": "it <b>works</b>", "verdict": "holds", "measure": "m", "value": 1.5,
        "interval": [1.0, 2.0], "bar": "≥ 1", "seed_count": "",
    }  # fmt: skip
    (tmp_path / "claims.json").write_text(json.dumps([claim, claim | {"figure": "../secret"}, "nonsense"]))
    figure = {
        "figure": "fig1",
        "title": "t",
        "claim": "c",
        "command": "gemax",
        "plots": ["fig1.png", "../x.png", 3],
    }
    (tmp_path / "fig1.json").write_text(json.dumps(figure))
    (tmp_path / "fig1.png").write_bytes(b"\x89PNG\r\n")
    library = Library(tmp_path)
    report = library.report()
    assert [claim["figure"] for claim in report["claims"]] == ["fig1", "../secret"]
    assert [figure["plots"] for figure in report["figures"]] == [["fig1.png"]]
    assert library.plot("fig1.png").startswith(b"\x89PNG")
    for name in ("../x.png", "fig1.json", "", "/etc/passwd"):
        with pytest.raises(NotFoundError):
            library.plot(name)
    (tmp_path / "claims.json").write_text("{")
    assert "damaged" in library.report()["messages"][0]
