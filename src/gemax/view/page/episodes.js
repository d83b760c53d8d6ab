// The view of episodes: playback step by step, beside what the agent sees.
import { h } from "./dom.js";
import { count, short } from "./words.js";
import { source } from "./source.js";
import { on, runOf, state, withSnapshots } from "./state.js";
import { cellMap, pathPoints } from "./map.js";
import { currentUpdate, runChooser, snapshotOf, timeline } from "./timeline.js";
import { filmFrame, player } from "./player.js";
import { noSnapshots } from "./environment.js";

const ACTIONS = ["stay", "up", "down", "left", "right"];
const MAX_BACK = 3;

export function episodesView() {
  const element = h("div", { class: "view episodes" });
  let map = null, clock = null, steps = null, shown = null, shownUpdate = null, frame = null, episode = 0, leave = [], parts = {};

  function build() {
    close();
    if (!runOf(state.run)?.snapshots.length) state.run = withSnapshots().at(0)?.id ?? null;
    const run = runOf(state.run), scene = run?.scene;
    if (!scene) { element.replaceChildren(h("h2", { class: "unseen" }, "Episodes"), noSnapshots()); return; }
    map = scene.kind === "samples" ? null : cellMap(scene, `Map of ${scene.env} with the path of an episode`);
    map?.setValues(map.places.map(() => null), "visits");
    clock = timeline();
    steps = player(showStep, "Step of the episode");
    parts = { chooser: h("div", { class: "toolbar" }), facts: h("dl", { class: "facts" }), seen: h("div", { class: "seen" }), problem: h("p", { class: "warning", hidden: true }), note: h("p", { class: "soft" }), player: h("div", { class: "card" }, steps.element) };
    element.replaceChildren(...[
      h("h2", { class: "unseen" }, "Episodes"),
      h("div", { class: "toolbar" }, runChooser(build), parts.chooser),
      parts.problem,
      h("div", { class: map ? "pair wide" : "single" },
        map ? h("section", { class: "card bare", "aria-label": "Path" }, h("h3", {}, "The episode"), map.element) : null,
        h("section", { class: "card", "aria-label": "Observation" }, h("h3", {}, map ? "What the agent sees" : "A recorded episode"), parts.note, parts.seen, parts.facts)),
      parts.player, clock.element].filter(Boolean));
    leave = [on("time", draw)];
    draw();
  }

  async function draw() {
    const run = state.run, update = currentUpdate();
    if (update === null) return;
    const [found, foundUpdate] = await withEpisodes(run, update);
    if (run !== state.run || update !== currentUpdate() || !element.isConnected) return;
    shown = found;
    shownUpdate = foundUpdate;
    const paths = found.paths, number = paths?.length.length ?? 0;
    parts.problem.hidden = Boolean(number);
    parts.problem.textContent = number ? "" : found.message ?? "This snapshot has no episodes. They are recorded from a few seconds after the start of a run on.";
    parts.note.textContent = number && foundUpdate !== update ? `Update ${count(foundUpdate)}: not every snapshot has an episode, and this is the last one before.` : "";
    parts.player.hidden = !number;
    episode = Math.min(episode, Math.max(number - 1, 0));
    parts.chooser.replaceChildren(number > 1 ? h("label", { class: "choose" }, h("span", {}, "Episode"),
      h("select", { onchange: (event) => { episode = Number(event.target.value); chooseEpisode(); } },
        paths.length.map((length, index) => h("option", { value: index, selected: index === episode }, `${index + 1}: ${count(length)} steps`)))) : "");
    chooseEpisode();
  }

  // Returns the snapshot of an update, or the last one before it that has episodes, and its update.
  async function withEpisodes(run, update) {
    const first = await snapshotOf(run, update), earlier = (runOf(run)?.snapshots ?? []).filter((other) => other < update);
    if (first.paths) return [first, update];
    for (const other of earlier.slice(-MAX_BACK).reverse()) {
      const found = await snapshotOf(run, other);
      if (found.paths) return [found, other];
    }
    return [first, update];
  }

  function chooseEpisode() {
    const paths = shown.paths;
    frame = null;
    parts.seen.replaceChildren();
    map?.setAgent(null);
    map?.setPaths([]);
    if (!paths) { parts.facts.replaceChildren(); steps.setLength(1); return; }
    if (shown.film) {
      frame = filmFrame(source.filmAddress(state.run, shownUpdate), shown.film, 0, map ? 260 : 420);
      parts.seen.append(frame);
    }
    steps.setLength(numSteps(paths));
  }

  function numSteps(paths) {
    const beyond = paths.step.findIndex((step) => step > paths.length[episode]);
    return beyond < 0 ? paths.step.length : beyond;
  }

  function showStep(place) {
    const paths = shown?.paths;
    if (!paths) return;
    if (map) {
      const points = pathPoints(runOf(state.run).scene, map.places, paths, episode);
      map.setPaths([points.slice(0, place + 1)]);
      map.setAgent(points[place]);
    }
    const index = episode * paths.step.length + place;
    if (frame) {
      frame.hidden = index >= shown.film.frames;
      if (!frame.hidden) frame.setFrame(index);
    }
    if (paths.vector) parts.seen.replaceChildren(...(frame ? [frame] : []), vectorTable(paths.vector[episode][place]));
    const action = paths.action?.[episode]?.[place];
    parts.facts.replaceChildren(...[
      ["Step", `${count(paths.step[place])} of ${count(paths.length[episode])}`],
      action === undefined || action < 0 ? null : ["Action before", map && runOf(state.run).scene.kind === "map" ? ACTIONS[action] ?? action : action],
      ["Return so far", short(paths.return[episode][place])],
    ].filter(Boolean).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, String(value)))));
    element.dataset.step = place;
  }

  function close() {
    clock?.stop();
    steps?.stop();
    for (const off of leave) off();
    leave = [];
  }

  return {
    element,
    show: build,
    update(changed) {
      if (!clock) build();
      else if (changed.includes(state.run)) { clock.refresh(); if (state.place < 0 && !shown?.paths) draw(); }
    },
    hide() { close(); clock = steps = map = null; },
  };
}

function vectorTable(values) {
  const reach = Math.max(...values.map(Math.abs), 1e-9);
  return h("ol", { class: "bars", "aria-label": "Entries of the observation" }, values.slice(0, 24).map((value, index) =>
    h("li", {}, h("span", { class: "entry" }, index + 1), h("i", { "aria-hidden": "true", style: { width: `${50 * Math.abs(value) / reach}%`, marginLeft: value < 0 ? `${50 - 50 * Math.abs(value) / reach}%` : "50%" } }), h("span", {}, short(value)))));
}
