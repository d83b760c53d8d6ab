// Starts the page: reads the runs, shows the chosen view, and follows changes.
import { announce, h } from "./dom.js";
import { STATUS, count } from "./words.js";
import { groupColours } from "./colours.js";
import { source } from "./source.js";
import { emit, groupsOf, on, state } from "./state.js";
import { curvesView } from "./curves.js";
import { environmentView } from "./environment.js";
import { episodesView } from "./episodes.js";
import { reportView } from "./report.js";

const VIEWS = { curves: ["Curves", curvesView], environment: ["Environment", environmentView], episodes: ["Episodes", episodesView], report: ["Report", reportView] };
const MIN_SECONDS = 1, MAX_SECONDS = 10, MAX_SHARE = 0.02;
let current = null, currentName = "";

const byId = (id) => document.getElementById(id);

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "☀" : "☾";
}

function startTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try { chosen = localStorage.getItem("gemax-theme"); } catch { /* private windows have no storage */ }
  setTheme(chosen ?? (system.matches ? "dark" : "light"));
  system.addEventListener("change", () => { if (!chosen) { setTheme(system.matches ? "dark" : "light"); open(); } });
  byId("theme").addEventListener("click", () => {
    chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("gemax-theme", chosen); } catch { /* only this page remembers */ }
    setTheme(chosen);
    open();
  });
}

function showTabs() {
  byId("tabs").replaceChildren(...Object.entries(VIEWS).filter(([name]) => name !== "report" || state.index.has_report).map(([name, [text]]) =>
    h("li", {}, h("a", { href: `#${name}`, "aria-current": name === currentName ? "page" : null }, text))));
}

function showHeader() {
  const { runs, name, messages } = state.index, training = runs.filter((run) => run.status === "training").length;
  byId("title").textContent = name;
  document.title = `${name} · gemax view`;
  const facts = !runs.length ? [state.index.has_report ? "report of gemax reproduce" : "no runs"] : [runs.length === 1 ? runs[0].env : `${count(runs.length)} runs`, training ? (runs.length === 1 ? "training" : `${count(training)} training`) : runs.length === 1 ? STATUS[runs[0].status] ?? runs[0].status : "none training"];
  const text = [...facts, ...messages].join(" · ");
  const status = byId("status");
  if (status.dataset.problem) return;
  if (status.textContent !== text) status.textContent = text;
  status.classList.toggle("live", training > 0);
}

function showRuns() {
  const groups = groupsOf(state.index.runs), colours = groupColours(groups), aside = byId("runs");
  const isNeeded = currentName === "curves" && state.index.runs.length > 1;
  document.querySelector(".frame").classList.toggle("alone", !isNeeded);
  if (!isNeeded) return;
  const isOpen = aside.querySelector("details.panel")?.open ?? matchMedia("(min-width: 60rem)").matches;
  const openGroups = new Set([...aside.querySelectorAll("details.group[open]")].map((group) => group.dataset.key));
  const focus = document.activeElement?.dataset?.focus;
  aside.replaceChildren(h("details", { class: "panel", open: isOpen }, h("summary", {}, h("h2", {}, "Runs"), h("span", { class: "soft" }, ` ${count(state.selected.size)} of ${count(state.index.runs.length)}`)),
    h("div", { class: "panelbody" }, groups.map((group) => groupElement(group, colours.get(group.key), groups.length < 4 && group.runs.length < 8 ? true : openGroups.has(group.key))))));
  if (focus) aside.querySelector(`[data-focus="${CSS.escape(focus)}"]`)?.focus();
}

