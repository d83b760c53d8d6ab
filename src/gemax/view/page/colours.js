// Colours of methods, of quantities and of positions, for light and dark pages.

const METHOD_COLOURS = {
  light: ["#3d5ad6", "#d1622b", "#148a6a", "#a53d9b", "#8a6d00", "#c2334d", "#2a7fa8", "#5d6470"],
  dark: ["#8ea2ff", "#f59a63", "#4fd1a5", "#e08ad6", "#dcbf4a", "#ff8a9c", "#6fc3ea", "#aab2c0"],
};
const FIRST = ["gem", "rnd", "ngu", "ngu-rnd", "e3b", "re3", "oracle", "none"];
const RAMPS = {
  light: ["#f3f1ea", "#d5e3d2", "#9ccfc0", "#5aaeb6", "#2f7fa6", "#2c4f8c", "#241f56"],
  dark: ["#1d2230", "#233a55", "#22607c", "#2b8a94", "#55b59b", "#a5d99c", "#f4f6c0"],
};

export function isDark() { return document.documentElement.dataset.theme === "dark"; }
function mode() { return isDark() ? "dark" : "light"; }

// Returns the colour of each group. Known methods keep their colour in every folder.
export function groupColours(groups) {
  const palette = METHOD_COLOURS[mode()], taken = new Set(), colours = new Map();
  for (const group of groups) {
    let index = FIRST.indexOf(group.method);
    if (index < 0 || taken.has(index)) index = palette.findIndex((_, place) => !taken.has(place));
    if (index < 0) index = colours.size % palette.length;
    taken.add(index);
    colours.set(group.key, palette[index]);
  }
  return colours;
}

function channels(hex) { return [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16)); }

// Returns a colour for a share from 0 to 1.
export function ramp(share) {
  const stops = RAMPS[mode()], place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const index = Math.min(Math.floor(place), stops.length - 2), rest = place - index;
  const [from, to] = [channels(stops[index]), channels(stops[index + 1])];
  return `rgb(${from.map((value, channel) => Math.round(value + rest * (to[channel] - value))).join(",")})`;
}

export function rampGradient() {
  return `linear-gradient(90deg, ${Array.from({ length: 9 }, (_, step) => ramp(step / 8)).join(",")})`;
}

// Returns whether white or black is read better on a colour of the ramp.
export function isStrong(share) { return isDark() ? share < 0.6 : share > 0.45; }

// Returns a colour by position on the map: one hue from left to right, and lighter from top to bottom.
export function placeColour(x, y) {
  const lightness = isDark() ? 78 - 26 * y : 34 + 28 * y;
  return `hsl(${Math.round(235 - 215 * x)} 68% ${Math.round(lightness)}%)`;
}

export function css(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }
