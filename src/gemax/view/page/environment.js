// The view of the environment: the map and the geometry, linked to each other and to one time slider.
import { checkbox, h, paragraph, segmented } from "./dom.js";
import { percent } from "./words.js";
import { source } from "./source.js";
import { on, pin, runOf, setCell, state, withSnapshots } from "./state.js";
import { LAYERS, cellMap, pathPoints } from "./map.js";
import { embeddingPlot, similarities } from "./embedding.js";
import { currentUpdate, runChooser, snapshotOf, timeline } from "./timeline.js";
import { filmFrame } from "./player.js";

const choices = { layer: "visits", flow: true, dimensions: 2 };

// Says why there is nothing to draw.
export function noSnapshots() {
  const run = state.index?.runs.find((one) => one.status === "training");
  if (!state.index?.runs.length) return paragraph("There are no runs here yet. Start one with `gemax train`; it appears by itself.");
  return paragraph(run
    ? "No snapshot yet. The first one comes with the first update, after compiling."
    : "These runs have no snapshots, from which this view is drawn. `gemax train` writes them; runs with `--no-snapshots`, runs of `gemax reproduce` and those of older versions have none.");
}

export function environmentView() {
  const element = h("div", { class: "view environment" });
  let map = null, plot = null, clock = null, shown = null, readout = null, film = null, leave = [];

  function build() {
    close();
    if (!runOf(state.run)?.snapshots.length) state.run = withSnapshots().at(0)?.id ?? null;
    const run = runOf(state.run), scene = run?.scene;
    if (!scene) { element.replaceChildren(h("h2", { class: "unseen" }, "Environment"), noSnapshots()); return; }
    const hasMap = scene.kind !== "samples";
    map = hasMap ? cellMap(scene, `Map of ${scene.env}`) : null;
    plot = embeddingPlot(scene, map?.places ?? []);
    clock = timeline();
    const problem = h("p", { class: "warning", hidden: true });
    readout = h("p", { class: "readout soft" }, hint());
    film = h("div", { class: "hoverfilm" });
    const layerChoice = h("div", {});
    const dimensions = segmented("Dimensions", "dimensions", [[2, "2-D"], [3, "3-D"]], choices.dimensions, (value) => { choices.dimensions = value; plot.setDimensions(value); });
    element.replaceChildren(...[
      h("h2", { class: "unseen" }, "Environment"),
      h("div", { class: "toolbar" }, runChooser(build), h("p", { class: "soft" }, `${scene.env} · ${run.method}`)),
      problem,
      h("div", { class: "pair" },
        hasMap ? h("section", { class: "card", "aria-label": "Map" }, h("h3", {}, scene.kind === "map" ? "Where it has been" : "Density of the states"), layerChoice, map.element, readout) : null,
        h("section", { class: "card", "aria-label": "Geometry" }, h("h3", {}, "What it looks like to f"),
          dimensions, plot.element),
        hasMap ? null : h("section", { class: "card", "aria-label": "Observation" }, h("h3", {}, "The observation"), film, readout)),
      clock.element].filter(Boolean));
    plot.setDimensions(choices.dimensions);
    leave = [
      on("time", draw),
      on("cell", (cell) => { map?.showCell(cell); plot.showCell(cell); describe(cell); }),
      on("pinned", (cell) => { map?.showPinned(cell); if (choices.layer === "similarity") colour(); else if (cell !== null) choose("similarity"); }),
    ];
    element.fillLayers = () => hasMap && layerChoice.replaceChildren(!layers().length ? "" : h("div", { class: "toolbar" },
      segmented("Colour by", "layer", layers(), choices.layer, choose),
      (scene.kind === "map" ? shown?.policy : shown?.paths) ? checkbox(scene.kind === "map" ? "Policy flow" : "Trajectories", choices.flow, (flow) => { choices.flow = flow; colour(); }) : null));
    Object.assign(element, { problem, dimensions });
    draw();
  }

  // Says what can be pointed at.
  function hint() {
    if (map) return "Point at a cell to see it in the embedding, and the other way round.";
    return shown?.film ? "Point at an observation. Those with a rim are of the filmed episode, and show their frame." : "Point at an observation. Not every snapshot has a film; this one has none.";
  }

  // Layers without data are left out.
  function layers() {
    const has = { visits: shown?.visits, p_k: shown?.p_k, log_g: shown?.log_g, similarity: shown?.components && runOf(state.run).scene.similarity_scale !== null };
    return Object.entries(LAYERS).filter(([name]) => has[name]).map(([name, [text, about]]) => [name, text, about]);
  }

  function offered() { return [...layers().map(([name]) => name), Boolean(shown?.policy), Boolean(shown?.paths)].join(); }

  function choose(layer) {
    choices.layer = layer;
    if (layer === "similarity" && state.pinned === null) pin(shown?.point_cell?.[0] ?? 0);
    element.fillLayers();
    colour();
  }

  async function draw() {
    const run = state.run, update = currentUpdate();
    if (update === null) return;
    const found = await snapshotOf(run, update);
    if (run !== state.run || update !== currentUpdate() || !element.isConnected) return;
    element.problem.hidden = !found.message;
    element.problem.textContent = found.message ? `Update ${update}: ${found.message} Other snapshots can be chosen below.` : "";
    const before = offered();
    shown = found;
    if (offered() !== before || !element.querySelector("[name=layer]")) element.fillLayers();
    element.dimensions.hidden = !found.two?.length;
    if (state.cell === null) readout.textContent = hint();
    plot.setSnapshot(found);
    colour();
    element.dataset.update = update;
  }

  function colour() {
    if (!map || !shown) return;
    const { scene } = runOf(state.run), size = map.places.length;
    const layer = layers().some(([name]) => name === choices.layer) ? choices.layer : "visits";
    if (layer === "similarity") map.setValues(similarities(scene, shown, state.pinned, size), layer);
    else if (layer === "visits") map.setValues(shown.visits ?? new Array(size).fill(null), layer);
    else map.setValues(byCell(shown[layer], size), layer);
    map.showPinned(layer === "similarity" ? state.pinned : null);
    const isMap = scene.kind === "map";
    map.setFlow(isMap && choices.flow ? shown.policy : null, scene.moves);
    if (state.cell !== null) describe(state.cell);
    map.setPaths(!isMap && choices.flow && shown.paths ? shown.paths.length.slice(0, 3).map((_, episode) => pathPoints(scene, map.places, shown.paths, episode)) : []);
  }

  // Returns the mean of the points of each cell.
  function byCell(values, size) {
    const sums = new Array(size).fill(0), counts = new Array(size).fill(0);
    shown.point_cell.forEach((cell, index) => { if (values[index] !== null) { sums[cell] += values[index]; counts[cell] += 1; } });
    return sums.map((sum, cell) => (counts[cell] ? sum / counts[cell] : null));
  }

  function describe(cell) {
    const run = runOf(state.run);
    film.replaceChildren();
    if (cell === null) { readout.textContent = hint(); return; }
    if (!map) {
      const frame = plot.frameOf(cell), hasFrame = frame >= 0 && shown?.film;
      readout.textContent = `Step ${shown?.point_time?.[cell] ?? "–"} of its episode${hasFrame ? "" : ", which was not filmed"}`;
      if (hasFrame) film.replaceChildren(filmFrame(source.filmAddress(run.id, currentUpdate()), shown.film, frame, 320));
      return;
    }
    const visits = shown?.visits?.[cell], policy = shown?.policy?.[cell];
    const best = policy && run.scene.kind === "map" ? policy.indexOf(Math.max(...policy)) : -1;
    const most = best >= 0 && policy[best] > 0 ? ` · most often ${["stays", "goes up", "goes down", "goes left", "goes right"][best] ?? `action ${best}`} (${percent(policy[best], 0)})` : "";
    readout.textContent = map.textOf(cell) + (choices.layer !== "visits" && visits !== undefined ? ` · visits ${percent(visits, 2)}` : "") + most;
  }

  function close() {
    clock?.stop();
    plot?.leave();
    for (const off of leave) off();
    leave = [];
    shown = null;
    setCell(null);
  }

  return {
    element,
    show: build,
    update(changed) {
      if (!map && !plot) build();
      else if (changed.includes(state.run)) {
        if (!runOf(state.run)?.snapshots.length) { build(); return null; }
        clock.refresh();
        return currentUpdate() === Number(element.dataset.update) ? null : draw();
      }
      return null;
    },
    hide() { close(); map = plot = clock = null; },
  };
}
