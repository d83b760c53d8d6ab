// Elements are made from text, never from markup: names of runs and messages come from files.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// Returns an HTML element with attributes, listeners (`onclick`) and children.
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

// Returns a paragraph in which text between back quotes is set as code.
export function paragraph(text, attributes = { class: "empty" }) {
  return h("p", attributes, text.split("`").map((part, index) => (index % 2 ? h("code", {}, part) : part)));
}

// Returns an SVG element.
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// Says something to users of screen readers. Only the last of several quick changes is said.
let announcement = 0;
export function announce(text) {
  clearTimeout(announcement);
  announcement = setTimeout(() => { document.getElementById("announcer").textContent = text; }, 150);
}

// Returns a group of radio buttons that looks like one control.
export function segmented(label, name, options, chosen, onchange) {
  return h("fieldset", { class: "segmented" },
    h("legend", {}, label),
    options.map(([value, text, title]) => h("label", { title },
      h("input", { type: "radio", name, value, checked: value === chosen, onchange: () => onchange(value) }),
      h("span", {}, text))));
}

// Returns a labelled check box.
export function checkbox(text, checked, onchange) {
  return h("label", { class: "check" },
    h("input", { type: "checkbox", checked, onchange: (event) => onchange(event.target.checked) }), h("span", {}, text));
}

export function reducedMotion() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}
