"""Fuzzing: gemax reads inputs that are damaged or made up, and must read or refuse them.

Anything but gemax's own error is a crash: another exception, an input that takes longer than `MAX_SECONDS`, or a file
outside of the target's folder. Three engines make the inputs:

    python -m tests.fuzzing                         # random damage to valid inputs, all targets
    python -m tests.fuzzing --engine hypothesis     # maps, configurations, spaces and observations by their structure
    python -m tests.fuzzing --engine atheris        # guided by coverage, for all targets that read bytes

`make fuzz` runs them all, more than a million inputs.
"""

import argparse
import contextlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.fuzz_targets import Target, make_targets, read_config, read_space

MAX_SECONDS = 5.0
"""Inputs that need more processor time count as hangs."""
ENGINES = ("mutations", "hypothesis", "atheris")


class Crash(Exception):  # noqa: N818 (not an error of the program)
    """An input was neither read nor refused."""


class Report(NamedTuple):
    """Outcomes of one target."""

    inputs: int
    outcomes: Counter
    crashes: list[str]

    def to_json(self) -> dict[str, Any]:
        return {"inputs": self.inputs, **self.outcomes, "crashes": len(self.crashes)}


def attempt(target: Target, content: Any) -> str:
    """Reads one input. Returns whether it was read or refused.

    Raises:
        Crash: Neither of both, or it took too long.
    """
    from gemax.cli.failures import describe_failure
    from gemax.errors import ExitCode

    started, outcome = time.process_time(), "read"
    try:
        target.read(content)
    except Exception as error:
        message, exit_code = describe_failure(error)
        outcome = "refused"
        if exit_code == ExitCode.INCOMPLETE:
            raise Crash(f"{str(content)[:300]!r}\n{message[-2000:]}") from error
    if time.process_time() - started > MAX_SECONDS:
        raise Crash(f"{str(content)[:300]!r}\nhangs")
    return outcome


# Engines


def fuzz(target: Target, num_inputs: int, seed: int = 0) -> Report:
    """Reads damaged inputs."""
    dice, report = random.Random(seed), Report(num_inputs, Counter(), [])
    for _ in range(num_inputs):
        try:
            report.outcomes[attempt(target, target.make_input(dice))] += 1
        except Crash as crash:
            report.crashes.append(str(crash))
    return report


def structured_targets(folder: Path) -> dict[str, tuple[Any, Target]]:
    """Returns strategies of hypothesis and the targets that read their inputs."""
    from gemax.envs.maps import parse_map
    from tests import strategies

    def target(read: Any) -> Target:
        return Target(lambda dice: None, read, 0.0)

    return {
        "maps": (strategies.maps(), target(parse_map)),
        "configurations": (strategies.configurations(), target(lambda text: read_config(folder, text))),
        "spaces and observations": (strategies.spaces_with_observations, target(read_space)),
    }


def fuzz_structured(strategy: Any, target: Target, num_inputs: int, seed: int = 0) -> Report:
    """Reads inputs of a strategy of hypothesis. Ends at the first crash, with its smallest input."""
    import hypothesis

    report = Report(num_inputs, Counter(), [])

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=num_inputs,
        database=None,
        deadline=None,  # `attempt` limits the processor time
        derandomize=False,
        suppress_health_check=list(hypothesis.HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
    )
    @hypothesis.given(strategy)
    def check(content: Any) -> None:
        report.outcomes[attempt(target, content)] += 1

    try:
        check()
    except Crash as crash:
        report.crashes.append(str(crash))
    return report._replace(inputs=sum(report.outcomes.values()) + len(report.crashes))


