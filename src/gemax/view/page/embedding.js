// The embedding of observations, in two dimensions as our own drawing and in three by Plotly.
import { announce, h, reducedMotion, s } from "./dom.js";
import { percent } from "./words.js";
import { css, placeColour, ramp } from "./colours.js";
import { pin, setCell, state } from "./state.js";
import { baseLayout, plotly } from "./charts.js";

const SIZE = 100, PAD = 7;

// Returns a drawing: `element`, `setSnapshot`, `setDimensions`, `showCell`. Points are linked to cells, or to their number.
export function embeddingPlot(scene, places) {
  const isLinked = scene.kind !== "samples";
  const edges = s("path", { class: "edges" }), dots = s("g", {}), ring = s("circle", { class: "ring", r: 3.2, visibility: "hidden" });
  const picture = s("svg", {
    class: "embedding", viewBox: `0 0 ${SIZE} ${SIZE}`, tabindex: "0", role: "application", "aria-roledescription": "scatter plot",
    "aria-label": "Embedding in two dimensions. Left and right arrow keys move from point to point.",
  }, edges, dots, ring);
  const space = h("div", { class: "space", hidden: true }), caption = h("p", { class: "caption" });
  const element = h("figure", { class: "embeddingfigure" }, picture, space, caption);
  let snapshot = null, drawn = null, dimensions = 2, circles = [], colours = [], frame = 0, isSpaceReady = false;

  const keyOf = (index) => (isLinked ? snapshot.point_cell[index] : index);
  const indexOf = (key) => (key === null || !snapshot ? -1 : isLinked ? snapshot.point_cell?.indexOf(key) ?? -1 : key);

  picture.addEventListener("pointermove", (event) => {
    if (!drawn) return;
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(picture.getScreenCTM().inverse());
    let best = -1, nearest = 36;
    drawn.forEach(([x, y], index) => {
      const distance = (x - point.x) ** 2 + (y - point.y) ** 2;
      if (distance < nearest) { nearest = distance; best = index; }
    });
    setCell(best < 0 ? null : keyOf(best));
  });
  picture.addEventListener("pointerleave", () => setCell(null));
  picture.addEventListener("click", () => { if (state.cell !== null) pin(state.cell); });
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    if (!drawn?.length) return;
    if (step) {
      event.preventDefault();
      const index = (indexOf(state.cell) + step + drawn.length) % drawn.length;
      setCell(keyOf(index));
      announce(isLinked ? places[keyOf(index)].text : `point ${index + 1}, step ${snapshot.point_time?.[index] ?? "unknown"} of its episode`);
    } else if (event.key === "Enter" && state.cell !== null) { event.preventDefault(); pin(state.cell); }
  });

  function colourOf(index) {
    if (isLinked) {
      const { x, y } = places[keyOf(index)], width = Math.max(...places.map((place) => place.x), 1), height = Math.max(...places.map((place) => place.y), 1);
      return placeColour(x / width, y / height);
    }
    const times = snapshot.point_time ?? [], last = Math.max(...times, 1);
    return ramp(0.2 + 0.8 * (times[index] ?? 0) / last);
  }

  // Returns points in the drawing, with the same scale on both axes.
  function fitted(points) {
    const xs = points.map(([x]) => x), ys = points.map(([, y]) => y);
    const middle = [(Math.min(...xs) + Math.max(...xs)) / 2, (Math.min(...ys) + Math.max(...ys)) / 2];
    const reach = Math.max(Math.max(...xs) - Math.min(...xs), Math.max(...ys) - Math.min(...ys), 1e-9);
    return points.map(([x, y]) => [SIZE / 2 + (SIZE - 2 * PAD) * (x - middle[0]) / reach, SIZE / 2 + (SIZE - 2 * PAD) * (y - middle[1]) / reach]);
  }

  function place(points) {
    drawn = points;
    points.forEach(([x, y], index) => { circles[index].setAttribute("cx", x.toFixed(2)); circles[index].setAttribute("cy", y.toFixed(2)); });
    const byCell = isLinked && scene.neighbours ? new Map(snapshot.point_cell.map((cell, index) => [cell, index])) : null;
    edges.setAttribute("d", byCell ? scene.neighbours.map(([from, to]) => {
      const [a, b] = [points[byCell.get(from)], points[byCell.get(to)]];
      return a && b ? `M${a[0].toFixed(1)} ${a[1].toFixed(1)}L${b[0].toFixed(1)} ${b[1].toFixed(1)}` : "";
    }).join("") : "");
    showCell(state.cell);
  }

  function moveTo(target) {
    cancelAnimationFrame(frame);
    const from = drawn;
    if (!from || from.length !== target.length || reducedMotion()) { place(target); return; }
    const start = performance.now();
    const tick = (now) => {
      const share = Math.min((now - start) / 260, 1), eased = 1 - (1 - share) ** 3;
      place(target.map(([x, y], index) => [from[index][0] + eased * (x - from[index][0]), from[index][1] + eased * (y - from[index][1])]));
      if (share < 1) frame = requestAnimationFrame(tick);
    };
    frame = requestAnimationFrame(tick);
  }

  function showCell(key) {
    const index = indexOf(key), point = index < 0 ? null : drawn?.[index];
    ring.setAttribute("visibility", point ? "visible" : "hidden");
    if (point) { ring.setAttribute("cx", point[0]); ring.setAttribute("cy", point[1]); }
    if (isSpaceReady && dimensions === 3) markInSpace(index);
  }

  async function markInSpace(index) {
    const Plotly = await plotly(), point = index < 0 ? null : snapshot?.three?.[index];
    if (isSpaceReady) Plotly.restyle(space, { x: [point ? [point[0]] : []], y: [point ? [point[1]] : []], z: [point ? [point[2]] : []] }, [2]);
  }

  async function drawSpace() {
    const Plotly = await plotly(), points = snapshot.three;
    if (!space.isConnected || dimensions !== 3) return;
    const lines = { x: [], y: [], z: [] };
    if (isLinked && scene.neighbours) {
      const byCell = new Map(snapshot.point_cell.map((cell, index) => [cell, index]));
      for (const [from, to] of scene.neighbours) {
        const [a, b] = [points[byCell.get(from)], points[byCell.get(to)]];
        if (a && b) { lines.x.push(a[0], b[0], null); lines.y.push(a[1], b[1], null); lines.z.push(a[2], b[2], null); }
      }
    }
    const hidden = { visible: false, showspikes: false };
    const layout = { ...baseLayout(), height: 420, width: space.clientWidth || undefined, margin: { l: 0, r: 0, t: 0, b: 0 }, uirevision: "space", hovermode: "closest",
      scene: { xaxis: hidden, yaxis: { ...hidden, autorange: "reversed" }, zaxis: hidden, aspectmode: "data", camera: { eye: { x: 0.35, y: -1.05, z: 1.85 } } } };
    try {
      await Plotly.react(space, [
        { ...lines, type: "scatter3d", mode: "lines", hoverinfo: "skip", line: { color: css("--line"), width: 2 } },
        { x: points.map((p) => p[0]), y: points.map((p) => p[1]), z: points.map((p) => p[2]), type: "scatter3d", mode: "markers", hoverinfo: "none", marker: { size: 5, color: colours } },
        { x: [], y: [], z: [], type: "scatter3d", mode: "markers", hoverinfo: "skip", marker: { size: 11, color: css("--accent"), symbol: "circle-open", line: { width: 3, color: css("--accent") } } },
      ], layout, { displayModeBar: false, responsive: true });
    } catch {
      space.replaceChildren(h("p", { class: "empty" }, "This browser cannot draw in three dimensions: WebGL is switched off."));
      return;
    }
    if (!isSpaceReady) {
      isSpaceReady = true;
      space.on("plotly_hover", (event) => { const hit = event.points.find((point) => point.curveNumber === 1); if (hit) setCell(keyOf(hit.pointNumber)); });
      space.on("plotly_unhover", () => setCell(null));
    }
    showCell(state.cell);
  }

  function redraw() {
    const hasPoints = Boolean(snapshot?.two?.length);
    picture.toggleAttribute("hidden", !hasPoints || dimensions === 3);
    space.toggleAttribute("hidden", !hasPoints || dimensions === 2);
    if (!hasPoints) {
      caption.textContent = snapshot?.note ?? (snapshot && !snapshot.message ? "This snapshot has no embedding. Only methods that learn one have it, from a few seconds after the start on." : "");
      drawn = null;
      return;
    }
    colours = snapshot.two.map((_, index) => colourOf(index));
    if (circles.length !== snapshot.two.length) {
      circles = snapshot.two.map(() => s("circle", { r: isLinked ? 1.7 : 1.3, class: "dot" }));
      dots.replaceChildren(...circles);
      drawn = null;
    }
    circles.forEach((circle, index) => {
      circle.style.fill = colours[index];
      circle.classList.toggle("filmed", (snapshot.point_frame?.[index] ?? -1) >= 0);
    });
    moveTo(fitted(snapshot.two));
    caption.replaceChildren(h("b", {}, "f(x)"), ` Principal components: ${percent(snapshot.shares[dimensions - 2], 0)} of the variance. `,
      isLinked ? `Colours are positions on the ${scene.kind === "map" ? "map; lines join neighbours" : "plane beside it"}.` : "Colours are the time in the episode, from early to late.");
    if (dimensions === 3) drawSpace();
  }

  return {
    element,
    showCell,
    setSnapshot(next) { snapshot = next; redraw(); },
    setDimensions(next) { dimensions = next; redraw(); },
    frameOf(key) { const index = indexOf(key); return index < 0 ? -1 : snapshot?.point_frame?.[index] ?? -1; },
    leave() { cancelAnimationFrame(frame); if (isSpaceReady) window.Plotly.purge(space); },
  };
}

// Returns the similarity of one cell to all: k = exp(-c ‖f(x) - f(x')‖). Null for cells that are not embedded.
export function similarities(scene, snapshot, cell, numCells) {
  const values = new Array(numCells).fill(null), chosen = snapshot.point_cell?.indexOf(cell) ?? -1;
  if (chosen < 0 || !snapshot.components || scene.similarity_scale === null) return values;
  const bytes = Uint8Array.from(atob(snapshot.components), (letter) => letter.charCodeAt(0));
  const points = new Float32Array(bytes.buffer), size = snapshot.num_components;
  snapshot.point_cell.forEach((other, index) => {
    let squares = 0;
    for (let axis = 0; axis < size; axis += 1) squares += (points[index * size + axis] - points[chosen * size + axis]) ** 2;
    values[other] = Math.exp(-scene.similarity_scale * Math.sqrt(squares));
  });
  return values;
}
