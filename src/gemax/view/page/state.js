// What is chosen on the page. Views subscribe to the parts that they show.

export const state = {
  index: null,
  selected: new Set(),   // names of the runs whose curves are drawn
  axis: "update",
  grouped: true,
  run: null,             // the run whose environment is shown
  place: -1,             // position on the timeline; -1 follows the newest snapshot
  cell: null,            // the cell under the pointer or the keyboard
  pinned: null,          // the cell that similarities are drawn for
};

const listeners = new Map();

export function on(topic, listener) {
  if (!listeners.has(topic)) listeners.set(topic, new Set());
  listeners.get(topic).add(listener);
  return () => listeners.get(topic).delete(listener);
}

export function emit(topic, detail) {
  for (const listener of listeners.get(topic) ?? []) listener(detail);
}

export function runOf(name) { return state.index?.runs.find((run) => run.id === name) ?? null; }

export function selectedRuns() { return (state.index?.runs ?? []).filter((run) => state.selected.has(run.id)); }

// Returns the runs by environment and method, each with its colour key.
export function groupsOf(runs) {
  const environments = new Set(runs.map((run) => run.env)), groups = new Map();
  for (const run of runs) {
    const key = `${run.env} ${run.method}`;
    const name = environments.size > 1 ? `${run.method} · ${run.env}` : run.method;
    if (!groups.has(key)) groups.set(key, { key, name, method: run.method, runs: [] });
    groups.get(key).runs.push(run);
  }
  return [...groups.values()];
}

export function withSnapshots() { return (state.index?.runs ?? []).filter((run) => run.snapshots.length); }

export function setCell(cell) {
  if (cell === state.cell) return;
  state.cell = cell;
  emit("cell", cell);
}

export function pin(cell) {
  state.pinned = cell;
  emit("pinned", cell);
}
