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
95 % bootstrap confidence interval over words. demo/words.png shows some words, and how each model reads them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import torch
from gains import GainTable, save_picture
from matplotlib.figure import Figure
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


def draw_words_read(pictures: Tensor, readings: Mapping[str, Tensor], shown: int = 3) -> Figure:
    """Words as they look, and below each character what every model reads; wrong ones are red."""
    figure = Figure(figsize=(9, 2.6 * shown), layout="constrained")
    axes = figure.subplots(shown, LENGTH)
    for word, row in enumerate(axes):
        for place, ax in enumerate(row):
            ax.imshow(pictures[word, place].reshape(8, 8).numpy(), cmap="gray_r")
            ax.set_axis_off()
            for line, (name, read) in enumerate(readings.items()):
                style = {"transform": ax.transAxes, "va": "top", "fontsize": 9}
                height = -0.05 - 0.16 * line
                colour = "black" if read[word, place] == readings["truth"][word, place] else "red"
                ax.text(0.5, height, str(int(read[word, place])), color=colour, **style)
                if place == 0:
                    ax.text(0.3, height, f"{name}:", ha="right", **style)
    return figure


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
    table = GainTable("correct characters", 77)
    readings: dict[str, Tensor] = {"truth": test_texts}
    for name, (order, inference) in models.items():
        reader = trained(order, inference, pictures, texts, epochs)
        with torch.no_grad():
            readings[name] = inference(reader.graph, reader(test_pictures)).labels
        table.add(name, (readings[name] == test_texts).double().mean(1).numpy())
    save_picture(draw_words_read(test_pictures, readings), "words.png")
    return table.rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Reads words of noisy characters.")
    parser.add_argument("--words", type=int, default=600, help="number of training words")
    parser.add_argument("--tests", type=int, default=500, help="number of test words")
    parser.add_argument("--epochs", type=int, default=12)
    main(**vars(parser.parse_args()))
