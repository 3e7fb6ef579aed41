"""Learns the parameters of `refine` on photos of the train split, and writes them to a file.

    python benchmarks/learn_refinement.py --output src/densefield/refinement/learnt.json

Masks: for rough masks of all kinds, and the most probable labels of a network, gradients of the log-likelihood of the
true labels near the edges, back-tracked through all iterations of the CRF, fit how scores grow with the distance from
the edge, the weight of colours, and the widths and weights of both kernels. Each of them follows a power law in the
roughness. Scores of a network: the same for the weight of colours and the kernels, on the network's own photos. Each
epoch gives candidates. Of these and the initial values, the one with the
highest mean IoU is written: for masks on other photos of the train split; for scores, whose mean IoU hardly depends on
the kernels, the one with the highest sum of mean IoU and accuracy near edges.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import rough_masks
import torch
from refinement import Judge
from rough_masks import RECIPES, Photo, network_input, network_photos, photos
from torch import Tensor
from torch.func import functional_call

from densefield import CRF, Custom, DenseCRF
from densefield.crf.label_mask import label_mask
from densefield.crf.options import CRFOptions
from densefield.crf.unary import unary
from densefield.refinement.mask_edges import MaskEdges
from densefield.refinement.parameters import FILE, Learnt, MaskParameters, PowerLaw, ScoreParameters, as_json, learnt
from densefield.refinement.rough_mask import EdgeBand, Model, edge_band, mask_colours, mask_edges, refine_mask
from densefield.refinement.roughness import estimate_roughness
from densefield.refinement.scores import kernels_for_scores, possible_labels, with_colours

SEED = 20151
MASK_KINDS = tuple(RECIPES)
NETWORK_KINDS = ("network scores", "network low resolution")
NETWORK_MASK = "network argmax"
THREADS = 2
STRENGTHS = (1.0, 1.5, 2.0, 3.0)
WEIGHTS = (1.0, 4.0, 8.0)
COLOUR_WIDTHS = (1.0, 0.65)
COLOUR_WEIGHTS = (1.0, 2.0)
LEAST_SIGMA = 1.5  # pixels: a narrower spatial kernel makes a lattice of more vertices than pixels
START = Learnt(
    MaskParameters(
        strength=PowerLaw(6.0),
        width=PowerLaw(1.0, 1.0),
        colour_weight=PowerLaw(0.3),
        sigma=PowerLaw(1.5),
        weight=PowerLaw(0.5),
        sigma_xy=PowerLaw(12.0),
        sigma_rgb=PowerLaw(12.0),
        bilateral_weight=PowerLaw(2.5),
    ),
    ScoreParameters(colour_weight=0.05, sigma=1.5, weight=0.5, sigma_xy=12.0, sigma_rgb=12.0, bilateral_weight=1.0),
)


@dataclass(frozen=True)
class MaskSample:
    """The pixels near the edges of a rough mask, with all that their scores are made of."""

    roughness: float  # units
    unit: float
    margins: Tensor  # (M,)
    own: Tensor  # (M,): the number of the mask's label
    other: Tensor  # (M,): that of the label across the edge
    likelihoods: Tensor  # (K, M): of colours
    features: Tensor  # (M, 5)
    truth: Tensor  # (M,): the number of the true label; -1 if it is void or not in the mask


def mask_sample(photo: Photo, rough: npt.NDArray[np.uint8], parameters: MaskParameters) -> MaskSample | None:
    """Return the sample of a rough mask; None if it has one label, or the photo no edges."""
    mask = label_mask(rough)
    if len(mask.labels) < 2:
        return None
    edges = mask_edges(mask, photo.image.reshape(-1, 3), (1.0, 1.0), THREADS)
    roughness = estimate_roughness(edges)
    if roughness is None:
        return None
    band = edge_band(edges, roughness, Model(parameters))
    numbers = np.full(256, -1)
    numbers[mask.labels] = np.arange(len(mask.labels))
    points, units = band.points, roughness.width / edges.unit
    return MaskSample(
        units,
        edges.unit,
        torch.from_numpy(band.margins.reshape(-1)[points].copy()),
        *(torch.from_numpy(each[points].astype(np.int64)) for each in _sides(edges)),
        torch.from_numpy(_likelihoods(band, parameters.width(units) * edges.unit)),
        torch.from_numpy(band.features),
        torch.from_numpy(numbers[photo.truth.reshape(-1)[points]]),
    )


def _sides(edges: MaskEdges) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return each pixel's label and that of the nearest pixel with another one."""
    labels = edges.labels.reshape(-1)
    nearest = np.empty(labels.size, np.int32)
    edges.native.distances(np.empty(labels.size, np.float32), nearest)
    return labels, labels[nearest]


