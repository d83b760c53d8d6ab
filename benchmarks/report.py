"""Writes `results/benchmarks.md` and its pictures from the last results of all benchmarks.

`make benchmarks`. A benchmark belongs to the report if its JSON file has `comparisons` (ratios to a peer) or `limits`
(values that should not be exceeded), each with the number of a point below. The share of the peak and the memory come
from `training.json`.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

from report_plots import plot_growth, plot_memory, plot_ratios, plot_roofline

FOLDER = Path(__file__).parent
RESULTS = FOLDER.parent / "results"
REPORT = RESULTS / "benchmarks.md"


class Point(NamedTuple):
    """A question that benchmarks answer."""

    title: str
    question: str
    notes: str = ""
    """What the numbers do not say: why a goal was missed, or what was not measured."""


POINTS = {
    1: Point(
        "Whole training",
        "Frames per second in 2-Rooms, against agents of other libraries with the same map, widths and batch. The "
        "goals are 15 × PPO with an intrinsic reward, 50 × RecurrentPPO with one, and 20 × a plain PyTorch version in "
        "the paper's setting.",
        "The agents of Stable-Baselines3 learn from each rollout in 8 passes, the settings that solve 2-Rooms, and "
        "gemax in one. Frames per second include that difference. *GEM of the paper* is ours without the entropy "
        "within episodes.\n\n"
        "The seconds until 2-Rooms is solved include compilation, and ours holds it to the end. PPO with RE3 of rllte "
        "needs fewer frames than ours and about twice the time. PPO with RND of rllte earns nothing in its budget, "
        "and RecurrentPPO with our GEM reaches a return of 0.78 to 0.86. Those count with the time that they were "
        "given, so that their ratios are lower bounds.\n\n"
        "Two exact savings can be switched off with existing options: the table of distinct observations, which also "
        "makes the expectation over negatives cheap, and several updates per compiled call. The others have no "
        "switch, because they are how a network or a product is written: convolutions over repeating pixels, the "
        "input tables of the LSTM, similarities within episodes looked up in the table's own matrix (1.26 × in an "
        "update of 2-Rooms, commit 8894ebf against the one before, interleaved).",
    ),
    2: Point(
        "MiniGrid",
        "DoorKey-8x8 against PPO of Stable-Baselines3 with RND and E3B of rllte: 3 × the frames per second and a "
        "fifth of the time to a return of 0.9.",
        "The times to 0.9 reach their goal, and frames per second do not. Exact savings brought the ratio of frames "
        "per second to RND from 1.28 to 2.2: observations and steps of MiniGrid without its enumerations and with "
        "cached visibility, the LSTM's gradient by hand, episodes that are compared by matrix products, and kernel "
        "gradients with the narrower factor first. What is left are the matrix products of an LSTM that is trained in "
        "four passes, and of GEM, which compares each step with up to 128 earlier steps of its episode and with the "
        "states of 96 steps of the other environments. PPO has an MLP without memory. 3 × takes another agent: a "
        "network without memory, or fewer passes. These are processor times: with two free cores, our environments "
        "step while the learner computes.\n\n"
        "One seed, and frames per second over five turns of 16,384 frames. The time includes compilation, 17 s of "
        "ours, which a second start does not repeat. An earlier run of the same seed, at commit da89b3f on a busy "
        "machine, measured 3.68 and at least 4.24: ours took 97 s then, a third of it for compilation.",
    ),
    3: Point(
        "The intrinsic reward alone",
        "One batch of 32 steps of 64 environments: 5 × the peer. In the Gymnasium wrapper: at most the time that RND "
        "of rllte adds to a step, for every method.",
        "RND needs 0.74 GFLOP of matrix products per batch. Its peers need 1.14 GFLOP, because they compute each "
        "network once for the reward and again for the loss. Everything beyond this factor of 1.55 is their "
        "overhead, and TorchRL has little. At the 105 GFLOP/s of one core that were measured beside this benchmark, "
        "the matrix products alone take 7.0 ms, so that no exact computation in float32 can be more than 2.4 × as "
        "fast as TorchRL's RND, and 3.4 × as fast as rllte's. Ours takes 9.6 ms. The first layer's input gradient is "
        "not computed, and the target network runs once. Five ways to write the largest product were measured: 1.75 "
        "ms before, 1.40 with the narrower factor of the kernel's gradient first (kept), 1.52 with a transposed copy, "
        "1.42 in eight blocks, 1.71 at the highest precision.\n\n"
        "E3B is close to its goal, and above it on a machine with less load: another run of the same code measured "
        "5.25 (5.12 to 5.45). Nobody else has GEM, so that it has no goal in batches.\n\n"
        "In the wrapper, the goal is for one compiled call per rollout (`per_step=False`), which is what rllte does. "
        "All methods but GEM reach it. GEM compares each step with the steps of its episode so far and with other "
        "episodes, and trains on all of them: in a rollout of 512 steps, up to 2,560 observations pass through the "
        "networks, where RND has 512, and their pairs are compared. Its rollout in CartPole fell from 30.2 to 18.7 ms: "
        "kernel gradients 28.4, heads that are used 21.9, remembered steps only 18.7. Blocks of pairs of other sizes "
        "and a stopped gradient without separate heads did not help. What is left are the comparison of 512 × 1,536 "
        "pairs (3.7 ms), and 1,536 rows with gradients.\n\n"
        "With `per_step=True` the wrapper returns a reward at every step, which takes a compiled call per step, and "
        "misses the goal; rllte has no such mode. The call takes 71 µs for RND in a loop and 189 µs between steps of "
        "the environment, and the wrapper's Python another 100 µs. A memory that is changed in place raised the "
        "ratios by a quarter. A single thread, fewer arrays, arguments that are on the device already (52 to 48 µs) "
        "and synchronous calls (slower) did not help. NumPy would save 36 µs of RND's two networks in a loop and 57 µs "
        "between other work (`make bench-numpy`). That is a sixth of what a step costs, for a second implementation of "
        "every method, and all methods but RND would still miss the goal, so it is not done.",
    ),
    4: Point(
        "Growth",
        "Time of a step of GEM, and of an update of 2-Rooms, as one size grows, with the exponent over the upper half "
        "of the sizes. No step should grow faster than its mathematics demands.",
        "All pairs are quadratic in time. A matrix between two batches is stored up to 2¹⁹ entries, and one of the "
        "states of a table up to 2²²; above that, blocks of it are computed one after the other, so that memory does "
        "not grow with it. With a table, the cost of the negatives depends on the states in the table and not on the "
        "batch. `--num-negatives` samples negatives instead, and is never chosen by itself, because it is an "
        "approximation.\n\n"
        "The update of 2-Rooms misses its exponent with many environments, though its operations are linear: from 512 "
        "to 1,024 environments, those of matrix products grow by 1.98 and all others by 1.94, and the time by 1.94 "
        "too. Between 128 and 512 environments the time grows by 5.7, where its memory grows from 30 to 110 MB and "
        "leaves the cache of the machine, which has 32 MB.",
    ),
    5: Point(
        "Distance to the limit",
        "Operations per second of the matrix products of an update, as a share of the machine's measured peak and of "
        "the roofline. Goals: in the paper's setting, half of the time at 50 % of the peak or better, and an update "
        "of 2-Rooms in half the time of an earlier commit.",
        "The paper's setting reaches the first goal in both environments: 62 and 79 % of the peak for whole updates, "
        "64 and 56 % for learning, which takes most of the time. Small networks do not: the matrices of a step of 64 "
        "environments are small, and element-wise work beside them (gates, exponentials, gathers, the optimiser) is "
        "not counted as operations. Memory bandwidth is not what limits them: with it, the limit hardly changes, "
        "because the matrix products have 12 or more operations per byte. The machine was busy, so that its peak was "
        "54 to 146 GFLOP/s, where an earlier run on a quiet machine measured 190. The shares compare with the peak in "
        "the same process, in turn.",
    ),
    6: Point(
        "Start-up",
        "Processor seconds until the first update. The second start finds its programs in the compilation cache; the "
        "goal is 3 seconds.",
        "The second start neither traces nor compiles a program of the training loop: it loads them from the cache "
        "folder. What remains are imports (jax, flax and optax above all), JAX's device, the environment and its "
        "table, the first state, flags and ten updates.",
    ),
    7: Point(
        "Memory",
        "Peak memory of a training process, per environment and preset. A run of two hours should be flat.",
        "From the same run as the roofline. In two hours of 2-Rooms with five kills, the training process grew from "
        "679.4 to 680.1 MB (`soak-two-rooms.json`). The page that was served beside it stayed at 54.6 MB.",
    ),
}


def load_results() -> dict[str, dict[str, Any]]:
    """Returns the content of every JSON file of the benchmarks, by name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def rows_of(results: dict[str, dict[str, Any]], key: str, point: int) -> list[tuple[str, dict[str, Any]]]:
    """Returns the rows of one point, each with the name of its benchmark."""
    return [
        (name, row)
        for name, content in results.items()
        for row in content.get(key, [])
        if row["point"] == point
    ]


