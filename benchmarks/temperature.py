"""NLL of methods before and after one temperature, fitted on images held out of training: a table in Markdown.

    python benchmarks/temperature.py joint=crf:runs/joint-0,runs/joint-1 network=network:runs/alone-0,runs/alone-1

Every method is NAME=METHOD:RUN,RUN,…, where METHOD is network or crf, and the runs, or checkpoints, are those of one
seed each. The temperature of a run divides its log marginals; it minimises the NLL on the split "held_out". Numbers are
of the split "val", means over seeds. Confidence intervals of 95 % are from 1,000 bootstrap samples of the images, the
same for all methods. Labels, and all metrics of labels, do not depend on the temperature.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from method_arguments import parsed, run

from densefield.labels import VOID
from densefield.metrics import fit_temperature
from densefield.nn.dense_crf import DenseCRF
from densefield.nn.losses import log_likelihood_loss
from densefield.runs.scored_images import ScoreSource, open_scores

DRAWS, SEED = 1000, 90210


def log_marginals(source: ScoreSource, crf: DenseCRF | None) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Log marginals and labels of each image."""
    for index in range(len(source)):
        scored = source[index]
        yield scored.log_marginals(crf), scored.labels


def losses(run: Path, method: str) -> tuple[float, np.ndarray]:
    """The temperature of a run, and for each image the sums of −log q before and after it, and the pixels: (I, 3)."""
    held_out, val = open_scores(run, split="held_out"), open_scores(run, split="val")
    if method == "crf" and held_out.crf is None:
        raise SystemExit(f"{run} has no CRF: use the method network")
    crf = held_out.crf if method == "crf" else None
    temperature = fit_temperature(
        (log_q.numpy(), labels.numpy()) for log_q, labels in log_marginals(held_out.source, crf)
    )
    rows = []
    for log_q, labels in log_marginals(val.source, crf):
        scaled = (log_q / temperature).log_softmax(0)
        sums = [float(log_likelihood_loss(each[None], labels[None], reduction="sum")) for each in (log_q, scaled)]
        rows.append([*sums, int((labels != VOID).sum())])
    return temperature, np.array(rows)


def cell(values: np.ndarray, draws: np.ndarray, sign: str = "") -> str:
    """A number and its interval."""
    low, high = np.quantile(draws, [0.025, 0.975])
    return f"{values.mean():{sign}.4f} ({low:{sign}.4f} … {high:{sign}.4f})"


def main(arguments: Sequence[str]) -> None:
    temperatures, sums = {}, {}
    for name, method, runs in parsed(arguments):
        found = [losses(run, method) for run in runs]
        temperatures[name] = [temperature for temperature, _ in found]
        sums[name] = np.stack([rows for _, rows in found])  # (S, I, 3)
    first = next(iter(sums))
    images = sums[first].shape[1]
    times = np.random.default_rng(SEED).multinomial(images, np.full(images, 1 / images), size=DRAWS)
    nll, drawn = {}, {}
    for name, rows in sums.items():
        total = rows.sum(axis=1)
        nll[name] = total[:, :2] / total[:, 2:]  # (S, 2)
        resampled = np.einsum("di,sic->dsc", times, rows)
        drawn[name] = (resampled[..., :2] / resampled[..., 2:]).mean(axis=1)  # (D, 2)
    print(f"{images} images\n")
    print(f"|  | temperature of each seed | NLL | with the temperature | {first} − this | with temperatures |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in sums:
        cells = [name, ", ".join(f"{each:.2f}" for each in temperatures[name])]
        cells += [cell(nll[name][:, column], drawn[name][:, column]) for column in (0, 1)]
        for column in (0, 1):
            difference = nll[first][:, column].mean() - nll[name][:, column].mean()
            draws = drawn[first][:, column] - drawn[name][:, column]
            cells.append("" if name == first else cell(np.array([difference]), draws, "+"))
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    run(main, __doc__)