def _likelihoods(band: EdgeBand, core: float) -> npt.NDArray[np.float32]:
    """Return the log-likelihoods (K, M) of the points' colours."""
    likelihoods = np.zeros_like(band.scores)
    mask_colours(band.edges, band.margins, core).add_to(likelihoods, 1.0, band.points)
    return likelihoods


class MaskModel(torch.nn.Module):
    """`edge_band` as a differentiable function of its parameters."""

    def __init__(self, parameters: MaskParameters) -> None:
        super().__init__()
        laws = np.array([astuple(law) for law in astuple_of(parameters)])
        self.logs = torch.nn.Parameter(torch.tensor(np.log(laws[:, 0]), dtype=torch.float32))
        self.powers = torch.nn.Parameter(torch.tensor(laws[:, 1], dtype=torch.float32))
        self.crfs: dict[int, DenseCRF] = {}

    def parameters_now(self) -> MaskParameters:
        """Return the parameters as numbers."""
        values, powers = self.logs.exp().tolist(), self.powers.tolist()
        names = [field.name for field in fields(MaskParameters)]
        return MaskParameters(**{name: PowerLaw(*law) for name, *law in zip(names, values, powers, strict=True)})

    def scores(self, sample: MaskSample) -> Tensor:
        """Return the scores (K, M)."""
        strength, width, colour_weight = self._at(sample.roughness)[:3]
        steepness = sample.margins / (width * sample.unit)
        half = strength / 2 * (1 - torch.exp(-(steepness**2))) * sample.margins.sign()
        count = len(sample.likelihoods)
        rest = -strength.expand_as(half) if count > 2 else torch.zeros_like(half)
        scores = (
            rest.repeat(count, 1).scatter(0, sample.own[None], half[None]).scatter(0, sample.other[None], -half[None])
        )
        return scores + colour_weight * sample.likelihoods

    def forward(self, sample: MaskSample) -> Tensor:
        """Return log marginals (K, M)."""
        sigma, weight, sigma_xy, sigma_rgb, bilateral_weight = self._at(sample.roughness)[3:]
        count = len(sample.likelihoods)
        if count not in self.crfs:
            kernels = [Custom("place", sigma=[1.0] * 2), Custom("pixel", sigma=[1.0] * 5)]
            self.crfs[count] = DenseCRF(count, kernels, threads=THREADS)
        widths = torch.stack([sigma_xy * sample.unit] * 2 + [sigma_rgb] * 3)
        state = {
            "place.log_sigma": torch.stack([sigma * sample.unit] * 2).log(),
            "place.log_weight": weight.log(),
            "pixel.log_sigma": widths.log(),
            "pixel.log_weight": bilateral_weight.log(),
        }
        features = {"place": sample.features.T[None, :2], "pixel": sample.features.T[None]}
        return functional_call(self.crfs[count], state, (self.scores(sample)[None],), {"features": features})[0]

    def _at(self, roughness: float) -> Sequence[Tensor]:
        return (self.logs + self.powers * np.log(roughness)).exp().unbind()


def astuple_of(parameters: MaskParameters) -> list[PowerLaw]:
    """Return the laws in the order of the fields."""
    return [getattr(parameters, field.name) for field in fields(parameters)]


def log_likelihood_loss(log_marginals: Tensor, truth: Tensor) -> Tensor:
    """Return the mean of -log q of the true labels, where they are known."""
    return torch.nn.functional.nll_loss(log_marginals.T, truth, ignore_index=-1)


Case = tuple[Photo, npt.NDArray[np.uint8]]  # a photo and a rough mask