def fuzz_guided(name: str, folder: Path, num_inputs: int, seed: int = 0) -> Report:
    """Reads inputs that atheris makes from the coverage of earlier ones, in a process of its own."""
    command = [sys.executable, "-m", "tests.fuzzing", "--guided", name, str(folder)]
    command += ["--inputs", str(num_inputs), "--seed", str(seed)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    said = answer.stdout + answer.stderr
    match = re.search(r"number_of_executed_units: (\d+)", said)
    crashes = [] if answer.returncode == 0 else [said[-3000:]]
    return Report(int(match[1]) if match else 0, Counter(), crashes)


def run_guided(name: str, num_inputs: int, seed: int, folder: Path) -> None:
    """Runs atheris, which ends the process."""
    import atheris

    with atheris.instrument_imports(include=["gemax"]):
        target = make_targets(folder)[name]
    corpus = folder / f"corpus of {name}"
    corpus.mkdir()
    for number, content in enumerate(target.seeds):
        (corpus / str(number)).write_bytes(content)
    options = [
        f"-runs={num_inputs}",
        f"-seed={seed + 1}",
        "-rss_limit_mb=0",
        "-print_final_stats=1",
        "-max_len=4096",
    ]
    options += [f"-timeout={60 * MAX_SECONDS:.0f}", f"-artifact_prefix={folder}/", "-verbosity=0"]
    atheris.Setup([sys.argv[0], *options, str(corpus)], lambda content: attempt(target, content) and None)
    atheris.Fuzz()


# Command


def reports(engine: str, options: argparse.Namespace, folder: Path) -> Iterator[tuple[str, Report]]:
    """Yields the report of each target."""
    if engine == "hypothesis":
        for name, (strategy, target) in chosen(structured_targets(folder), options.target).items():
            yield name, fuzz_structured(strategy, target, max(1, options.inputs // 3), options.seed)
        return
    for name, target in chosen(make_targets(folder), options.target).items():
        if engine == "mutations":
            yield name, fuzz(target, max(1, round(target.share * options.inputs)), options.seed)
        elif target.seeds:
            # Shares are of all targets; those without seeds are few.
            num_inputs = max(1, round(target.share * options.inputs))
            yield name, fuzz_guided(name, folder, num_inputs, options.seed)


def chosen(targets: dict[str, Any], name: str | None) -> dict[str, Any]:
    """Returns all targets, or the one with this name."""
    return targets if name is None else {name: targets[name]}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--engine", choices=ENGINES, default="mutations")
    parser.add_argument("--inputs", type=int, default=1_000_000, help="number of inputs, over all targets")
    parser.add_argument("--target", default=None, help="the only target; it has its share of the inputs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None, help="JSON file that the counts are added to")
    parser.add_argument("--guided", nargs=2, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.guided is not None:
        run_guided(options.guided[0], options.inputs, options.seed, Path(options.guided[1]))
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shm if shm.is_dir() else None) as name:
        # Keys of the user are not used: no input is one's own.
        os.environ["XDG_STATE_HOME"] = str(Path(name) / "state")
        folder = Path(name) / "inputs"
        folder.mkdir()
        num_crashes = 0
        for target, report in reports(options.engine, options, folder):
            num_crashes += len(report.crashes)
            print(options.engine, target, report.to_json(), flush=True)
            for crash in report.crashes[:3]:
                print(crash, flush=True)
            if options.out is not None:
                add_report(options.out, options, target, report)
        strangers = sorted(path.name for path in Path(name).iterdir() if path.name not in ("state", "inputs"))
        assert not strangers, f"files outside of the folder of the targets: {strangers}"
    raise SystemExit(1 if num_crashes else 0)


def add_report(path: Path, options: argparse.Namespace, target: str, report: Report) -> None:
    """Adds counts to a file, under their engine and target."""
    from gemax.runs.provenance import provenance

    content: dict[str, Any] = {}
    with contextlib.suppress(FileNotFoundError):
        content = json.loads(path.read_text())
    facts = {"seed": options.seed, **report.to_json(), "commit": provenance()["commit"]}
    content.setdefault("engines", {}).setdefault(options.engine, {})[target] = facts
    counts = [facts for targets in content["engines"].values() for facts in targets.values()]
    content["total"] = {name: sum(facts[name] for facts in counts) for name in ("inputs", "crashes")}
    path.write_text(json.dumps({"total": content["total"], "engines": content["engines"]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
