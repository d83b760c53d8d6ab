"""The page in a real browser. `make browser` installs it; without it these tests are skipped."""

import json
import os
import subprocess
import sys
import time

import pytest
from tests.view.fake_runs import CELLS, make_run, metrics_line, snapshot_arrays

from gemax.runs.snapshots.files import write_snapshot
from gemax.view.export import write_export

pytestmark = pytest.mark.browser
FOCUSED = """() => {
    const focused = document.activeElement, label = focused.labels?.[0] ?? focused;
    return [focused.getAttribute("aria-label"), focused.name, label.textContent.slice(0, 40)].join(" ");
}"""
"""Describes the element that has the keyboard."""
TINY = [
    "--updates",
    "100000",
    "--updates-per-call",
    "1",
    "--num-envs",
    "8",
    "--torso-size",
    "8",
    "--lstm-size",
    "8",
    "--head-size",
    "8",
]


@pytest.fixture
def folder(tmp_path):
    make_run(tmp_path / "gem-0")
    make_run(tmp_path / "gem-1", seed=1)
    make_run(tmp_path / "rnd-0", method="rnd")
    return tmp_path


def wait_until(page, expression, seconds=240):
    """Waits until an expression is true. Playwright's own function is stopped by the policy of the page."""
    deadline = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(100)


def lines_of(page, metric):
    """Returns the curves of a chart as Plotly holds them."""
    return page.eval_on_selector(
        f"[data-metric={metric}] .plot",
        "plot => plot.data.map(t => ({name: t.name ?? null, x: [...t.x], y: [...t.y]}))",
    )


def wait_for_chart(page, metric):
    page.wait_for_selector(
        f"[data-metric={metric}] .plot .trace path, [data-metric={metric}] .plot .scatterlayer path"
    )


def fills(page):
    return page.eval_on_selector_all(
        "svg.map rect.cell", "cells => cells.map(cell => getComputedStyle(cell).fill)"
    )


def fills_at_rest(page):
    """Returns the colours of the cells when they no longer change."""
    wait_until(page, "document.querySelector('svg.map').getAnimations({subtree: true}).length === 0")
    return fills(page)


def reached_by_tab(page, presses):
    """Returns a description of each element that Tab reaches."""
    reached = []
    for _ in range(presses):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(FOCUSED))
    return "\n".join(reached)


def set_slider(page, selector, value):
    page.eval_on_selector(
        selector,
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input', {bubbles: true})); }",
        value,
    )


def test_curves_grow_without_reload_while_the_file_does(tmp_path, serve_folder, open_page):
    path = make_run(tmp_path / "run", updates=5)
    page = open_page(serve_folder(tmp_path))
    wait_for_chart(page, "coverage")
    assert len(lines_of(page, "coverage")[0]["x"]) == 5
    page.evaluate("window.isSamePage = true")
    with (path / "metrics.jsonl").open("a") as file:
        file.writelines(json.dumps(metrics_line(update)) + "\n" for update in range(6, 31))
    wait_until(page, "document.querySelector('[data-metric=coverage] .plot').data[0].x.length === 30")
    assert page.evaluate("window.isSamePage")


def test_seeds_are_a_band_by_method_and_the_axis_can_be_changed(folder, serve_folder, open_page):
    page = open_page(serve_folder(folder))
    wait_for_chart(page, "recent_return")
    named = {line["name"]: line for line in lines_of(page, "recent_return") if line["name"]}
    assert set(named) == {"gem", "rnd"}
    at_end = [metrics_line(50, seed)["recent_return"] for seed in (0, 1)]
    assert named["gem"]["y"][-1] == pytest.approx(sum(at_end) / 2, rel=1e-3)
    page.get_by_text("frames", exact=True).click()
    wait_until(
        page,
        "Math.max(...document.querySelector('[data-metric=recent_return] .plot').data.at(-1).x) === 5000",
    )
    page.get_by_label("Mean and 95 % interval by method").uncheck()
    wait_until(page, "document.querySelector('[data-metric=recent_return] .plot').data.length === 3")


