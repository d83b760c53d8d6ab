// Films: one image holds all frames, and a window moves over it.
import { h } from "./dom.js";

// Returns one frame of a film, enlarged if it is small.
export function filmFrame(address, film, frame, size = 200) {
  const fit = Math.max(Math.min(size, innerWidth - 72) / Math.max(film.width, film.height), 0.1);
  // Whole pixels, so that no frame shows the edge of its neighbour.
  const scale = fit > 2 ? Math.floor(fit) : Math.round(film.width * fit) / film.width;
  const rows = Math.ceil(film.frames / film.columns);
  const element = h("div", { class: `filmframe${scale > 2 ? " pixels" : ""}`, role: "img", "aria-label": "Observation" });
  Object.assign(element.style, {
    width: `${film.width * scale}px`, height: `${film.height * scale}px`, backgroundImage: `url("${address}")`,
    backgroundSize: `${film.columns * film.width * scale}px ${rows * film.height * scale}px`,
  });
  element.setFrame = (index) => {
    const column = index % film.columns, row = Math.floor(index / film.columns);
    element.style.backgroundPosition = `${-column * film.width * scale}px ${-row * film.height * scale}px`;
    element.dataset.frame = index;
  };
  element.setFrame(frame);
  return element;
}

// Returns buttons and a slider that move through steps: `element`, `setLength`, `stop`.
export function player(onstep, label) {
  let timer = 0, length = 1, pace = 160;
  const slider = h("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": label, oninput: () => { stop(); show(Number(slider.value)); } });
  const play = h("button", { type: "button", class: "round", "aria-label": "Play", onclick: toggle }, "▶");
  const button = (text, name, step) => h("button", { type: "button", class: "round small", "aria-label": name, onclick: () => { stop(); show(Number(slider.value) + step); } }, text);
  const speed = h("label", { class: "choose" }, h("span", {}, "Speed"), h("select", { onchange: (event) => { pace = Number(event.target.value); if (timer) { stop(); toggle(); } } },
    [[320, "½ ×"], [160, "1 ×"], [80, "2 ×"], [40, "4 ×"]].map(([value, text]) => h("option", { value, selected: value === pace }, text))));
  const element = h("div", { class: "player" }, h("span", { class: "what", "aria-hidden": "true" }, "Step"), button("◀", "One step back", -1), play, button("▶︎|", "One step on", 1), slider, speed);

  function show(step) {
    const place = Math.min(Math.max(step, 0), length - 1);
    slider.value = place;
    onstep(place);
  }

  function toggle() {
    if (timer) { stop(); return; }
    if (Number(slider.value) >= length - 1) show(0);
    play.textContent = "❚❚";
    play.setAttribute("aria-label", "Pause");
    timer = setInterval(() => { if (Number(slider.value) >= length - 1) stop(); else show(Number(slider.value) + 1); }, pace);
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "▶";
    play.setAttribute("aria-label", "Play");
  }

  return {
    element, stop, show, toggle,
    setLength(next) { length = Math.max(next, 1); slider.max = length - 1; slider.disabled = length < 2; show(Math.min(Number(slider.value), length - 1)); },
  };
}