def mask_cases(chosen: Iterable[Photo], scored: Iterable[Photo]) -> Iterator[Case]:
    """Iterate over rough masks of photos, and the most probable labels of those with a network's scores."""
    for photo in chosen:
        for kind in MASK_KINDS:
            yield photo, rough_masks.rough_mask(photo, kind)
    for photo in scored:
        yield photo, network_input(photo, NETWORK_MASK)["labels"]


def learn_masks(start: MaskParameters, cases: Iterable[Case], epochs: int) -> Iterator[MaskParameters]:
    """Iterate over candidates: the initial values, then the mean of the values of each epoch's second half.

    Each epoch's values are candidates with greater strengths too: a likelihood is lowered by single errors of confident
    scores, the mean IoU is not.
    """
    yield start
    samples = [
        sample
        for photo, rough in cases
        if (sample := mask_sample(photo, rough, start)) is not None and bool((sample.truth >= 0).any())
    ]
    print(f"{len(samples)} rough masks", file=sys.stderr)
    model = MaskModel(start)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    order = np.random.default_rng(SEED)
    for epoch in range(epochs):
        losses, means = [], []
        batches = np.array_split(order.permutation(len(samples)), max(1, len(samples) // 8))
        for step, batch in enumerate(batches):
            optimizer.zero_grad()
            for place in batch:
                loss = log_likelihood_loss(model(samples[place]), samples[place].truth)
                (loss / len(batch)).backward()
                losses.append(loss.item())
            optimizer.step()
            if step >= len(batches) // 2:
                means.append(torch.stack([model.logs.detach().clone(), model.powers.detach().clone()]))
        averaged = MaskModel(start)
        with torch.no_grad():
            averaged.logs[:], averaged.powers[:] = torch.stack(means).mean(dim=0)
        print(f"epoch {epoch + 1}: -log q {np.mean(losses):.4f}  {averaged.parameters_now()}", file=sys.stderr)
        for factor in STRENGTHS:
            yield stronger(averaged.parameters_now(), factor)


def stronger(parameters: MaskParameters, factor: float) -> MaskParameters:
    """Return parameters with a strength that is higher by a factor at a roughness of 1, and equal at 16."""
    law = parameters.strength
    return replace(parameters, strength=PowerLaw(law.value * factor, law.power - np.log(factor) / np.log(16)))


def mean_iou_of_masks(parameters: MaskParameters, cases: Iterable[Case]) -> float:
    """Return the mean IoU over rough masks."""
    values = []
    for photo, rough in cases:
        mask = label_mask(rough)
        if len(mask.labels) > 1:
            found = refine_mask(mask, photo.image.reshape(-1, 3), Model(parameters), threads=THREADS)
            values.append(Judge(photo.truth)(mask.labels[found.marginals.argmax(axis=0)])["iou"])
    return 100 * float(np.mean(values))


def learn_scores(start: ScoreParameters, epochs: int) -> Iterator[ScoreParameters]:
    """Iterate over candidates for scores of a network, like learn_masks().

    Each epoch's values are candidates with larger weights, narrower colours and a larger weight of colours too.
    """
    yield start
    samples = []
    for photo in network_photos("train"):
        truth = torch.from_numpy(np.where(photo.truth == rough_masks.VOID, -1, photo.truth.astype(np.int64)))
        image = torch.from_numpy(photo.image).permute(2, 0, 1)[None].float()
        for kind in NETWORK_KINDS:
            scores = unary(**network_input(photo, kind)).scores
            problem = CRF(kernels_for_scores(start, 1.0)).problem(scores, photo.image)
            coloured = with_colours(problem, photo.image, CRFOptions(threads=THREADS), weight=1.0).scores
            likelihoods = torch.from_numpy(coloured - problem.scores).half()
            samples.append((torch.from_numpy(scores)[None].float(), likelihoods, image, truth))
    crf = DenseCRF(len(samples[0][0][0]), kernels_for_scores(start, 1.0), threads=THREADS)
    log_weight = torch.nn.Parameter(torch.tensor(start.colour_weight).log())
    optimizer = torch.optim.Adam([log_weight, *crf.parameters()], lr=0.03)
    order = np.random.default_rng(SEED)
    for epoch in range(epochs):
        losses = []
        for batch in np.array_split(order.permutation(len(samples)), max(1, len(samples) // 8)):
            optimizer.zero_grad()
            for place in batch:
                scores, likelihoods, image, truth = samples[place]
                coloured = scores + log_weight.exp() * likelihoods.float().reshape(scores.shape)
                loss = log_likelihood_loss(crf(coloured, image)[0].flatten(1), truth.flatten())
                (loss / len(batch)).backward()
                losses.append(loss.item())
            optimizer.step()
        spatial, bilateral = crf.to_numpy().kernels
        widths = (np.mean(spatial.sigma), spatial.weight, np.mean(bilateral.sigma_xy), np.mean(bilateral.sigma_rgb))
        found = ScoreParameters(log_weight.exp().item(), *(float(each) for each in (*widths, bilateral.weight)))
        found = replace(found, sigma=max(found.sigma, LEAST_SIGMA))
        print(f"epoch {epoch + 1}: -log q {np.mean(losses):.4f}  {found}", file=sys.stderr)
        for factor, narrower, coloured in product(WEIGHTS, COLOUR_WIDTHS, COLOUR_WEIGHTS):
            weights = {"weight": factor * found.weight, "bilateral_weight": factor * found.bilateral_weight}
            colours = {"sigma_rgb": narrower * found.sigma_rgb, "colour_weight": coloured * found.colour_weight}
            yield replace(found, **weights, **colours)


def value_of_scores(parameters: ScoreParameters, chosen: Sequence[Photo]) -> float:
    """Return the mean IoU over kinds and photos plus the accuracy near edges, in percent."""
    crf = CRF(kernels_for_scores(parameters, 1.0), threads=THREADS)
    values = []
    for photo in chosen:
        for kind in NETWORK_KINDS:
            scores = possible_labels(unary(**network_input(photo, kind)), THREADS)
            problem = crf.problem(scores.scores, photo.image)
            q = crf.marginals_of(with_colours(problem, photo.image, crf.options, weight=parameters.colour_weight))
            found = Judge(photo.truth)(scores.expand(q).argmax(axis=0))
            values.append((found["iou"], found["edge"]))
    return 100 * float(np.nanmean(values, axis=0).sum())


def best(candidates: Iterator[Any], value: Callable[[Any], Any]) -> Any:
    """Return the candidate of the highest value."""
    found = []
    for candidate in candidates:
        found.append((value(candidate), candidate))
        print(f"value {found[-1][0]:.3f}", file=sys.stderr)
    return max(found, key=lambda each: each[0])[1]


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=FILE, help="the file to write")
    parser.add_argument("--photos", type=int, default=48, help="photos for gradients")
    parser.add_argument("--epochs", type=int, default=1, help="passes over these photos")
    parser.add_argument("--judged", type=int, default=24, help="photos that decide among candidates")
    parser.add_argument("--parts", nargs="+", choices=("mask", "scores"), default=["mask", "scores"])
    options = parser.parse_args(arguments)
    mask, scores = learnt().mask, learnt().scores  # of parts that are not learnt again
    if "mask" in options.parts:
        chosen = list(photos("train", options.photos + options.judged))
        places = np.linspace(0, len(chosen) - 1, options.judged).astype(int)
        judged = [chosen[place] for place in places]
        learning = [photo for place, photo in enumerate(chosen) if place not in places]
        scored = list(network_photos("train"))
        cases = mask_cases(learning, scored[::2])
        judging = list(mask_cases(judged, scored[1::2]))
        mask = best(learn_masks(START.mask, cases, options.epochs), lambda each: mean_iou_of_masks(each, judging))
    if "scores" in options.parts:
        judged = list(network_photos("train"))
        scores = best(learn_scores(START.scores, options.epochs), lambda each: value_of_scores(each, judged))
    temporary = options.output.with_suffix(".part")
    temporary.write_text(as_json(Learnt(mask, scores)), encoding="utf-8")
    temporary.replace(options.output)
    print(options.output.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main(sys.argv[1:])
