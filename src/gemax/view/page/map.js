// The map of a gridworld, or the plane of two continuous variables, with one value per cell.
import { announce, h, s } from "./dom.js";
import { percent, short } from "./words.js";
import { css, isStrong, ramp, rampGradient } from "./colours.js";
import { pin, setCell, state } from "./state.js";

const MARKS = { S: ["start", "S"], G: ["reward", "★"], K: ["key", "🗝"], D: ["door", "▯"] };

export const LAYERS = {
  visits: ["Visits", "Share of the visits to each cell, a moving average", (value) => percent(value, 2), 0.5],
  p_k: ["p_k", "Expected similarity to the visited states: the density that the geometry sees", short, 1],
  log_g: ["ln g", "What g has learned of ln(1 / p_k): high where the agent is rewarded for going", short, 1],
  similarity: ["Similarity", "k of the chosen cell and every other one", (value) => percent(value, 0), 0.5],
};

// Returns x, y and a description of every cell. x points right and y down, in units of one cell.
export function cellPlaces(scene) {
  if (scene.kind === "map") return scene.cells.map(([row, column]) => ({ x: column, y: row, text: `row ${row + 1}, column ${column + 1}` }));
  const { bins, axes } = scene, places = [];
  for (let row = 0; row < bins; row += 1) for (let column = 0; column < bins; column += 1) {
    const text = axes.map((axis, index) => `${axis.name} ${short(axis.low + (axis.high - axis.low) * ((index ? column : row) + 0.5) / bins)}`).join(", ");
    places.push({ x: row, y: bins - 1 - column, text });
  }
  return places;
}

export function sizeOf(scene) {
  if (scene.kind === "bins") return { width: scene.bins, height: scene.bins };
  const rows = scene.rows.length ? scene.rows.length : 1 + Math.max(...scene.cells.map(([row]) => row));
  const columns = scene.rows.length ? scene.rows[0].length : 1 + Math.max(...scene.cells.map(([, column]) => column));
  return { width: columns, height: rows };
}

