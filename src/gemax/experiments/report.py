"""The report of all experiments: `report.html`, `README.md` and `claims.json`."""

import base64
import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gemax.experiments.damaged import is_readable
from gemax.experiments.records import GENERATION, Record, load_record
from gemax.experiments.registry import EXPERIMENTS
from gemax.experiments.tables import markdown_table
from gemax.runs.files import write_bytes, write_json

SIGNS = {"holds": "✔", "does not hold": "✘", "undecided": "?"}
INTRODUCTION = (
    "Reproduction of *Geometric Entropic Exploration*. A claim holds if the whole 95 % interval of its number is on "
    "the claimed side of the bar. It is undecided if the interval contains the bar. A claim about every seed is "
    "decided by their count, and its interval is the exact binomial one. An environment is *solved at* the update from "
    "which on the return stays at the threshold until the end. The *first crossing* is when the return first reached "
    "it. An unsolved run counts with its length, and a verdict that its later solution could change is undecided. "
    "Curves are means over seeds in 20 buckets with 95 % intervals. The paper's images are not public: its maps "
    "are reconstructed, and the claims are those of its text."
)
SMOKE_WARNING = "A smoke test: its runs are too short to show anything, and its verdicts have no meaning."
STALE = (
    "**Older code.** The runs of some experiments were trained before environments started in random phases, before "
    "the standard deviation of the normaliser excluded the drift of the mean, before the oracle counted true states "
    "and before RND was divided by the standard deviation of its return. Their figures and verdicts are shown until "
    "`gemax reproduce` has trained them again. No experiment mixes them with new runs:"
)
"""The text above the names of such experiments."""
STALE_MARK = "*These runs were trained by older code; see above.*"
CLAIM_HEAD = ("", "claim", "measured", "95 % interval", "bar", "verdict")


def write_report(out: Path, *, smoke: bool = False) -> None:
    """Writes the report of all experiments that have a JSON file in the folder. `more.md` is appended, if it exists."""
    paths = [out / f"{name}.json" for name in EXPERIMENTS]
    experiments = [json.loads(path.read_text()) for path in paths if path.exists()]
    if not experiments:
        return
    introduction = f"{SMOKE_WARNING} {INTRODUCTION}" if smoke else INTRODUCTION
    paragraphs = [introduction, _provenance_text(experiments, out)]
    if stale := [experiment["figure"] for experiment in experiments if _is_stale(experiment)]:
        paragraphs.append(f"{STALE} {', '.join(stale)}.")
    appendix = (out / "more.md").read_text() if (out / "more.md").exists() else ""
    write_json(out / "claims.json", _claims(experiments))
    write_bytes(out / "README.md", report_markdown(experiments, paragraphs, appendix).encode())
    write_bytes(out / "report.html", report_html(experiments, paragraphs, out).encode())


def report_markdown(experiments: list[dict[str, Any]], paragraphs: list[str], appendix: str) -> str:
    """Returns the content of `README.md`."""
    claims = [
        [SIGNS[claim["verdict"]], f"{claim['figure']}: {claim['claim']}", *_measured(claim), _verdict(claim)]
        for claim in _claims(experiments)
    ]
    parts = ["# Results", *paragraphs, "## Claims", markdown_table(CLAIM_HEAD, claims)]
    for experiment in experiments:
        parts += [f"## {experiment['figure']}: {experiment['title']}", experiment["claim"]]
        parts += [STALE_MARK] if _is_stale(experiment) else []
        parts += [f"![{experiment['title']}]({plot})" for plot in experiment["plots"]]
        parts += [experiment["table"]] if experiment["table"] else []
        parts.append(_cost_text(experiment))
    return "\n\n".join([*parts, appendix]).rstrip() + "\n"


def _provenance_text(experiments: list[dict[str, Any]], out: Path) -> str:
    paths = sorted((out / "runs").glob("*-*-*-*.npz"))
    runs = [load_record(path) for path in paths if is_readable(path, lambda path: bool(load_record(path)))]
    current = [record for record in runs if record.generation == GENERATION]
    older = [record for record in runs if record.generation != GENERATION]
    of_older_code = (
        f" Of older code there are {_runs_text(older)}; new figures do not use them." if older else ""
    )
    newest = experiments[-1]
    return (
        f"Made by `gemax reproduce` on {newest['cores']} cores ({newest['machine']}), gemax {newest['gemax']}, "
        f"jax {newest['jax']}: {_runs_text(current)}.{of_older_code} The numbers are in "
        "`claims.json`, in one JSON file per experiment, and in `curves/` as CSV. The finished runs are in `runs/`, "
        "each with the commits that it was trained at."
    )


def _runs_text(runs: Sequence[Record]) -> str:
    hours = sum(record.summary["seconds"] for record in runs) / 3600
    dirty = sum(any(commit.endswith("-dirty") for commit in record.commits) for record in runs)
    text = f"{len(runs)} runs, {hours:.1f} hours of training on one core each"
    return text + (f", {dirty} of them with uncommitted changes" if dirty else "")


