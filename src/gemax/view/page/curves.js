// The view of learning curves.
import { h, paragraph, segmented, checkbox } from "./dom.js";
import { AXES, SECTIONS, SHARES, STATUS, count, duration, meaning, metricValue, percent, short, title } from "./words.js";
import { groupColours } from "./colours.js";
import { source } from "./source.js";
import { emit, groupsOf, selectedRuns, state } from "./state.js";
import { band } from "./bands.js";
import { drawLines } from "./charts.js";

const MAX_LABELLED = 12;
const WARNING_SECONDS = 10;

// Returns the view: `element`, and `update(changed)` for new data.
export function curvesView() {
  const cards = new Map(), data = {}, warnings = new Map();
  const tiles = h("div", { class: "tiles" }), notes = h("div", { class: "notes" });
  const sections = h("div", {}), table = h("div", {}), legend = h("ul", { class: "legend", "aria-label": "Colours" });
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const card = cards.get(entry.target.dataset.metric);
      if (card) card.isVisible = entry.isIntersecting;
    }
    refresh();
  }, { rootMargin: "150px" });

  const toolbar = h("div", { class: "toolbar" },
    segmented("Over", "axis", Object.entries(AXES), state.axis, (axis) => { state.axis = axis; redraw(); }),
    checkbox("Mean and 95 % interval by method", state.grouped, (grouped) => { state.grouped = grouped; redraw(); }));
  const element = h("div", { class: "view curves" },
    h("h2", { class: "unseen" }, "Curves"), toolbar, legend, tiles, notes, sections, table);

  function metricsShown() {
    const known = new Set();
    for (const run of selectedRuns()) for (const name of Object.keys(run.last)) known.add(name);
    for (const name of Object.keys(AXES)) known.delete(name);
    for (const name of ["episodes", "seeds", "seeds_solved", "recent_return_std", "consecutive_nonfinite"]) known.delete(name);
    const listed = SECTIONS.map(([name, metrics, open]) => [name, metrics.filter((metric) => known.has(metric)), open]);
    const used = new Set(SECTIONS.flatMap(([, metrics]) => metrics));
    listed.push(["Everything else", [...known].filter((metric) => !used.has(metric)).sort(), false]);
    return listed.filter(([, metrics]) => metrics.length);
  }

  function build() {
    observer.disconnect();
    cards.clear();
    const shown = metricsShown();
    toolbar.hidden = !shown.length;
    if (!shown.length) {
      sections.replaceChildren(paragraph(emptyText()));
      return;
    }
    sections.replaceChildren(...shown.map(([name, metrics, open]) =>
      h("details", { class: "section", open }, h("summary", {}, h("h3", {}, name), h("span", { class: "soft" }, ` ${metrics.length}`)),
        h("div", { class: "grid" }, metrics.map(makeCard)))));
    for (const card of cards.values()) observer.observe(card.element);
  }

  function makeCard(metric) {
    const plot = h("div", { class: "plot" }, h("p", { class: "soft wait" }, "Drawing …")), note = h("p", { class: "note" });
    const heading = h("h4", { id: `chart-${metric}` }, title(metric));
    const card = { plot, note, isVisible: false, version: "" };
    card.element = h("section", { class: "card chart", "data-metric": metric, "aria-labelledby": `chart-${metric}` },
      heading, h("p", { class: "soft" }, meaning(metric)),
      h("div", { class: "plotframe", role: "img", "aria-label": "" }, plot), note);
    cards.set(metric, card);
    return card.element;
  }

  // Fetches what visible charts lack, then draws them.
  let isBusy = false, isAgain = false;
  async function refresh() {
    if (isBusy) { isAgain = true; return; }
    isBusy = true;
    try {
      do {
        isAgain = false;
        await fetchAndDraw();
      } while (isAgain);
    } finally { isBusy = false; }
  }

  async function fetchAndDraw() {
    const visible = [...cards].filter(([, card]) => card.isVisible), runs = selectedRuns();
    const lacking = runs.filter((run) => visible.some(([metric]) => !(data[run.id]?.[metric])));
    if (lacking.length && visible.length) {
      try {
        const found = await source.curves(lacking.map((run) => run.id), visible.map(([metric]) => metric));
        for (const [name, curves] of Object.entries(found)) data[name] = { ...data[name], ...curves };
      } catch (error) { emit("problem", `The curves could not be read. ${error.message}`); return; }
    }
    for (const [metric, card] of visible) await draw(metric, card, runs);
  }

  async function draw(metric, card, runs) {
    const groups = groupsOf(runs), colours = groupColours(groupsOf(state.index.runs)), traces = [];
    let missing = 0, total = 0;
    const summary = [];
    for (const group of groups) {
      const colour = colours.get(group.key);
      const lines = group.runs.map((run) => curveOf(run, metric)).filter((curve) => curve.x.length);
      for (const { y } of lines) {
        // A return has no value before the first episode ends.
        const known = y.slice(Math.max(y.findIndex((value) => value !== null), 0));
        total += known.length;
        missing += known.filter((value) => value === null).length;
      }
      if (!lines.length) continue;
      const isBand = state.grouped && lines.length > 1;
      traces.push(...(isBand ? bandTraces(group, lines, colour, metric) : lineTraces(group, lines, colour)));
      const last = lines.map(({ y }) => y.findLast((value) => value !== null)).filter((value) => value !== undefined);
      if (last.length) summary.push(`${group.name} ${metricValue(metric, last.reduce((sum, value) => sum + value, 0) / last.length)}`);
    }
    card.note.textContent = missing ? `${count(missing)} of ${count(total)} values are missing or not finite: the line has gaps there.` : "";
    card.plot.parentElement.setAttribute("aria-label", `${title(metric)} over ${AXES[state.axis]}. Last values: ${summary.join(", ") || "none"}.`);
    await drawLines(card.plot, traces, { axis: state.axis, axisTitle: AXES[state.axis], isShare: SHARES.has(metric) });
  }

  function curveOf(run, metric) {
    const curves = data[run.id] ?? {}, xs = curves[state.axis] ?? [], ys = curves[metric] ?? [];
    const length = Math.min(xs.length, ys.length), kept = [];
    for (let index = 0; index < length; index += 1) if (xs[index] !== null) kept.push(index);
    return { run, x: kept.map((index) => xs[index]), y: kept.map((index) => ys[index]) };
  }

  function redraw() { for (const card of cards.values()) card.version = ""; refresh(); }

  function showFacts() {
    const runs = selectedRuns();
    tiles.replaceChildren(...(runs.length === 1 ? tilesOf(runs[0]) : []));
    table.replaceChildren(runs.length > 1 ? valuesTable(runs) : "");
    const groups = groupsOf(runs), colours = groupColours(groupsOf(state.index.runs));
    legend.replaceChildren(...(groups.length > 1 ? groups : []).map((group) => h("li", {}, h("i", { class: "swatch", style: { background: colours.get(group.key) }, "aria-hidden": "true" }), group.name)));
    showNotes(runs);
  }

  async function showNotes(runs) {
    const messages = runs.flatMap((run) => run.messages.map((text) => [run, text]));
    const found = runs.length <= MAX_LABELLED
      ? (await Promise.all(runs.map(async (run) => (await warningsOf(run)).map((text) => [run, text])))).flat() : [];
    notes.replaceChildren(...[...messages, ...found].slice(0, 30).map(([run, text]) =>
      h("p", { class: "warning" }, runs.length > 1 ? h("b", {}, `${run.name}: `) : null, text)));
  }

  // Returns the warnings of a run. They are rare, and all lines are read for them, so that a new look waits.
  async function warningsOf(run) {
    const known = warnings.get(run.id), version = run.last.update, now = performance.now();
    if (known && (known.version === version || now < known.next)) return known.texts;
    let texts = [];
    try { texts = await source.warnings(run.id); } catch { /* the run has been deleted */ }
    warnings.set(run.id, { texts, version, next: now + 1000 * WARNING_SECONDS });
    return texts;
  }

  return {
    element,
    show() { build(); showFacts(); refresh(); },
    update(changed) {
      for (const name of changed) delete data[name];
      const before = [...cards.keys()].join();
      const after = metricsShown().flatMap(([, metrics]) => metrics).join();
      if (before !== after) build();
      showFacts();
      return refresh();
    },
    hide() { observer.disconnect(); },
  };
}

