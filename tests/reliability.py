"""Counts injected faults: tests are marked with the rows of this table, and `--reliability FILE` writes the outcome.

`@pytest.mark.fault(15, times=2)` says that a test injects fault 15 twice. The outcome of every test stands in a JSON
file beside the table. With `--reliability-add`, a run of some tests replaces their outcomes and keeps the others.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

FAULTS = {
    1: "`kill -9` at random moments, during saves too",
    2: "newest checkpoint truncated",
    3: "one bit of a checkpoint flipped",
    4: "all checkpoints damaged",
    5: "empty folders and foreign files named like a checkpoint",
    6: "checkpoint of a newer format",
    7: "checkpoint of other shapes, with missing or extra arrays",
    8: "resume with another configuration",
    9: "run of 2N updates against N updates and N resumed ones",
    10: "resume with another number of cores or another version of JAX",
    11: "resume of a finished run",
    12: "disk full while a checkpoint is saved",
    13: "run directory read-only or missing",
    14: "two processes in one run directory, stale lock",
    15: "SIGINT and SIGTERM while training",
    16: "last line of `metrics.jsonl` cut",
    17: "gradients not finite once",
    18: "gradients not finite again and again",
    19: "equal states, embeddings at distance zero",
    20: "constant intrinsic reward, first batch, batch of one",
    21: "extreme outputs of g, empty counts and memories",
    22: "environment returns NaN or infinity",
    23: "observation of another shape or dtype, or outside of its space",
    24: "old Gym interface, reward None or an array",
    25: "environment raises in step, reset or constructor",
    26: "environment hangs",
    27: "process of an environment killed",
    28: "fork after JAX has started, environment that cannot be pickled",
    29: "autoreset modes, termination against truncation, episodes of one step",
    30: "unknown environment, unsupported space, missing package",
    31: "pickle bombs in every loader",
    32: "code in imported models",
    33: "paths that leave the run directory, links, names that are too long",
    34: "archives with foreign members or absurd sizes",
    35: "web page: bound address",
    36: "web page: foreign hosts, paths and names",
    37: "web page: port taken, clients that disconnect",
    38: "web page: NaN in metrics",
    39: "TensorBoard or W&B missing, raising or hanging",
    40: "one of several seeds fails",
    41: "plots with too few or unequal seeds",
    42: "clock jumps back, one core",
    43: "untested Python, JAX or CPU",
    44: "spaces in paths, no terminal, other locale, HOME unset",
    45: "configuration of a run that names a module to import",
    46: "SIGINT, SIGTERM or SIGHUP at any moment of a command",
    47: "stdout or stderr closed, full or not UTF-8",
    48: "no free space while metrics are written",
    49: "`config.json` edited between runs",
    50: "checkpoint due while the state is not finite",
    51: "environment hangs or raises in constructor or close, calls `sys.exit`",
    52: "sizes that do not fit into time or memory",
    53: "records of experiments cut, empty, foreign or absurd",
    54: "verdict with one seed or none",
    55: "run directory deleted or renamed while training",
    56: "wrong types, huge seeds, empty paths and spaces, absurd rewards, garbage in files",
    57: "Ray actor killed",
    58: "Ray node or learner killed",
    59: "Ray object store full, slow learner, slow actor",
    60: "no Ray, wrong address, other versions",
}


def faults_of(item):
    """Yields row and count of each marker of a test."""
    for marker in item.iter_markers("fault"):
        for row in marker.args:
            assert row in FAULTS, f"fault {row} is not in the table of tests/reliability.py"
            yield row, marker.kwargs.get("times", 1)


class Reliability:
    """A plugin that collects the outcomes of all workers and writes the table at the end."""

    def __init__(self, path: Path, *, adds: bool) -> None:
        self._path, self._adds, self._tests = path, adds, {}

    def pytest_runtest_logreport(self, report):
        faults = [value for name, value in report.user_properties if name == "fault"]
        # Set-up and tear-down count if they fail or skip.
        if faults and (report.when == "call" or not report.passed):
            self._tests[report.nodeid] = {"outcome": report.outcome, "faults": faults}

    def pytest_sessionfinish(self, session):
        # Imported here, because tests import gemax themselves.
        from gemax.runs.files import write_bytes
        from gemax.runs.provenance import provenance

        facts, details = provenance(), self._path.with_suffix(".json")
        tests = json.loads(details.read_text()) if self._adds and details.exists() else {}
        tests |= {name: {**test, "commit": facts["commit"]} for name, test in self._tests.items()}
        rows = [json.dumps(name) + ": " + json.dumps(tests[name]) for name in sorted(tests)]
        write_bytes(details, ("{\n" + ",\n".join(rows) + "\n}\n").encode())
        write_bytes(self._path, table(tests, facts).encode())


def table(tests: dict[str, Any], facts: dict[str, Any]) -> str:
    """Returns the table of all faults as Markdown."""
    commits = Counter(test["commit"] for test in tests.values())
    made = ", ".join(f"{commit} ({number} tests)" for commit, number in commits.most_common())
    lines = [
        "# Reliability: faults injected by the tests",
        "",
        f"Written by the tests themselves (`make reliability`), at commit {made}, with Python {facts['python']} and "
        f"jax {facts['jax']} on {facts['machine']}. The outcome of every test is in `reliability.json`. Each fault "
        "is a real one: a real signal, a real full disk, a real flipped bit. "
        "[The promises](../docs/reliability.md) behind the table name the tests.",
        "",
        "| # | fault | times injected | tests |",
        "|---|---|---|---|",
    ]
    for row, text in FAULTS.items():
        of_row = [
            (test["outcome"], sum(times for fault, times in test["faults"] if fault == row))
            for test in tests.values()
            if row in [fault for fault, _ in test["faults"]]
        ]
        injected = sum(times for outcome, times in of_row if outcome != "skipped")
        lines.append(
            f"| {row} | {text} | {injected:,} | {outcome_text(Counter(name for name, _ in of_row))} |"
        )
    return "\n".join(lines) + "\n"


def outcome_text(outcomes: Counter) -> str:
    words = {"passed": "held", "failed": "FAILED", "skipped": "skipped"}
    return (
        ", ".join(f"{outcomes[name]} {word}" for name, word in words.items() if outcomes[name]) or "no test"
    )
