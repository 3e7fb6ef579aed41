"""The complete path: draw scenes, train a network, tune a CRF for it, train both together, evaluate, report.

Run it with `make demo`. Every command is printed before it runs. All files are below demo/; an interrupted demo is
resumed.

Five methods are compared on test scenes: the network after stage 1; the same network trained alone for the number of
steps of stage 2; that network, frozen, with a CRF tuned by search, and with a CRF learnt by gradient on the training
scenes; network and CRF trained together.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from densefield.evaluation.evaluation import read_evaluation
from densefield.metrics.metrics import SegmentationResult
from densefield.metrics.summary import TITLES, format_difference, summarise, summarise_comparison

SETTINGS = Path(__file__).parents[1] / "configs" / "scenes.toml"
METRICS = ("mean_iou", "trimap_iou_3px", "negative_log_likelihood")
TEST_SEEDS = 1_000_000  # seeds of test scenes start here, so that they are never training scenes


def commands(folder: Path, seed: int) -> list[str]:
    """The commands in their order."""
    at, settings = folder.as_posix(), Path(os.path.relpath(SETTINGS)).as_posix()
    train = f"train {settings} --resume --set data.root={at}/scenes --set training.seed={seed} --run {at}"
    second = f"--stage 2 --from {at}/network"
    test = f"{at}/test --split trainval -o {at}"
    return [
        f"data scenes {at}/scenes --images 2500 --size 96 --seed {seed}",
        f"data scenes {at}/test --images 400 --size 96 --seed {TEST_SEEDS + seed}",
        f"{train}/network",
        f"{train}/separate {second} --set crf.enabled=false",
        f"tune {at}/separate -o {at}/separate/tune --images 120 --trials 60 --evaluations 12 --criterion mean-iou",
        f"{train}/gradient --stage 2 --from {at}/separate --set network.frozen=true",
        f"{train}/joint {second}",
        f"eval {at}/network {test}/network/eval",
        f"eval {at}/separate {test}/separate/eval --crf {at}/separate/tune/crf.toml",
        f"eval {at}/gradient {test}/gradient/eval --method crf",
        f"eval {at}/joint {test}/joint/eval",
        f"report {at}/separate {at}/gradient {at}/joint 'stage 1={at}/network' -o {at}/report.html",
    ]


def run(command: str, console: Console) -> None:
    """Prints a command, runs it, and prints its time; if it fails, the demo ends with its status."""
    console.print(f"\n[bold]$ densefield {command}[/bold]", highlight=False, soft_wrap=True)
    start = time.monotonic()
    status = subprocess.run([sys.executable, "-m", "densefield", *shlex.split(command)]).returncode
    if status:
        sys.exit(status)
    console.print(f"[dim]{time.monotonic() - start:.0f} s[/dim]", highlight=False)


def results(folder: Path) -> dict[str, SegmentationResult]:
    """The result of each method on the test scenes."""
    alone = read_evaluation(folder / "network" / "eval")[1]
    separate = read_evaluation(folder / "separate" / "eval")[1]
    gradient = read_evaluation(folder / "gradient" / "eval")[1]
    joint = read_evaluation(folder / "joint" / "eval")[1]
    return {
        "network after stage 1": alone["network"],
        "network alone": separate["network"],
        "CRF tuned by search": separate["crf"],
        "CRF alone by gradient": gradient["crf"],
        "joint": joint["crf"],
    }


def metrics_table(methods: dict[str, SegmentationResult]) -> Table:
    """The metrics of every method with their confidence intervals."""
    images = next(iter(methods.values())).images
    table = Table("", *(TITLES[name] for name in METRICS), title=f"{images} test scenes, with 95% intervals")
    table.caption = "the network of all but the first row trained for the same number of steps"
    for method, result in methods.items():
        summary = summarise(result)
        table.add_row(method, *(_with_interval(name, summary[name], "value", signed=False) for name in METRICS))
    return table


def differences_table(methods: dict[str, SegmentationResult]) -> Table:
    """The paired differences between methods on the same scenes."""
    table = Table("", *(TITLES[name] for name in METRICS), title="paired differences, with 95% intervals")
    _, alone, searched, gradient, joint = methods.values()
    for title, better, worse in (
        ("search − network", searched, alone),
        ("gradient − network", gradient, alone),
        ("joint − search", joint, searched),
        ("joint − gradient", joint, gradient),
        ("joint − network", joint, alone),
    ):
        gains = summarise_comparison(better, worse)
        table.add_row(title, *(_with_interval(name, gains[name], "difference", signed=True) for name in METRICS))
    return table


def _with_interval(name: str, numbers: dict[str, float], part: str, *, signed: bool) -> str:
    value, low, high = (format_difference(name, numbers[each], signed=signed) for each in (part, "low", "high"))
    return f"{value}\n{low} … {high}"


def main() -> None:
    """Runs all commands and prints the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="random seed of scenes, weights and order (default: 0)")
    seed = parser.parse_args().seed
    folder, console, start = Path("demo", f"seed-{seed}"), Console(), time.monotonic()
    for command in commands(folder, seed):
        run(command, console)
    methods = results(folder)
    console.print("", metrics_table(methods), differences_table(methods), sep="\n")
    console.print(f"{time.monotonic() - start:.0f} s; the report is {folder / 'report.html'}", highlight=False)


if __name__ == "__main__":
    main()