def ratio_table(rows: list[dict[str, Any]]) -> list[str]:
    lines = ["| ours / peer | times as fast | quartiles | goal | |", "|---|---|---|---|---|"]
    for row in rows:
        goal, verdict = row["goal"], ""
        if goal is not None:
            verdict = "reached" if row["ratio"] >= goal else "missed"
        lines.append(
            f"| {row['name']} | {row['ratio']:.3g} | {row['low']:.3g} to {row['high']:.3g} | "
            f"{'' if goal is None else f'{goal:g}'} | {verdict} |"
        )
    return lines


def limit_table(rows: list[dict[str, Any]]) -> list[str]:
    lines = ["| | measured | goal, at most | |", "|---|---|---|---|"]
    for row in rows:
        verdict = "reached" if row["value"] <= row["limit"] else "missed"
        lines.append(f"| {row['name']} | {row['value']:.3g} | {row['limit']:g} | {verdict} |")
    return lines


def value_table(title: str, values: dict[str, float]) -> list[str]:
    return [f"| | {title} |", "|---|---|", *(f"| {name} | {value:,.4g} |" for name, value in values.items())]


def source_line(content: dict[str, Any]) -> str:
    """Returns the command of a benchmark, and the commit and versions that it ran with."""
    versions = {name: content[name] for name in ("gemax", "jax") if name in content} | content.get(
        "peers", {}
    )
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    threads = f", {content['threads']} thread" if "threads" in content else f", {content['cores']} cores"
    return f"`{content['command']}` at commit {content['commit']}{threads}: {listed}."