function emptyText() {
  if (!state.index.runs.length) return "There are no runs here yet. Start one with `gemax train`; it appears by itself.";
  return state.selected.size
    ? "No metrics yet. The first ones come after compiling, which takes up to a minute."
    : "No run is chosen. Tick at least one on the left.";
}

function lineTraces(group, lines, colour) {
  return lines.map((line, index) => ({
    x: line.x, y: line.y, type: "scatter", mode: "lines", name: lines.length > 1 ? line.run.name : group.name, connectgaps: false,
    line: { color: colour, width: 1.8 }, opacity: lines.length > 1 ? Math.max(0.35, 1 - 0.12 * index) : 1,
    hoverinfo: lines.length > MAX_LABELLED ? "skip" : "all",
  }));
}

// All thin lines of a method are one trace with gaps: 200 runs are drawn as fast as one.
function bandTraces(group, lines, colour, metric) {
  const x = [], y = [], mean = band(lines);
  for (const line of lines) { x.push(...line.x, null); y.push(...line.y, null); }
  const text = mean.mean.map((value, index) => `${group.name}: ${metricValue(metric, value)} (${metricValue(metric, mean.low[index])} to ${metricValue(metric, mean.high[index])})`);
  const thin = { x, y, type: "scatter", mode: "lines", connectgaps: false, hoverinfo: "skip", opacity: Math.max(0.12, 0.5 / Math.sqrt(lines.length)), line: { color: colour, width: 1 } };
  const edge = { x: mean.x, type: "scatter", mode: "lines", hoverinfo: "skip", line: { width: 0, color: colour } };
  return [
    thin, { ...edge, y: mean.low }, { ...edge, y: mean.high, fill: "tonexty", fillcolor: translucent(colour) },
    { x: mean.x, y: mean.mean, type: "scatter", mode: "lines", name: group.name, text, hoverinfo: "text", line: { color: colour, width: 2.4 } },
  ];
}

