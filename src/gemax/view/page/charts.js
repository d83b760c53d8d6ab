// Line charts by Plotly, in the colours of the page.
import { css } from "./colours.js";

const READY = new Promise((resolve) => {
  if (window.Plotly) resolve(window.Plotly);
  else document.getElementById("plotly")?.addEventListener("load", () => resolve(window.Plotly));
});
const CONFIG = { displayModeBar: false, responsive: true, showTips: false };

export function plotly() { return READY; }

export function baseLayout() {
  const font = { family: css("--font"), size: 12, color: css("--soft") };
  const axis = {
    gridcolor: css("--line"), zeroline: false, linecolor: css("--line"), tickcolor: css("--line"), automargin: true,
    fixedrange: false, ticklabelposition: "outside",
  };
  return {
    font, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: { l: 44, r: 20, t: 8, b: 34 },
    xaxis: { ...axis, showgrid: false, showline: true }, yaxis: { ...axis }, showlegend: false, hovermode: "x",
    hoverlabel: { bgcolor: css("--card"), bordercolor: css("--line"), font: { ...font, color: css("--text") } },
    dragmode: "zoom",
  };
}

// Draws or updates a chart. The range chosen by the user is kept.
export async function drawLines(element, traces, options) {
  const Plotly = await READY, layout = baseLayout();
  layout.uirevision = options.axis;
  layout.xaxis.title = { text: options.axisTitle, standoff: 6 };
  layout.height = options.height ?? 220;
  layout.width = element.clientWidth || undefined;
  if (options.isShare) { layout.yaxis.tickformat = ".0%"; layout.yaxis.rangemode = "tozero"; }
  if (!element.isConnected) return;
  element.querySelector(".wait")?.remove();
  await Plotly.react(element, traces, layout, CONFIG);
}