function groupElement(group, colour, isOpen) {
  const chosen = group.runs.filter((run) => state.selected.has(run.id)).length;
  const all = h("input", { type: "checkbox", checked: chosen === group.runs.length, "aria-label": `All runs of ${group.name}`, "data-focus": `group ${group.key}`, onchange: (event) => select(group.runs, event.target.checked) });
  all.indeterminate = chosen > 0 && chosen < group.runs.length;
  return h("div", { class: "grouprow" }, all, h("details", { class: "group", "data-key": group.key, open: isOpen },
    h("summary", {}, h("i", { class: "swatch", style: { background: colour }, "aria-hidden": "true" }), h("span", { class: "name" }, group.name), h("span", { class: "soft" }, ` ${count(group.runs.length)}`)),
    h("ul", {}, group.runs.map((run) => h("li", {}, h("label", { class: "check", title: run.name },
      h("input", { type: "checkbox", checked: state.selected.has(run.id), "data-focus": run.id, onchange: (event) => select([run], event.target.checked) }),
      h("span", {}, run.name, run.status === "training" ? h("em", { class: "dot live" }, " training") : null, run.messages.length ? h("em", { class: "flag" }, " ⚠") : null)))))));
}

function select(runs, isChosen) {
  for (const run of runs) if (isChosen) state.selected.add(run.id); else state.selected.delete(run.id);
  showRuns();
  if (currentName === "curves") current.update([]);
}

function open() {
  const wanted = location.hash.slice(1), usual = !state.index.runs.length && state.index.has_report ? "report" : "curves";
  const name = VIEWS[wanted] ? wanted : usual;
  const isNew = name !== currentName;
  current?.hide();
  currentName = name;
  current = VIEWS[name][1]();
  byId("main").replaceChildren(current.element);
  showTabs();
  showRuns();
  current.show();
  if (isNew) announce(VIEWS[name][0]);
}

function problem(text) {
  const status = byId("status");
  if (text) { status.dataset.problem = "yes"; status.textContent = text; } else delete status.dataset.problem;
  if (!text && state.index) showHeader();
}

async function load() {
  const before = new Set(state.index?.runs.map((run) => run.id));
  state.index = await source.index();
  const isFirst = !before.size;
  for (const run of state.index.runs) if (!before.has(run.id) && (isFirst || before.size < 40)) state.selected.add(run.id);
  if (!state.run) state.run = firstRun()?.id ?? null;
  showHeader();
}

// Returns the run whose environment is shown first: one that trains, or one with a map.
function firstRun() {
  const runs = state.index.runs.filter((run) => run.snapshots.length);
  return runs.find((run) => run.status === "training") ?? runs.find((run) => run.scene.kind === "map") ?? runs[0];
}

// Changes are drawn together, at most once a second and for at most a small share of the time, since training may need
// this processor. A hidden page draws nothing until it is seen again.
let waiting = new Set(), timer = 0, isBusy = false, next = 0;
function follow(changed) {
  for (const name of changed) waiting.add(name);
  if (timer || isBusy || document.hidden || !waiting.size) return;
  timer = setTimeout(drawChanges, Math.max(0, next - performance.now()));
}

async function drawChanges() {
  const names = [...waiting], started = performance.now();
  timer = 0;
  waiting = new Set();
  isBusy = true;
  try { await drawNow(names); } finally { isBusy = false; }
  const seconds = (performance.now() - started) / 1000;
  next = started + 1000 * Math.min(Math.max(MIN_SECONDS, seconds / MAX_SHARE), MAX_SECONDS);
  follow([]);
}

async function drawNow(names) {
  try { await load(); } catch (error) { problem(`The server does not answer. ${error.message}`); return; }
  showRuns();
  showTabs();
  await current.update(names);
  blink();
}

// Blinks once when data has come.
function blink() {
  const status = byId("status");
  status.classList.remove("came");
  requestAnimationFrame(() => status.classList.add("came"));
}

async function start() {
  startTheme();
  on("problem", problem);
  try { await load(); } catch (error) { byId("main").replaceChildren(h("p", { class: "empty" }, `The runs could not be read. ${error.message}`)); return; }
  open();
  addEventListener("hashchange", open);
  document.addEventListener("visibilitychange", () => { follow([]); });
  source.listen(follow, (isLost) => problem(isLost ? "The server has stopped. Start `gemax view` again; this page then continues." : ""));
  emit("started");
}

start();