def test_the_slider_changes_the_heatmap_and_new_snapshots_arrive(folder, serve_folder, open_page):
    page = open_page(serve_folder(folder) + "#environment")
    page.wait_for_selector(".environment[data-update='50']")
    newest = fills_at_rest(page)
    assert len(newest) == len(CELLS)
    set_slider(page, ".timeline input", 0)
    page.wait_for_selector(".environment[data-update='1']")
    first = fills_at_rest(page)
    assert first != newest
    # The visits are in the first cell at the start, and nearly even at the end.
    assert len(set(first)) > 1
    set_slider(page, ".timeline input", 2)
    page.wait_for_selector(".environment[data-update='50']")
    write_snapshot(folder / "gem-0" / "snapshots", 60, snapshot_arrays(60))
    page.wait_for_selector(".environment[data-update='60']")


def test_hovering_links_the_map_and_the_embedding_both_ways(folder, serve_folder, open_page):
    page = open_page(serve_folder(folder) + "#environment")
    page.wait_for_selector("svg.embedding circle.dot")
    page.locator("svg.map rect[data-cell='3']").hover()
    ring, dot = (page.locator(f"svg.embedding {name}") for name in (".ring", "circle.dot >> nth=3"))
    assert ring.get_attribute("visibility") == "visible"
    for axis in ("cx", "cy"):
        assert float(ring.get_attribute(axis)) == pytest.approx(float(dot.get_attribute(axis)), abs=0.1)
    page.locator("svg.embedding circle.dot >> nth=5").hover()
    cursor = page.locator("svg.map .cursor")
    assert cursor.get_attribute("visibility") == "visible"
    row, column = CELLS[5]
    assert (cursor.get_attribute("x"), cursor.get_attribute("y")) == (str(column), str(row))
    assert f"row {row + 1}, column {column + 1}" in page.locator(".readout").inner_text()


def test_the_similarity_of_a_chosen_cell_is_drawn_on_the_map(folder, serve_folder, open_page):
    page = open_page(serve_folder(folder) + "#environment")
    page.wait_for_selector("svg.embedding circle.dot")
    page.locator("svg.map rect[data-cell='0']").click()
    page.wait_for_selector(".mapfigure[data-layer=similarity]")
    page.locator("svg.map rect[data-cell='0']").hover()
    assert "100 %" in page.locator(".readout").inner_text()
    for layer in ("p_k", "ln g", "Visits"):
        page.get_by_text(layer, exact=True).first.click()
        assert page.locator(".mapfigure .caption b").inner_text() == layer


def test_the_embedding_is_drawn_in_three_dimensions(folder, serve_folder, open_page):
    page = open_page(serve_folder(folder) + "#environment")
    page.wait_for_selector("svg.embedding circle.dot")
    page.get_by_text("3-D").click()
    page.wait_for_selector(".space canvas")
    assert page.eval_on_selector(".space", "space => space.data[1].x.length") == len(CELLS)
    page.locator("svg.map rect[data-cell='3']").hover()
    wait_until(page, "document.querySelector('.space').data[2].x.length === 1")


def test_an_episode_is_played_cell_by_cell_beside_the_observation(folder, serve_folder, open_page):
    page = open_page(serve_folder(folder) + "#episodes")
    page.wait_for_selector(".filmframe")
    page.locator("select").nth(1).select_option("1")
    page.get_by_label("Play", exact=True).click()
    page.wait_for_selector(".episodes[data-step='4']")
    row, column = CELLS[6]
    assert (
        page.eval_on_selector(".agent", "agent => agent.style.transform")
        == f"translate({column + 0.5}px, {row + 0.5}px)"
    )
    assert page.locator(".filmframe").get_attribute("data-frame") == "9"
    assert "1" in page.locator(".facts").inner_text()
    page.get_by_label("One step back").click()
    page.wait_for_selector(".episodes[data-step='3']")


