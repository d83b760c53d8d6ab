// The view of the report of `gemax reproduce`: claims, verdicts and figures.
import { h, paragraph } from "./dom.js";
import { short } from "./words.js";
import { source } from "./source.js";

const SIGNS = { holds: "✔", "does not hold": "✘", undecided: "?" };

export function reportView() {
  const element = h("div", { class: "view report" });

  async function build() {
    let report = null;
    try { report = await source.report(); } catch (error) { element.replaceChildren(h("p", { class: "warning" }, error.message)); return; }
    if (!report) {
      element.replaceChildren(h("h2", { class: "unseen" }, "Report"), paragraph("There is no report in this folder. `gemax reproduce all --out results` makes one; then `gemax view results` shows it here."));
      return;
    }
    const verdicts = Object.keys(SIGNS).map((verdict) => [verdict, report.claims.filter((claim) => claim.verdict === verdict).length]);
    element.replaceChildren(
      h("h2", { class: "unseen" }, "Report"),
      ...report.messages.map((text) => h("p", { class: "warning" }, text)),
      h("div", { class: "tiles" }, verdicts.map(([verdict, number]) => h("div", { class: `tile ${slug(verdict)}` }, h("span", { class: "soft" }, `${SIGNS[verdict]} ${verdict}`), h("strong", {}, number), h("span", { class: "soft" }, `of ${report.claims.length} claims`)))),
      h("div", { class: "card scroll", tabindex: "0", role: "region", "aria-label": "Claims" }, h("table", { class: "claims" },
        h("thead", {}, h("tr", {}, ["figure", "claim of the paper", "measured", "95 % interval", "bar", "verdict"].map((text) => h("th", { scope: "col" }, text)))),
        h("tbody", {}, report.claims.map((claim) => h("tr", {}, h("td", {}, claim.figure), h("td", {}, claim.claim),
          h("td", {}, `${claim.measure}: ${claim.seed_count || short(claim.value)}`), h("td", {}, `${short(claim.interval[0])} to ${short(claim.interval[1])}`),
          h("td", {}, claim.bar), h("td", { class: slug(claim.verdict) }, `${SIGNS[claim.verdict] ?? ""} ${claim.verdict}`)))))),
      ...report.figures.map((figure) => h("section", { class: "card" }, h("h3", {}, `${figure.figure}: ${figure.title}`), h("p", {}, figure.claim),
        figure.plots.map((plot) => h("img", { src: source.plotAddress(plot), alt: `${figure.title}: ${figure.claim}`, loading: "lazy" })), h("p", { class: "soft" }, h("code", {}, figure.command)))));
  }

  return { element, show: build, update() {}, hide() {} };
}

function slug(verdict) { return `verdict-${verdict.replaceAll(" ", "-")}`; }