def _claims(experiments: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns all claims, with the preset, the commits and the generation of the runs that decide them."""
    return [
        claim
        | {
            "preset": experiment["preset"],
            "trained_at": experiment.get("trained_at", {}),
            "is_older_code": _is_stale(experiment),
        }
        for experiment in experiments
        for claim in experiment["claims"]
    ]


def _verdict(claim: dict[str, Any]) -> str:
    return claim["verdict"] + (", older code" if claim["is_older_code"] else "")


def _measured(claim: dict[str, Any]) -> list[str]:
    """Returns the cells of a claim in the table: the measured number, its interval and the bar."""
    value, low, high = (
        "–" if number is None else f"{number:.3g}" for number in (claim["value"], *claim["interval"])
    )
    measured = f"{claim['measure']}: {claim['seed_count'] or value}"
    if unsolved := claim.get("unsolved"):
        measured += f"; not solved: {unsolved}"
    if crossing := claim["numbers"].get("first_crossing_ratio"):
        ratio, *interval = ("–" if number is None else f"{number:.3g}" for number in crossing)
        measured += f"; by the first crossing {ratio} ({' to '.join(interval)})"
    for name, estimate in claim["numbers"].get("other_measures", {}).items():
        value, *interval = ("–" if number is None else f"{number:.3g}" for number in estimate)
        measured += f"; {name} {value} ({' to '.join(interval)})"
    return [measured, f"{low} to {high}", claim["bar"]]


def _cost_text(experiment: dict[str, Any]) -> str:
    text = f"`{experiment['command']}`"
    if experiment["runs"]:
        text += f": {experiment['runs']} runs, {experiment['seconds_of_training']:,.0f} s of training"
    if trained_at := experiment.get("trained_at"):
        text += f", trained at {', '.join(f'{commit} ({count})' for commit, count in trained_at.items())}"
    return f"{text}. Analysed at commit {experiment['commit']}."


def _is_stale(experiment: dict[str, Any]) -> bool:
    """Returns whether an experiment's runs were trained by older code."""
    return bool(experiment["runs"]) and experiment.get("generation", 0) < GENERATION


STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 3rem; border-top: 1px solid #ddd; padding-top: 1.5rem; }
table { border-collapse: collapse; font-size: 0.88rem; }
td, th { padding: 0.25rem 0.6rem; text-align: left; border-bottom: 1px solid #e5e5e5; vertical-align: top; }
img { max-width: 100%; }
.small { color: #666; font-size: 0.85rem; }
.holds { color: #187a2f; }
.does-not-hold { color: #b3261e; }
.undecided { color: #9a6700; }
nav a { margin-right: 0.8rem; }
.claims td:nth-child(n + 4) { white-space: nowrap; }
code { background: #f4f4f4; padding: 0.1rem 0.3rem; }
details { margin: 0.5rem 0; }
pre { overflow-x: auto; font-size: 0.8rem; }
@media (max-width: 46rem) {
  table { font-size: 0.72rem; }
  td, th { padding: 0.2rem 0.3rem; }
  .claims td:first-child { overflow-wrap: anywhere; }
  .claims td:nth-child(n + 4) { white-space: normal; }
  .claims, .numbers { display: block; overflow-x: auto; }
}
"""


def report_html(experiments: list[dict[str, Any]], paragraphs: list[str], out: Path) -> str:
    """Returns the content of `report.html`, a page without external files."""
    links = (f'<a href="#{experiment["figure"]}">{experiment["figure"]}</a>' for experiment in experiments)
    body = [
        "<h1>Geometric Entropic Exploration, reproduced</h1>",
        *(f"<p>{_inline_html(text)}</p>" for text in paragraphs),
        f"<nav>{' '.join(links)}</nav>",
        "<h2>Claims</h2>",
        _html_table(CLAIM_HEAD, [_html_claim_cells(claim) for claim in _claims(experiments)], "claims"),
        *(_section(experiment, out) for experiment in experiments),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>gemax: the paper, reproduced</title>'
        f"<style>{STYLE}</style></head><body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _section(experiment: dict[str, Any], out: Path) -> str:
    title = html.escape(f"{experiment['figure']}: {experiment['title']}")
    parts = [f'<h2 id="{experiment["figure"]}">{title}</h2>', f"<p>{_inline_html(experiment['claim'])}</p>"]
    parts += [f"<p>{_inline_html(STALE_MARK)}</p>"] if _is_stale(experiment) else []
    for plot in experiment["plots"]:
        content = base64.b64encode((out / plot).read_bytes()).decode()
        parts.append(f'<img alt="{html.escape(experiment["title"])}" src="data:image/png;base64,{content}">')
    for table in filter(None, experiment["table"].split("\n\n")):
        head, _, *rows = ([*map(_inline_html, line.strip("|").split("|"))] for line in table.splitlines())
        parts.append(_html_table(head, rows))
    parts.append(f'<p class="small">{_inline_html(_cost_text(experiment))}</p>')
    if experiment["configurations"]:
        settings = html.escape(json.dumps(experiment["configurations"], indent=1, ensure_ascii=False))
        parts.append(f"<details><summary>configurations</summary><pre>{settings}</pre></details>")
    return "\n".join(parts)


def _html_claim_cells(claim: dict[str, Any]) -> list[str]:
    link = f'<a href="#{claim["figure"]}">{claim["figure"]}</a>'
    verdict = claim["verdict"]
    sign = f'<span class="{verdict.replace(" ", "-")}">{SIGNS[verdict]}&nbsp;{_verdict(claim)}</span>'
    return [link, html.escape(claim["claim"]), *map(html.escape, _measured(claim)), sign]


def _html_table(head: Sequence[str], rows: Sequence[Sequence[str]], css_class: str = "numbers") -> str:
    """Returns a table. Its cells must be HTML."""
    lines = [("th", head), *(("td", row) for row in rows)]
    cells = ("".join(f"<{tag}>{cell}</{tag}>" for cell in line) for tag, line in lines)
    return f'<table class="{css_class}">{"".join(f"<tr>{line}</tr>" for line in cells)}</table>'


def _inline_html(text: str) -> str:
    """Converts code, bold and italic marks of Markdown to HTML, and escapes the rest."""
    text = html.escape(text.strip())
    for mark, tag in (("`", "code"), ("**", "b"), ("*", "i")):
        pieces = text.split(mark)
        text = "".join(f"<{tag}>{piece}</{tag}>" if i % 2 else piece for i, piece in enumerate(pieces))
    return text