def test_a_film_of_an_environment_without_a_map_plays(tmp_path, serve_folder, open_page):
    import numpy as np

    from gemax.runs.snapshots.files import write_scene
    from gemax.runs.snapshots.film import encode_film

    path = make_run(tmp_path / "lamp", env="gym:Lamp-v0", snapshots=())
    scene = {
        "kind": "samples",
        "env": "gym:Lamp-v0",
        "horizon": 5,
        "observation_shape": [2],
        "similarity_scale": 1.0,
    }
    write_scene(path / "snapshots", scene)
    frames = np.stack([np.full((60, 80, 3), 40 * step, np.uint8) for step in range(6)])
    arrays = {
        "path_step": np.arange(6), "path_length": np.array([5]), "path_return": np.arange(6.0)[None],
        "embedding": np.random.default_rng(0).normal(size=(20, 4)), "point_time": np.arange(20),
        "point_frame": np.where(np.arange(20) < 6, np.arange(20), -1), **encode_film(frames, is_lossless=False),
    }  # fmt: skip
    write_snapshot(path / "snapshots", 5, arrays)
    page = open_page(serve_folder(tmp_path) + "#episodes")
    page.wait_for_selector(".filmframe")
    page.get_by_label("Play", exact=True).click()
    page.wait_for_selector(".filmframe[data-frame='5']")
    page.goto(page.url.split("#")[0] + "#environment")
    page.wait_for_selector("svg.embedding circle.dot")
    page.locator("svg.embedding").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".hoverfilm .filmframe[data-frame='0']")


def test_the_exported_file_opens_without_a_server_and_without_any_request(
    folder, tmp_path_factory, open_page
):
    path = tmp_path_factory.mktemp("export") / "page.html"
    write_export(folder, path)
    page = open_page("about:blank", offline=True)
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    wait_for_chart(page, "coverage")
    for view, selector in (("environment", "svg.embedding circle.dot"), ("episodes", ".filmframe")):
        page.evaluate(f"location.hash = '{view}'")
        page.wait_for_selector(selector)
    assert page.eval_on_selector(".filmframe", "frame => frame.style.backgroundImage").startswith(
        'url("data:image/png'
    )
    assert [url for url in requests if not url.startswith(("data:", "blob:"))] == [path.as_uri()]


def test_the_served_page_asks_its_own_server_only(folder, serve_folder, open_page):
    page = open_page("about:blank")
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    address = serve_folder(folder)
    page.goto(address)
    wait_for_chart(page, "coverage")
    assert requests
    assert all(url.startswith((address, "data:", "blob:")) for url in requests)


def test_the_keyboard_alone_reaches_everything(folder, serve_folder, open_page):
    page = open_page(serve_folder(folder))
    wait_for_chart(page, "coverage")
    reached = reached_by_tab(page, 24)
    for wanted in (
        "Skip to the content", "light and dark", "Curves", "Episodes", "All runs of gem", "axis", "How it explores",
        "Last values as a table",
    ):  # fmt: skip
        assert wanted in reached, reached
    page.evaluate("location.hash = 'episodes'")
    page.wait_for_selector(".filmframe")
    reached = reached_by_tab(page, 18)
    for wanted in (
        "Run",
        "Episode",
        "Map of",
        "One step back",
        "Play",
        "Step of the episode",
        "Speed",
        "Time: snapshot",
    ):
        assert wanted in reached, reached
    page.evaluate("location.hash = 'environment'")
    page.wait_for_selector("svg.embedding circle.dot")
    reached = reached_by_tab(page, 18)
    for wanted in (
        "Run", "layer", "Policy flow", "Map of", "dimensions", "Embedding in two", "Play the snap", "Time: snapshot"
    ):  # fmt: skip
        assert wanted in reached, reached
    page.locator("svg.map").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_selector(".mapfigure[data-layer=similarity]")
    wait_until(page, "document.getElementById('announcer').textContent.startsWith('Chosen: row 1')")
    page.locator(".timeline input").focus()
    page.keyboard.press("Home")
    page.wait_for_selector(".environment[data-update='1']")