function translucent(hex) { return `${hex}33`; }

function tilesOf(run) {
  const last = run.last, speed = last.frames && last.seconds ? last.frames / last.seconds : null;
  const left = run.status === "training" && last.update ? (run.updates - last.update) * last.seconds / last.update : null;
  const facts = [
    ["Return", short(last.recent_return), "last 100 episodes"],
    last.entropy_share === undefined ? null : ["Entropy", last.entropy_share === null ? "–" : percent(last.entropy_share), "of the maximum"],
    last.coverage === undefined ? null : ["Coverage", last.coverage === null ? "–" : percent(last.coverage, 0), "of the cells"],
    ["Updates", count(last.update), run.updates ? `of ${count(run.updates)}` : ""],
    ["Speed", count(speed), "frames per second"],
    left === null ? ["Time", duration(last.seconds), STATUS[run.status] ?? run.status] : ["Time left", duration(left), `after ${duration(last.seconds)}`],
  ];
  return facts.filter(Boolean).map(([name, value, detail]) =>
    h("div", { class: "tile" }, h("span", { class: "soft" }, name), h("strong", {}, value), h("span", { class: "soft" }, detail)));
}

function valuesTable(runs) {
  const metrics = SECTIONS[0][1].filter((metric) => runs.some((run) => metric in run.last));
  const rows = runs.slice(0, 500).map((run) => h("tr", {},
    h("th", { scope: "row" }, run.name), h("td", {}, run.method), h("td", {}, STATUS[run.status] ?? run.status),
    h("td", {}, count(run.last.update)), metrics.map((metric) => h("td", {}, metricValue(metric, run.last[metric])))));
  return h("details", { class: "section" }, h("summary", {}, h("h3", {}, "Last values as a table")),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Last values" }, h("table", {},
      h("thead", {}, h("tr", {}, ["run", "method", "status", "updates", ...metrics.map(title)].map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", {}, rows))));
}
