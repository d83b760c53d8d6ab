"""Pictures of the benchmark report."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogFormatter, NullLocator

OURS, GREY = "#1f77b4", "0.5"


def plot_ratios(rows: list[dict[str, Any]], path: Path) -> None:
    """Draws a bar per ratio, with its quartiles, its goal, and a line where both are as fast."""
    # Long names leave little of the figure to the bars.
    widest = max(len(row["name"]) for row in rows)
    figure = Figure(figsize=(4.5 + 0.075 * widest, 1.0 + 0.28 * len(rows)), layout="constrained")
    axis = figure.add_subplot()
    for y, row in enumerate(reversed(rows)):
        # From 1, where both are as fast: to the right we are faster, to the left slower.
        axis.barh(y, row["ratio"] - 1.0, left=1.0, color=OURS, height=0.6)
        axis.plot([row["low"], row["high"]], [y, y], color="black", linewidth=1.5)
        if row["goal"] is not None:
            axis.plot([row["goal"]] * 2, [y - 0.4, y + 0.4], color="tab:red", linewidth=2)
    axis.axvline(1.0, color=GREY, linestyle=":")
    axis.set_yticks(range(len(rows)), [row["name"] for row in reversed(rows)])
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter("{x:g}")
    # Labels between powers of ten only where there are few of them.
    axis.xaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.4)))
    axis.set_ylim(-0.7, len(rows) - 0.3)
    axis.set_xlabel("times as fast (red: goal, black: quartiles)")
    figure.savefig(path, dpi=120)


def plot_roofline(training: dict[str, Any], path: Path) -> None:
    """Draws the speed of the matrix products of each case against their operations per byte, below both limits."""
    cases = training["cases"]
    peak, bandwidth = (
        float(np.median([case[name] for case in cases.values()]))
        for name in ("peak_gflops", "bandwidth_gbytes")
    )
    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    axis = figure.add_subplot()
    intensity = np.geomspace(0.5, 200.0, 100)
    axis.plot(intensity, np.minimum(peak, bandwidth * intensity), color="black", label="limit of the machine")
    for index, (name, case) in enumerate(cases.items()):
        # Relative to the peak in the same process, because the machine is shared.
        speed = case["share_of_peak"] * peak
        place = case["matmul_gflop_per_update"] / case["matmul_gbyte_per_update"]
        marker = "s" if "paper" in name else "o"
        axis.plot(
            place,
            speed,
            marker=marker,
            linestyle="",
            color=f"C{index % 10}" if index < 10 else "black",
            label=name,
        )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_ylim(5.0, 1.3 * peak)
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_formatter("{x:g}")
        side.set_minor_formatter("")
    axis.set_yticks([5, 10, 20, 50], minor=False)
    axis.set_xlabel("operations per byte of operands and results")
    axis.set_ylabel("GFLOP/s of the matrix products of an update")
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    figure.savefig(path, dpi=120)


def plot_memory(training: dict[str, Any], path: Path) -> None:
    """Draws the peak memory of each case."""
    cases = training["cases"]
    names = list(cases)[::-1]
    figure = Figure(figsize=(8.0, 3.8), layout="constrained")
    axis = figure.add_subplot()
    axis.barh(names, [cases[name]["memory_gib"] for name in names], color=OURS, height=0.7)
    axis.set_xlabel("peak memory of the process in GiB")
    figure.savefig(path, dpi=120)


def plot_growth(growth: dict[str, Any], path: Path) -> None:
    """Draws time against size for each curve, with its fitted exponent."""
    curves = growth["curves"]
    num_columns = 3
    num_rows = -(-len(curves) // num_columns)
    figure = Figure(figsize=(9.0, 2.6 * num_rows), layout="constrained")
    for index, (name, curve) in enumerate(curves.items()):
        axis = figure.add_subplot(num_rows, num_columns, index + 1)
        axis.loglog(curve["sizes"], curve["milliseconds"], marker="o", color=OURS)
        axis.set_title(f"{name}\nexponent {curve['exponent']:.2f}", fontsize=8)
        axis.set_ylabel("ms")
        times = curve["milliseconds"]
        ticks = (
            (axis.xaxis, curve["sizes"][:: len(curve["sizes"]) - 1]),
            (axis.yaxis, [min(times), max(times)]),
        )
        for side, values in ticks:
            side.set_major_locator(FixedLocator(values))
            side.set_minor_locator(NullLocator())
            side.set_major_formatter("{x:,g}")
    figure.savefig(path, dpi=120)