// Returns a map: `element`, `setValues`, `setFlow`, `setPaths`, `setAgent`.
export function cellMap(scene, label) {
  const places = cellPlaces(scene), { width, height } = sizeOf(scene), isBins = scene.kind === "bins";
  const gap = isBins ? 0 : 0.03;
  const rects = places.map(({ x, y }, cell) => s("rect", {
    x: x + gap, y: y + gap, width: 1 - 2 * gap, height: 1 - 2 * gap, rx: isBins ? 0 : 0.1, class: "cell", "data-cell": cell,
  }));
  const marks = isBins ? [] : scene.rows.flatMap((row, y) => [...row].map((letter, x) => MARKS[letter] && s("text", {
    x: x + 0.24, y: y + 0.27, class: `mark mark-${MARKS[letter][0]}`, "data-at": `${x} ${y}` }, s("title", {}, MARKS[letter][0]), MARKS[letter][1])).filter(Boolean));
  const markOf = new Map(marks.map((mark) => [mark.dataset.at, mark]));
  const flow = s("g", { class: "flow", "aria-hidden": "true" }), paths = s("g", { class: "paths", "aria-hidden": "true" });
  const cursor = s("rect", { class: "cursor", width: 1, height: 1, rx: isBins ? 0 : 0.12, visibility: "hidden" });
  const pinMark = s("rect", { class: "pinned", width: 1, height: 1, rx: isBins ? 0 : 0.12, visibility: "hidden" });
  // The plane is stretched, in which a circle would be an ellipse and the end of a line is not.
  const agent = isBins ? s("path", { class: "agent point", d: "M0 0h0.001", visibility: "hidden" }) : s("circle", { class: "agent", r: 0.3, visibility: "hidden" });
  const pad = isBins ? 0.2 : 0.35;
  const picture = s("svg", {
    class: `map ${scene.kind}`, viewBox: `${-pad} ${-pad} ${width + 2 * pad} ${height + 2 * pad}`, tabindex: "0",
    role: "application", "aria-roledescription": "map", "aria-label": `${label}. Arrow keys move over the cells, Enter chooses one.`,
    preserveAspectRatio: isBins ? "none" : "xMidYMid meet",
  }, s("rect", { class: "wall", x: -pad, y: -pad, width: width + 2 * pad, height: height + 2 * pad, rx: 0.25 }),
  rects, marks, paths, flow, pinMark, cursor, agent);
  const caption = h("p", { class: "caption" }), scale = h("div", { class: "scale" });
  const element = h("figure", { class: "mapfigure" },
    isBins ? h("div", { class: "plane" }, axisLabel(scene.axes[1], "ylabel"), picture, axisLabel(scene.axes[0], "xlabel")) : picture,
    scale, caption);

  let values = null, format = short;
  picture.addEventListener("pointermove", (event) => setCell(cellUnder(event)));
  picture.addEventListener("pointerleave", () => setCell(null));
  picture.addEventListener("click", (event) => { const cell = cellUnder(event); if (cell !== null) pin(cell); });
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (step) {
      event.preventDefault();
      setCell(neighbour(state.cell ?? state.pinned ?? 0, step));
      announce(textOf(state.cell));
    } else if ((event.key === "Enter" || event.key === " ") && state.cell !== null) {
      event.preventDefault();
      pin(state.cell);
      announce(`Chosen: ${textOf(state.cell)}`);
    } else if (event.key === "Escape") setCell(null);
  });

  function cellUnder(event) {
    const cell = event.target.dataset?.cell;
    if (cell !== undefined) return Number(cell);
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(picture.getScreenCTM().inverse());
    const found = places.findIndex(({ x, y }) => x === Math.floor(point.x) && y === Math.floor(point.y));
    return found < 0 ? null : found;
  }

  // Returns the nearest cell in a direction, over walls if need be.
  function neighbour(cell, [dx, dy]) {
    const from = places[cell];
    let best = cell, nearest = Infinity;
    places.forEach(({ x, y }, other) => {
      const ahead = (x - from.x) * dx + (y - from.y) * dy, aside = Math.abs((x - from.x) * dy) + Math.abs((y - from.y) * dx);
      const distance = ahead + 3 * aside;
      if (ahead > 0 && distance < nearest) { nearest = distance; best = other; }
    });
    return best;
  }

  function textOf(cell) {
    if (cell === null || !places[cell]) return "";
    const value = values?.[cell];
    return `${places[cell].text}: ${value === null || value === undefined ? "no value" : format(value)}`;
  }

  return {
    element,
    places,
    textOf,
    // Colours the cells by their values; null has no colour.
    setValues(next, layer) {
      const [name, about, writer, exponent] = LAYERS[layer];
      values = next;
      format = writer;
      const known = next.filter((value) => value !== null && value !== undefined);
      const low = layer === "visits" || layer === "similarity" ? 0 : Math.min(...known), high = layer === "similarity" ? 1 : Math.max(...known);
      const share = (value) => (high > low ? ((value - low) / (high - low)) ** exponent : 0);
      rects.forEach((rect, cell) => {
        const value = next[cell];
        const known = value !== null && value !== undefined;
        rect.style.fill = known ? ramp(share(value)) : css("--unknown");
        rect.dataset.strong = known && isStrong(share(value)) ? "yes" : "no";
        const mark = markOf.get(`${places[cell].x} ${places[cell].y}`);
        if (mark) mark.dataset.strong = rect.dataset.strong;
      });
      scale.replaceChildren(h("span", {}, known.length ? writer(low) : ""), h("i", { style: { background: rampGradient() }, "aria-hidden": "true" }),
        h("span", {}, known.length ? writer(high) : ""));
      element.dataset.layer = layer;
      caption.replaceChildren(h("b", {}, name), ` ${about}.`);
    },
    // Draws an arrow per cell: the mean move of the policy there.
    setFlow(policy, moves) {
      flow.replaceChildren(...(policy ?? []).flatMap((shares, cell) => {
        if (!shares.some((value) => value > 0)) return [];
        const dx = shares.reduce((sum, value, action) => sum + value * moves[action][1], 0);
        const dy = shares.reduce((sum, value, action) => sum + value * moves[action][0], 0);
        const length = Math.hypot(dx, dy), { x, y } = places[cell], strong = rects[cell].dataset.strong;
        if (length < 0.06) return [s("circle", { cx: x + 0.5, cy: y + 0.5, r: 0.07, "data-strong": strong })];
        const reach = 0.14 + 0.24 * length, angle = Math.atan2(dy, dx) * 180 / Math.PI;
        return [s("path", { d: `M${-reach} 0H${reach}M${reach - 0.15} -0.13L${reach} 0L${reach - 0.15} 0.13`, "data-strong": strong,
          transform: `translate(${x + 0.5} ${y + 0.5}) rotate(${angle.toFixed(1)})` })];
      }));
    },
    // Draws lines through points in units of cells.
    setPaths(lines) {
      paths.replaceChildren(...lines.map((points, index) => s("polyline", { points: points.map(([x, y]) => `${x.toFixed(2)},${y.toFixed(2)}`).join(" "), class: `path path-${index % 6}` })));
    },
    setAgent(point) {
      agent.setAttribute("visibility", point ? "visible" : "hidden");
      if (point) agent.style.transform = `translate(${point[0]}px, ${point[1]}px)`;
    },
    showCell(cell) { placeAt(cursor, cell); },
    showPinned(cell) { placeAt(pinMark, cell); },
  };

  function placeAt(mark, cell) {
    const place = cell === null ? null : places[cell];
    mark.setAttribute("visibility", place ? "visible" : "hidden");
    if (place) { mark.setAttribute("x", place.x); mark.setAttribute("y", place.y); }
  }
}

function axisLabel(axis, name) {
  return h("span", { class: `${name} soft` }, h("span", {}, short(axis.low)), h("span", {}, axis.name), h("span", {}, short(axis.high)));
}

// Returns the path of an episode in units of cells.
export function pathPoints(scene, places, paths, episode) {
  const length = paths.step.findIndex((step) => step > paths.length[episode]);
  const end = length < 0 ? paths.step.length : length;
  if (paths.plane) {
    const { axes, bins } = scene;
    return paths.plane[episode].slice(0, end).map((point) => {
      const [x, y] = point.map((value, index) => Math.min(Math.max((value - axes[index].low) / (axes[index].high - axes[index].low), 0), 1) * bins);
      return [x, bins - y];
    });
  }
  if (!paths.cell) return [];
  return paths.cell[episode].slice(0, end).map((cell) => [places[cell].x + 0.5, places[cell].y + 0.5]);
}
