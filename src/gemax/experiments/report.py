"""The report: every figure and every verdict on one page, as HTML for people and as Markdown for the repository."""

import base64
import html
import json
from pathlib import Path
from typing import Any

from gemax.experiments.records import load_record
from gemax.experiments.registry import MODULES
from gemax.runs.files import write_bytes, write_json

SIGNS = {"holds": "✔", "does not hold": "✘", "undecided": "?"}
INTRODUCTION = (
    "Geometric Entropic Exploration, reproduced. A claim holds if its number is where the paper puts it, with the "
    "whole of its 95 % interval (bootstrap over seeds); it is undecided if the interval crosses the bar. Curves are "
    "means over seeds in 20 buckets with 95 % intervals. The paper's pictures are not public and its maps are "
    "reconstructions; its text is what is compared with."
)
SMOKE = "A smoke test: its runs are too short to show anything, and its verdicts mean nothing."


def write_report(out: Path, *, smoke: bool = False) -> None:
    """Puts together whatever experiments the folder has: `claims.json`, `report.html` and `README.md`."""
    found = [json.loads(path.read_text()) for name in MODULES if (path := out / f"{name}.json").exists()]
    if not found:
        return
    words = f"{SMOKE} {INTRODUCTION}" if smoke else INTRODUCTION
    write_json(out / "claims.json", [claim for experiment in found for claim in experiment["claims"]])
    made_by = _made_by(found, out)
    write_bytes(out / "README.md", markdown(found, [words, made_by], _more(out)).encode())
    write_bytes(out / "report.html", page(found, [words, made_by], out).encode())


def _more(out: Path) -> str:
    """What else a folder has to say, in a file of its own."""
    path = out / "more.md"
    return path.read_text() if path.exists() else ""


def markdown(found: list[dict[str, Any]], words: list[str], more: str) -> str:
    """For the repository's page."""
    parts = ["# Results", *words, "## Claims", _claims_table(found)]
    for experiment in found:
        parts += [f"## {experiment['figure']}: {experiment['title']}", experiment["claim"]]
        parts += [f"![{experiment['title']}]({picture})" for picture in experiment["pictures"]]
        parts += [experiment["table"]] if experiment["table"] else []
        parts.append(_cost(experiment))
    return "\n\n".join([*parts, more]).rstrip() + "\n"


def _made_by(found: list[dict[str, Any]], out: Path) -> str:
    runs = [load_record(path) for path in sorted((out / "runs").glob("*-*-*-*.npz"))]
    hours = sum(record.facts["seconds"] for record in runs) / 3600
    newest = found[-1]
    return (
        f"Made by `gemax reproduce all` on {newest['cores']} cores ({newest['machine']}), gemax {newest['gemax']}, "
        f"jax {newest['jax']}: {len(runs)} runs, {hours:.1f} hours of training on one core each, those of the search "
        "included. Numbers: `claims.json`, a JSON file an experiment, `curves/` as CSV, finished runs in `runs/`."
    )


def _claims_table(found: list[dict[str, Any]]) -> str:
    lines = ["| | claim | measured | 95 % interval | bar | verdict |", "|---|---|---|---|---|---|"]
    for experiment in found:
        for claim in experiment["claims"]:
            low, high = claim["interval"]
            lines.append(
                f"| {SIGNS[claim['verdict']]} | {claim['figure']}: {claim['claim']} | {claim['measure']}: "
                f"{_number(claim['value'])} | {_number(low)} to {_number(high)} | {claim['bar']} | {claim['verdict']} |"
            )
    return "\n".join(lines)


def _cost(experiment: dict[str, Any]) -> str:
    runs = f"{experiment['runs']} runs, " if experiment["runs"] else ""
    seconds = experiment["seconds_of_training"]
    return f"`{experiment['command']}`: {runs}{seconds:,.0f} s of training; commit {experiment['commit']}."


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


# HTML

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
"""


def page(found: list[dict[str, Any]], words: list[str], out: Path) -> str:
    """One self-contained page."""
    body = ["<h1>Geometric Entropic Exploration, reproduced</h1>", *map(_paragraph, words)]
    links = (f'<a href="#{experiment["figure"]}">{experiment["figure"]}</a>' for experiment in found)
    body += [f"<nav>{' '.join(links)}</nav>", "<h2>Claims</h2>", _html_claims(found)]
    for experiment in found:
        body.append(_section(experiment, out))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>gemax: the paper, reproduced</title>'
        f"<style>{STYLE}</style></head><body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _section(experiment: dict[str, Any], out: Path) -> str:
    title = html.escape(f"{experiment['figure']}: {experiment['title']}")
    parts = [f'<h2 id="{experiment["figure"]}">{title}</h2>', _paragraph(experiment["claim"])]
    for picture in experiment["pictures"]:
        content = base64.b64encode((out / picture).read_bytes()).decode()
        parts.append(f'<img alt="{html.escape(experiment["title"])}" src="data:image/png;base64,{content}">')
    if experiment["table"]:
        parts.append(_html_table(experiment["table"]))
    parts.append(f'<p class="small">{_inline(_cost(experiment))}</p>')
    if experiment["configurations"]:
        settings = html.escape(json.dumps(experiment["configurations"], indent=1, ensure_ascii=False))
        parts.append(f"<details><summary>configurations</summary><pre>{settings}</pre></details>")
    return "\n".join(parts)


def _html_claims(found: list[dict[str, Any]]) -> str:
    rows = [
        "<tr><th></th><th>claim</th><th>measured</th><th>95 % interval</th><th>bar</th><th>verdict</th></tr>"
    ]
    for experiment in found:
        for claim in experiment["claims"]:
            low, high = claim["interval"]
            kind = claim["verdict"].replace(" ", "-")
            cells = [
                f'<a href="#{claim["figure"]}">{claim["figure"]}</a>',
                html.escape(claim["claim"]),
                html.escape(f"{claim['measure']}: {_number(claim['value'])}"),
                f"{_number(low)} to {_number(high)}",
                claim["bar"],
                f'<span class="{kind}">{SIGNS[claim["verdict"]]}&nbsp;{claim["verdict"]}</span>',
            ]
            rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f'<table class="claims">{"".join(rows)}</table>'


def _html_table(markdown_table: str) -> str:
    """From the Markdown of an experiment's table."""
    lines = [line.strip("|").split("|") for line in markdown_table.splitlines()]
    head, rows = lines[0], lines[2:]
    cells = ["<tr>" + "".join(f"<th>{_inline(cell)}</th>" for cell in head) + "</tr>"]
    cells += ["<tr>" + "".join(f"<td>{_inline(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    return f"<table>{''.join(cells)}</table>"


def _paragraph(words: str) -> str:
    return f"<p>{_inline(words)}</p>"


def _inline(words: str) -> str:
    """Code between backticks and bold between asterisks; the rest as it is."""
    text = html.escape(words.strip())
    for mark, tag in (("`", "code"), ("**", "b")):
        pieces = text.split(mark)
        text = "".join(f"<{tag}>{piece}</{tag}>" if i % 2 else piece for i, piece in enumerate(pieces))
    return text