def test_a_script_in_a_name_is_text_and_nan_is_a_gap(tmp_path, serve_folder, open_page):
    name = "<script>document.title='broken'<|script><img src=x onerror=alert(1)>"
    lines = [
        metrics_line(update) | ({"coverage": float("nan")} if update == 3 else {}) for update in range(1, 6)
    ]
    make_run(tmp_path / name, lines=lines)
    make_run(tmp_path / "other")
    page = open_page(serve_folder(tmp_path))
    wait_for_chart(page, "coverage")
    assert name in page.locator("#runs").inner_text()
    assert page.title() != "broken"
    assert page.locator("#runs script, #runs img").count() == 0
    page.get_by_label("Mean and 95 % interval by method").uncheck()
    wait_until(page, "document.querySelector('[data-metric=coverage] .plot').data.length === 2")
    assert lines_of(page, "coverage")[0]["y"][2] is None
    assert (
        "1 of 55 values are missing or not finite"
        in page.locator("[data-metric=coverage] .note").inner_text()
    )


def test_empty_damaged_and_deleted_runs_are_said_in_words(tmp_path, serve_folder, open_page):
    page = open_page(serve_folder(tmp_path))
    page.wait_for_selector("text=There are no runs here yet")
    path = make_run(tmp_path / "run")
    wait_for_chart(page, "coverage")
    (path / "config.json").write_text("{")
    page.wait_for_selector("text=config.json is damaged")
    os.rename(path, tmp_path.parent / f"{tmp_path.name}-moved")
    page.wait_for_selector("text=There are no runs here yet")


def test_a_server_that_stops_is_said(folder, tmp_path, open_page, serve_folder):
    address = serve_folder(folder)
    page = open_page(address)
    wait_for_chart(page, "coverage")
    page.route("**/api/events", lambda route: route.abort())
    page.reload()
    page.wait_for_selector("text=The server has stopped")
    open_page.problems.clear()  # the browser reports the aborted request


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_view_is_wider_than_the_screen(folder, serve_folder, open_page, width, theme):
    address = serve_folder(folder)
    page = open_page(address, width=width, color_scheme=theme)
    page.wait_for_selector(f"html[data-theme={theme}]")
    for view, drawn in (
        ("curves", "[data-metric=recent_return] .plot .scatterlayer path"),
        ("environment", "svg.embedding circle.dot"),
        ("episodes", ".filmframe"),
    ):
        page.evaluate(f"location.hash = '{view}'")
        page.wait_for_selector(drawn, state="attached")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_snapshot_without_an_embedding_is_shown_and_can_be_pointed_at(tmp_path, serve_folder, open_page):
    path = make_run(tmp_path / "run", snapshots=(1,))
    arrays = snapshot_arrays(20)
    write_snapshot(path / "snapshots", 20, {"visits": arrays["visits"]})
    page = open_page(serve_folder(tmp_path) + "#environment")
    page.wait_for_selector(".environment[data-update='20']")
    page.locator("svg.map rect[data-cell='3']").hover()
    assert "row 2, column 2" in page.locator(".readout").inner_text()
    page.locator("svg.map rect[data-cell='3']").click()
    assert page.get_by_text("This snapshot has no embedding").is_visible()
    assert page.locator("input[name=layer]").count() == 1
    # The episodes are those of the last snapshot before it that has some.
    page.evaluate("location.hash = 'episodes'")
    page.wait_for_selector(".filmframe")
    assert page.get_by_text("Update 1: not every snapshot has an episode").is_visible()


def test_a_training_run_appears_and_its_curve_grows(tmp_path, gemax_view, open_page):
    page = open_page(gemax_view(tmp_path))
    page.wait_for_selector("text=There are no runs here yet")
    command = [sys.executable, "-m", "gemax.cli", "train", "two-rooms", "--out", str(tmp_path / "run"), *TINY]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        page.set_default_timeout(240_000)
        wait_until(page, "document.querySelector('[data-metric=coverage] .plot')?.data?.[0]?.x.length > 2")
        before = len(lines_of(page, "coverage")[0]["x"])
        wait_until(
            page, f"document.querySelector('[data-metric=coverage] .plot').data[0].x.length > {before}"
        )
        assert "training" in page.locator("#status").inner_text()
        page.evaluate("location.hash = 'environment'")
        page.wait_for_selector(".environment[data-update]")
        assert len(fills(page)) == 71
    finally:
        run.terminate()
        run.wait(60)