def training_tables(results: dict[str, dict[str, Any]], point: int) -> list[str]:
    """Returns the part of a point that `training.json` answers."""
    training = results["training"]
    cases = training["cases"]
    if point == 5:
        lines = [
            "| | GFLOP per update | per byte | ms per update | share of the peak | of the roofline | rollout, reward, "
            "learning: share of the peak |",
            "|---|---|---|---|---|---|---|",
            *(f"| {name} | {limit_cells(case)} |" for name, case in cases.items()),
        ]
    else:
        lines = value_table("peak, GiB", {name: case["memory_gib"] for name, case in cases.items()})
    return [*lines, "", source_line(training), ""]


def limit_cells(case: dict[str, float]) -> str:
    """Returns how far an update is from the limits of the machine, as the cells of a row."""
    gflop = case["matmul_gflop_per_update"]
    parts = ", ".join(f"{case[f'{part}_share_of_peak']:.0%}" for part in ("rollout", "reward", "learning"))
    return (
        f"{gflop:.3g} | {gflop / case['matmul_gbyte_per_update']:.3g} | {1e3 / case['updates_per_second']:.3g} | "
        f"{case['share_of_peak']:.0%} | {case['share_of_roofline']:.0%} | {parts}"
    )


def run_table(runs: list[dict[str, Any]]) -> list[str]:
    """Returns the runs that should reach a goal, with their processor seconds."""
    lines = ["| run | seed | frames | processor seconds | |", "|---|---|---|---|---|"]
    for run in runs:
        verdict = "solved" if run["solved"] else "not solved in its budget"
        lines.append(
            f"| {run['name']} | {run['seed']} | {run['frames']:,} | {run['seconds']:g} | {verdict} |"
        )
    return lines


