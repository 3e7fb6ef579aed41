"""Labels from marginals by arg max and by expected IoU or Dice, on the scores of a strong network.

    python benchmarks/decoding.py
    python benchmarks/decoding.py choosing    # the same on the choosing images, for comparison: not held out

Needs `DENSEFIELD_SHARED`, by default `shared` next to the checkout: logits of 140 images of VOC's val, of which every
second one, by name, is for choosing (temperatures and the CRF), and the others are for judging. Differences are those
to the arg max of the network, with 95 % bootstrap intervals over images. Dataset rules are fitted on the marginals of
the judging images, without their labels, unless stated otherwise. CHOSEN was chosen on the choosing images
before judging.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from clock import machine

from densefield import Bilateral, DenseCRF, Spatial
from densefield.crf import Kernel
from densefield.datasets import VOC2012
from densefield.datasets.sample import Subset
from densefield.metrics import (
    DatasetDecoder,
    SegmentationMetrics,
    SegmentationResult,
    apply_temperature,
    compare_methods,
    decode,
    expected_score,
    fit_temperature,
)
from densefield.metrics.metrics import mean_iou
from densefield.metrics.summary import trimap_iou_3px
from densefield.runs import SavedScores
from densefield.runs.scored_images import Cached, ScoredImage, ScoreSource, Shrunk
from densefield.tuning import learn_crf

SHARED = Path(os.environ.get("DENSEFIELD_SHARED", Path(__file__).resolve().parents[2] / "shared"))
CLASSES, VOID = 21, 255
HAND_SET: list[Kernel] = [Spatial(3.0, weight=3.0), Bilateral(60.0, 10.0, weight=5.0)]
EVALUATIONS = 12  # of the loss in learning the CRF
CHOSEN = "learnt CRF | IoU of the dataset"

Decode = Callable[[np.ndarray], np.ndarray]


def learnt(source: ScoreSource) -> DenseCRF:
    """A CRF whose widths and weights are learnt on the likelihood at half the size, from narrow and light kernels."""
    start: list[Kernel] = [Spatial(1.5, weight=0.1), Bilateral(40.0, 8.0, weight=1.0)]
    crf = DenseCRF(CLASSES, start, iterations=5)
    learn_crf(crf, Cached(Shrunk(source, 2)), evaluations=EVALUATIONS)
    values = {name: np.asarray(value) for name, value in crf.values().items()}
    widths = values["bilateral.sigma"] * [2, 2, 1, 1, 1]
    return DenseCRF(
        CLASSES,
        [
            Spatial(values["spatial.sigma"] * 2, weight=values["spatial.weight"]),
            Bilateral(widths[:2], widths[2:], weight=values["bilateral.weight"]),
        ],
        iterations=5,
    )


class Marginals:
    """Calibrated marginals of the network, or of a CRF on its scores."""

    def __init__(self, crf: DenseCRF | None, choosing: ScoreSource, *, calibrated: bool = True) -> None:
        self.crf, self.temperature = crf, 1.0
        if calibrated:
            pairs = ((self.log_marginals(image), image.labels) for image in every(choosing))
            self.temperature = fit_temperature(pairs)

    def log_marginals(self, image: ScoredImage) -> np.ndarray:
        return image.log_marginals(self.crf).numpy()

    def __call__(self, image: ScoredImage) -> np.ndarray:
        return apply_temperature(self.log_marginals(image), self.temperature)

    def rule(self, source: ScoreSource) -> Decode:
        decoder = DatasetDecoder(CLASSES, "iou")
        for image in every(source):
            decoder.update(self(image))
        return decoder.fit().decode


def every(source: ScoreSource) -> Iterator[ScoredImage]:
    return (source[index] for index in range(len(source)))


def evaluated(source: ScoreSource, marginals: Marginals, rules: dict[str, Decode]) -> dict[str, SegmentationResult]:
    metrics = {name: SegmentationMetrics(CLASSES) for name in rules}
    for image in every(source):
        q = marginals(image)
        for name, rule in rules.items():
            metrics[name].update([torch.from_numpy(rule(q))], [image.labels], [image.id])
    return {name: each.compute() for name, each in metrics.items()}


def cell(value: float, difference: float, low: float, high: float) -> str:
    return f"{100 * value:.2f} | {100 * difference:+.2f} ({100 * low:+.2f} … {100 * high:+.2f})"


def pooled(result: SegmentationResult, network: SegmentationResult, metric: object) -> str:
    found = compare_methods(result, network, metric)  # type: ignore[arg-type]
    return cell(found.a, found.difference, found.low, found.high)  # type: ignore[arg-type]


def per_image(result: SegmentationResult, network: SegmentationResult) -> str:
    """The mean over images of the mean IoU of the classes in each, with its difference."""
    a, b = mean_iou(result.per_image), mean_iou(network.per_image)
    drawn = (a - b)[np.random.default_rng(0).integers(len(a), size=(1000, len(a)))].mean(axis=1)
    return cell(a.mean(), (a - b).mean(), *np.quantile(drawn, [0.025, 0.975]))


def print_classes(classes: tuple[str, ...], results: dict[str, SegmentationResult], names: list[str]) -> None:
    """The IoU of each class, and the number of images that it is in."""
    images = (results[names[0]].per_image.truth.sum(axis=1) > 0).sum(axis=0)
    print("\n| class | images | " + " | ".join(name.replace(" | ", ", ") for name in names) + " |")
    print("|---|---|" + "---|" * len(names))
    for number, name in enumerate(classes):
        values = (f"{100 * results[each].iou[number]:.1f}" for each in names)
        print(f"| {name} | {images[number]} | " + " | ".join(values) + " |")


def print_presence(source: ScoreSource, marginals: Marginals) -> None:
    """How often a class is in an image, by its largest marginal in it; without the background."""
    largest, there = [], []
    for image in every(source):
        counted = image.labels.numpy() != VOID
        largest.append(marginals(image)[1:, counted].max(axis=1))
        there.append(np.bincount(image.labels.numpy()[counted], minlength=CLASSES)[1:] > 0)
    q, present = np.concatenate(largest), np.concatenate(there)
    edges = [0, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.01]
    print("\n| largest marginal | pairs of image and class | mean | in the image |\n|---|---|---|---|")
    for low, high in itertools.pairwise(edges):
        chosen = (q >= low) & (q < high)
        if chosen.any():
            mean, frequency = q[chosen].mean(), present[chosen].mean()
            print(f"| {low} … {min(high, 1)} | {chosen.sum()} | {mean:.3f} | {frequency:.3f} |")


def main() -> None:
    source = SavedScores(SHARED / "data" / "logits", VOC2012(SHARED / "data" / "VOCdevkit", "val"))
    order = sorted(range(len(source)), key=lambda number: source.ids[number])
    choosing, judging = Subset(source, order[::2]), Subset(source, order[1::2])
    if sys.argv[1:] == ["choosing"]:
        judging = choosing
    tuned = learnt(choosing)
    scores = {
        "network": Marginals(None, choosing),
        "network, T = 1": Marginals(None, choosing, calibrated=False),
        "hand-set CRF": Marginals(DenseCRF(CLASSES, HAND_SET, iterations=5), choosing),
        "learnt CRF": Marginals(tuned, choosing),
    }
    results: dict[str, SegmentationResult] = {}
    for name, marginals in scores.items():
        rules: dict[str, Decode] = {
            "arg max": lambda q: decode(q, "accuracy"),
            "IoU of the image": lambda q: decode(q, "iou"),
            "Dice of the image": lambda q: decode(q, "dice"),
            "IoU of the dataset": marginals.rule(judging),
        }
        if name == "network":
            rules["IoU of the dataset, rule of the choosing images"] = marginals.rule(choosing)
            rules["IoU of the image, independent pixels"] = lambda q: decode(q, "iou", all_present=True)
        found = evaluated(judging, marginals, rules)
        results |= {f"{name} | {rule}": result for rule, result in found.items()}
    del results["network, T = 1 | arg max"]
    network = results["network | arg max"]
    print(machine(), "\n")
    print("temperatures:", ", ".join(f"{name} {each.temperature:.3f}" for name, each in scores.items()))
    print("learnt CRF:", {name: np.round(value, 3).tolist() for name, value in tuned.values().items()}, "\n")
    titles = ["mean IoU", "mean IoU per image", "pixel accuracy", "trimap IoU, 3 px"]
    print("| scores | labels | " + " | ".join(f"{title} | gain" for title in titles) + " |")
    print("|---|---|" + "---|---|" * len(titles))
    for name, result in results.items():
        cells = [
            pooled(result, network, "mean_iou"),
            per_image(result, network),
            pooled(result, network, "pixel_accuracy"),
            pooled(result, network, trimap_iou_3px),
        ]
        print(f"| {name} | " + " | ".join(cells) + " |")
    print_classes(source.classes, results, ["network | arg max", "network | IoU of the dataset", CHOSEN])
    for name in ("network", "network, T = 1", "learnt CRF"):
        pairs = [(q, decode(q)) for q in map(scores[name], every(judging))]
        print(f"\nexpected mean IoU per image, {name}: {100 * np.mean([expected_score(*pair) for pair in pairs]):.2f}")
    print_presence(judging, scores["network"])


if __name__ == "__main__":
    main()
