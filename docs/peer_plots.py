"""Draws the first pictures of speed.md and accuracy.md from the figures on these pages: `python docs/peer_plots.py`."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

DOCS = Path(__file__).parent
OURS, PALE, PEER = "#0b6e4f", "#8cc9ae", "#9aa3ad"
FILTERS = {"pydensecrf": ("pydensecrf", PEER), "symmetric": ("default", OURS), "symmetric, halo 1": ("halo=1", PALE)}


def inference_times() -> dict[str, dict[str, tuple[float, float]]]:
    """Milliseconds and factor over pydensecrf of each implementation, for every case of the first block of speed.md."""
    block = (DOCS / "speed.md").read_text(encoding="utf-8").split("```text")[1].split("peak memory")[0]
    found: dict[str, dict[str, tuple[float, float]]] = {}
    case = ""
    for line in block.splitlines():
        if head := re.match(r"(\d[\d×]+, T = \d+, [\d& /]+):", line):
            case = head[1]
            found[case] = {}
        elif row := re.match(r"  (\S.*?)\s{2,}([\d.]+) ms\s+([\d.]+) times", line):
            found[case][row[1]] = float(row[2]), float(row[3])
    return found


def normalised_errors() -> dict[str, dict[str, tuple[float, float]]]:
    """Mean and worst error of each filter for the widths of the first table of accuracy-tables.md."""
    table = (DOCS / "accuracy-tables.md").read_text(encoding="utf-8").split("Position alone")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")
    ]
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for widths, filter_, average, worst, *_ in rows[2:]:
        found.setdefault(widths, {})[filter_] = (float(average), float(worst))
    return found


def draw_speed() -> Figure:
    """Bars of time, shorter is better, with the factor over pydensecrf; narrow enough for a phone."""
    cases = inference_times()
    figure, axes = plt.subplots(len(cases), 1, figsize=(5, 1.25 * len(cases)), layout="constrained")
    bars = {"pydensecrf": PEER, "one thread": PALE, "2 threads": OURS}
    for ax, (case, times) in zip(axes, cases.items(), strict=True):
        size, iterations, widths = case.split(", ")
        lengths = [times[name][0] for name in bars]
        ax.barh(["pydensecrf", "one thread", "two threads"], lengths, color=list(bars.values()))
        ax.set_title(f"{size}, {iterations}, widths {widths}", loc="left")
        ax.set(xlim=(0, times["pydensecrf"][0]), xticks=[])
        ax.invert_yaxis()
        for place, name in enumerate(bars):
            time, factor = times[name]
            if name == "pydensecrf":
                ax.text(time, place, f"{time:g} ms ", ha="right", va="center")
            else:
                ax.text(time, place, f" {time:g} ms, {factor:.1f} times as fast", va="center")
        ax.spines[:].set_visible(False)
        ax.tick_params(left=False)
    return figure


def draw_accuracy() -> Figure:
    """Bars of mean and worst error, shorter is better."""
    errors = normalised_errors()
    figure, axes = plt.subplots(2, 1, figsize=(5, 5), layout="constrained")
    titles = ("mean error of the normalised filter", "worst pixel of all photos")
    for which, (ax, title) in enumerate(zip(axes, titles, strict=True)):
        for place, (name, (label, colour)) in enumerate(FILTERS.items()):
            values = [errors[widths][name][which] for widths in errors]
            at = [group + 0.27 * (place - 1) for group in range(len(errors))]
            for x, bar in zip(at, ax.bar(at, values, 0.25, color=colour, label=label), strict=True):
                ax.text(x, bar.get_height(), f"{bar.get_height():.2g}", ha="center", va="bottom", fontsize=8)
        ax.set_title(title, loc="left")
        ax.set_xticks(range(len(errors)), [widths.replace(" (", "\n(") for widths in errors])
        ax.spines[["top", "right"]].set_visible(False)
        ax.margins(y=0.12)
    axes[0].legend(frameon=False, ncols=3, loc="upper left")
    axes[0].set_ylim(0, 0.0165)
    return figure


def main() -> None:
    """Write both pictures."""
    plt.rcParams.update({"font.size": 9, "axes.titlesize": 10, "svg.hashsalt": "densefield", "svg.fonttype": "path"})
    for name, figure in (("speed-peers", draw_speed()), ("accuracy-peers", draw_accuracy())):
        figure.savefig(DOCS / "images" / f"{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