def error_lines(contents: dict[str, dict[str, Any]]) -> list[str]:
    return [
        f"- {peer} raised an error in two calls: `{error}`"
        for content in contents.values()
        for peer, error in content.get("errors", {}).items()
    ]


def growth_lines(growth: dict[str, Any]) -> list[str]:
    lines = ["| | sizes | exponent of time | of memory | allowed | |", "|---|---|---|---|---|---|"]
    for name, curve in growth["curves"].items():
        sizes = curve["sizes"]
        time, memory = curve["exponent"], curve["memory_exponent"]
        # Measured slopes are a little noisy.
        is_reached = time <= curve["allowed"] + 0.1 and memory <= curve["allowed_memory"] + 0.1
        lines.append(
            f"| {name} | {sizes[0]:,} to {sizes[-1]:,} | {time:.2f} | {memory:.2f} | {curve['allowed']:g}, "
            f"{curve['allowed_memory']:g} | {'reached' if is_reached else 'missed'} |"
        )
    return lines


def section(number: int, results: dict[str, dict[str, Any]]) -> list[str]:
    """Returns the lines of one point of the report."""
    point = POINTS[number]
    lines = [f"## {number}. {point.title}", "", point.question, ""]
    comparisons, limits = (rows_of(results, key, number) for key in ("comparisons", "limits"))
    names = dict.fromkeys(name for name, _ in [*comparisons, *limits])
    if comparisons:
        rows = [row for _, row in comparisons]
        plot_ratios(rows, RESULTS / f"benchmarks-{number}.png")
        lines += [f"![{point.title}](benchmarks-{number}.png)", "", *ratio_table(rows), ""]
    if limits:
        lines += [*limit_table([row for _, row in limits]), ""]
    contents = {name: results[name] for name in names}
    for content in contents.values():
        if "seconds" in content:
            lines += [*value_table("processor seconds", content["seconds"]), ""]
        if "runs" in content:
            lines += [*run_table(content["runs"]), ""]
    errors = error_lines(contents)
    lines += [*errors, ""] if errors else []
    lines += [f"{source_line(content)}\n" for content in contents.values()]
    if number == 4 and "growth" in results:
        plot_growth(results["growth"], RESULTS / "benchmarks-4.png")
        lines += ["![Growth](benchmarks-4.png)", "", *growth_lines(results["growth"]), ""]
        lines += [source_line(results["growth"]), ""]
    elif number == 5:
        plot_roofline(results["training"], RESULTS / "benchmarks-5-roofline.png")
        lines += ["![Roofline](benchmarks-5-roofline.png)", "", *training_tables(results, 5)]
    elif number == 7:
        plot_memory(results["training"], RESULTS / "benchmarks-7.png")
        lines += ["![Memory](benchmarks-7.png)", "", *training_tables(results, 7)]
    elif not names:
        lines += ["Not measured yet.", ""]
    return [*lines, point.notes, ""] if point.notes else lines


def main() -> None:
    results = load_results()
    lines = [
        "# Benchmarks",
        "",
        "Written by `make benchmarks` from the last results of the benchmarks in `benchmarks/`. Ratios are of "
        "processor times of one thread, measured in turn: the median and the quartiles over the rounds. Above "
        "1, gemax is faster.",
        "",
    ]
    for number in POINTS:
        lines += section(number, results)
    REPORT.write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
