"""Reads words of noisy characters with a network alone, with a chain, and with a second-order model.

    python examples/words.py

Characters are scikit-learn's digits with so much noise that many are illegible on their own. In the language of the
words, a character allows four successors, and the character before it makes two of them likely. All models are trained
from scratch with the same network and the same words:

  network              independent characters
  chain, exact         a score for every pair of neighbours as well; the likelihood by the junction tree
  chain, LBP           the same by loopy belief propagation, which is exact on a chain
  second order, exact  a score for every three characters in a row; the likelihood by the junction tree
  second order, LBP    the same by loopy belief propagation, which is an approximation here

It prints the fraction of correct characters in test words, made from other digits, and the gain over the network with a
95 % bootstrap confidence interval over words.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from densefield.structured import Beliefs, FactorGraph, junction_tree, loopy_belief_propagation, negative_log_likelihood

CHARACTERS, LENGTH = 10, 7
NOISE = 0.5  # standard deviation; ink is 1
Inference = Callable[[FactorGraph, Mapping[str, Tensor]], Beliefs]


def draw_words(count: int, rng: np.random.Generator, language: np.ndarray) -> np.ndarray:
    """Words (count, LENGTH) sampled with p(c | a, b) = language[a, b, c]."""
    words = rng.integers(CHARACTERS, size=(count, LENGTH))
    for place in range(2, LENGTH):
        p = language[words[:, place - 2], words[:, place - 1]].cumsum(1)
        words[:, place] = (rng.random((count, 1)) > p).sum(1).clip(max=CHARACTERS - 1)
    return words


def draw_language(rng: np.random.Generator) -> np.ndarray:
    """p(c | a, b): b allows four characters, a makes two of them likely."""
    language = np.full((CHARACTERS, CHARACTERS, CHARACTERS), 0.005)
    for b in range(CHARACTERS):
        four = rng.permutation(CHARACTERS)[:4]
        for a in range(CHARACTERS):
            language[a, b, four] = 0.08
            language[a, b, rng.permutation(four)[:2]] = 0.41
    return language / language.sum(2, keepdims=True)


def draw_pictures(words: np.ndarray, digits: dict[int, np.ndarray], rng: np.random.Generator) -> Tensor:
    """One picture (64,) for every character, (words, LENGTH, 64)."""
    pictures = np.empty((*words.shape, 64))
    for character, images in digits.items():
        here = words == character
        pictures[here] = images[rng.integers(len(images), size=int(here.sum()))]
    return torch.tensor(pictures + NOISE * rng.standard_normal(pictures.shape), dtype=torch.float32)


class Reader(nn.Module):
    """A network, and scores of neighbouring characters that do not depend on the image."""

    def __init__(self, order: int) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, CHARACTERS))
        self.neighbours = nn.ParameterList([torch.zeros(1, 1, *[CHARACTERS] * (k + 2)) for k in range(order)])
        regions: dict[str, object] = {"character": [[i] for i in range(LENGTH)]}
        for k in range(order):
            regions[f"next {k + 2}"] = [list(range(i, i + k + 2)) for i in range(LENGTH - k - 1)]
        self.graph = FactorGraph([CHARACTERS] * LENGTH, regions)

    def forward(self, pictures: Tensor) -> dict[str, Tensor]:
        """Scores of all regions."""
        return {"character": self.network(pictures), **{f"next {k + 2}": f for k, f in enumerate(self.neighbours)}}


def trained(order: int, inference: Inference, pictures: Tensor, words: Tensor, epochs: int) -> Reader:
    """A reader trained for some epochs (paper, Fig. 2)."""
    torch.manual_seed(20)
    reader = Reader(order)
    optimiser = torch.optim.Adam(reader.parameters(), lr=0.01, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    for _ in range(epochs):
        for batch in torch.randperm(len(words)).split(50):
            optimiser.zero_grad()
            negative_log_likelihood(reader.graph, reader(pictures[batch]), words[batch], inference).backward()
            optimiser.step()
        schedule.step()
    return reader


def difference_interval(difference: np.ndarray, samples: int = 2000) -> tuple[float, float]:
    """A 95 % bootstrap confidence interval of the mean over words."""
    rng = np.random.default_rng(77)
    means = difference[rng.integers(len(difference), size=(samples, len(difference)))].mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def main(words: int = 600, tests: int = 500, epochs: int = 12) -> dict[str, tuple[float, float, float]]:
    """Train all five, print a table, and return accuracy and the interval of the gain for each."""
    rng = np.random.default_rng(2015)
    data = load_digits()
    images, half = data.images.reshape(-1, 64) / 16, len(data.target) // 2
    language = draw_language(rng)
    parts = []
    for count, chosen in ((words, slice(None, half)), (tests, slice(half, None))):
        digits = {d: images[chosen][data.target[chosen] == d] for d in range(CHARACTERS)}
        text = draw_words(count, rng, language)
        parts.append((draw_pictures(text, digits, rng), torch.tensor(text)))
    (pictures, texts), (test_pictures, test_texts) = parts
    loopy = partial(loopy_belief_propagation, iterations=10, tolerance=1e-3)
    models: dict[str, tuple[int, Inference]] = {
        "network": (0, junction_tree),
        "chain, exact": (1, junction_tree),
        "chain, LBP": (1, loopy),
        "second order, exact": (2, junction_tree),
        "second order, LBP": (2, loopy),
    }
    table: dict[str, tuple[float, float, float]] = {}
    alone = np.zeros(tests)
    for name, (order, inference) in models.items():
        start = time.perf_counter()
        reader = trained(order, inference, pictures, texts, epochs)
        with torch.no_grad():
            read = inference(reader.graph, reader(test_pictures)).labels
        right = (read == test_texts).double().mean(1).numpy()
        alone = right if name == "network" else alone
        low, high = difference_interval(right - alone)
        table[name] = (float(right.mean()), low, high)
        gain = f"{right.mean() - alone.mean():+.3f} [{low:+.3f}, {high:+.3f}]"
        print(f"{name:20s} {right.mean():.3f}   {gain}   {time.perf_counter() - start:4.0f} s", flush=True)
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Reads words of noisy characters.")
    parser.add_argument("--words", type=int, default=600, help="number of training words")
    parser.add_argument("--tests", type=int, default=500, help="number of test words")
    parser.add_argument("--epochs", type=int, default=12)
    main(**vars(parser.parse_args()))
