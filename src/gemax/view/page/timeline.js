// The time slider over the snapshots of a run, shared by the views of the environment and of episodes.
import { h } from "./dom.js";
import { count } from "./words.js";
import { emit, runOf, state, withSnapshots } from "./state.js";
import { source } from "./source.js";

const MAX_CACHED = 64;
const cache = new Map();

// Returns a snapshot, from memory if it was shown before.
export async function snapshotOf(run, update) {
  const key = `${run} ${update}`;
  if (!cache.has(key)) {
    cache.set(key, source.snapshot(run, update).catch((error) => { cache.delete(key); return { message: error.message }; }));
    if (cache.size > MAX_CACHED) cache.delete(cache.keys().next().value);
  }
  return cache.get(key);
}

export function currentUpdate() {
  const updates = runOf(state.run)?.snapshots ?? [];
  return updates.at(state.place) ?? updates.at(-1) ?? null;
}

// Returns the choice of the run. It is hidden if there is only one.
export function runChooser(onchange) {
  const runs = withSnapshots();
  if (runs.length < 2) return null;
  return h("label", { class: "choose" }, h("span", {}, "Run"),
    h("select", { onchange: (event) => { state.run = event.target.value; state.place = -1; onchange(); } },
      runs.map((run) => h("option", { value: run.id, selected: run.id === state.run }, run.name))));
}

// Returns the slider with a play button: `element`, `refresh()`, `stop()`.
export function timeline() {
  let timer = 0;
  const slider = h("input", { type: "range", min: 0, step: 1, "aria-label": "Time: snapshot of the run", oninput: () => go(Number(slider.value)) });
  const label = h("output", { class: "when" });
  const button = h("button", { type: "button", class: "round", "aria-label": "Play the snapshots", onclick: toggle }, "▶");
  const element = h("div", { class: "timeline card" }, h("span", { class: "what", "aria-hidden": "true" }, "Training"), button, slider, label);

  function updates() { return runOf(state.run)?.snapshots ?? []; }

  function go(place) {
    const last = updates().length - 1;
    state.place = place >= last ? -1 : place;
    refresh();
    emit("time");
  }

  function toggle() {
    if (timer) { stop(); return; }
    if (slider.value === slider.max) go(0);
    button.textContent = "❚❚";
    button.setAttribute("aria-label", "Pause");
    timer = setInterval(() => { if (Number(slider.value) >= Number(slider.max)) stop(); else go(Number(slider.value) + 1); }, 350);
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    button.textContent = "▶";
    button.setAttribute("aria-label", "Play the snapshots");
  }

  function refresh() {
    const all = updates(), place = state.place < 0 || state.place >= all.length ? all.length - 1 : state.place;
    slider.max = Math.max(all.length - 1, 0);
    slider.value = place;
    slider.disabled = all.length < 2;
    const text = all.length ? `update ${count(all[place])}` : "no snapshots";
    label.replaceChildren(h("b", {}, text), h("span", { class: "soft" }, all.length ? ` ${place + 1} of ${all.length}` : ""));
    slider.setAttribute("aria-valuetext", text);
  }

  refresh();
  return { element, refresh, stop };
}
