"""Segments scenes with a network alone, with a grid of neighbouring pixels, and with the dense CRF.

    python examples/grid.py

A small network is trained on synthetic scenes. Then each of four models is trained jointly with a copy of the network,
for the same number of steps:

  network              the network alone: pixels are independent
  grid CRF, labelling  four neighbours, with Potts weights that decrease with the colour difference; loopy belief
                       propagation; the likelihood of the labelling, whose gradient is predicted minus true marginals
                       (paper, Fig. 2)
  grid CRF, marginals  the same with the likelihood of the marginals, differentiated through the iterations
  dense CRF            all pairs of pixels, by mean field; the likelihood of the marginals (paper, Fig. 3)

It prints the fraction of correct pixels on other scenes and the gain over the network, with a 95 % bootstrap confidence
interval over scenes. demo/grid.png shows some scenes with the labels of each model.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import torch
from gains import GainTable, save_picture
from matplotlib.figure import Figure
from torch import Tensor, nn

from densefield import Bilateral, DenseCRF, Spatial
from densefield.networks import small_network
from densefield.nn import log_likelihood_loss
from densefield.scenes import SceneDataset
from densefield.structured import GridGraph, grid_belief_propagation, negative_log_likelihood

SIDE, CLASSES = 96, 4
INFERENCE = partial(grid_belief_propagation, iterations=10, tolerance=0)


class GridCRF(nn.Module):
    """Potts weights w₀ + w₁ exp(-‖c_i − c_j‖²/2σ²) of neighbouring pixels, and a factor for the network's scores.

    The network's scores of neighbours are correlated, but the grid treats them as independent; the factor compensates.
    """

    def __init__(self, labelling: bool) -> None:
        super().__init__()
        self.labelling = labelling  # whether the loss is the likelihood of the labelling or of the marginals
        self.log_factor = nn.Parameter(torch.tensor(-1.0))
        self.graph = GridGraph(SIDE, SIDE, num_states=CLASSES + 1, potts=True)
        self.weights = nn.Parameter(torch.tensor([0.3, 1.0]))
        self.log_sigma = nn.Parameter(torch.tensor(3.0))

    def forward(self, scores: Tensor, image: Tensor) -> dict[str, Tensor]:
        """Scores of pixels and of pairs."""
        found = {"pixel": self.log_factor.exp() * scores}
        for name, step in (("right", image[..., 1:] - image[..., :-1]), ("down", image[:, :, 1:] - image[:, :, :-1])):
            alike = (-(step**2).sum(1) / (2 * (2 * self.log_sigma).exp())).exp()
            found[name] = self.weights[0] + self.weights[1] * alike
        return found


def tensors(images: int, first: int) -> tuple[Tensor, Tensor]:
    """Colours 0…255 (N, 3, H, W) and labels (N, H, W) of scenes."""
    scenes = [*SceneDataset(images, size=(SIDE, SIDE), object_classes=CLASSES, seed=404, first=first)]
    colours = np.stack([scene.image for scene in scenes]).astype(np.float32)
    return torch.tensor(colours).movedim(-1, 1), torch.tensor(np.stack([scene.labels for scene in scenes])).long()


def scores_of(network: nn.Module, image: Tensor) -> Tensor:
    """Scores (B, L, H, W) of colours 0…255."""
    scores: Tensor = network((image - 115) / 58)
    return scores


def top_of(name: str) -> GridCRF | DenseCRF | None:
    """The CRF on top of the network, if any."""
    if name.startswith("grid CRF"):
        return GridCRF(labelling=name.endswith("labelling"))
    if name == "dense CRF":
        return DenseCRF(CLASSES + 1, [Spatial(3, weight=1), Bilateral(30, 15, weight=3)], iterations=5)
    return None


def marginals_of(network: nn.Module, top: GridCRF | DenseCRF | None, image: Tensor) -> Tensor:
    """Log marginals (B, L, H, W)."""
    scores = scores_of(network, image)
    if isinstance(top, GridCRF):
        return INFERENCE(top.graph, top(scores, image)).log_marginals["pixel"]
    return scores.log_softmax(1) if top is None else top(scores, image)


def loss_of(network: nn.Module, top: GridCRF | DenseCRF | None, image: Tensor, label: Tensor) -> Tensor:
    """The negative log-likelihood per pixel, of the labelling or of the marginals."""
    if isinstance(top, GridCRF) and top.labelling:
        return negative_log_likelihood(top.graph, top(scores_of(network, image), image), label, INFERENCE)
    return log_likelihood_loss(marginals_of(network, top, image), label)


def train(
    modules: nn.ModuleList, loss: Callable[[Tensor, Tensor], Tensor], data: tuple[Tensor, Tensor], steps: int
) -> None:
    """Train on batches of eight scenes, with a higher learning rate for the CRF."""
    torch.manual_seed(55)
    groups = [{"params": module.parameters(), "lr": rate} for module, rate in zip(modules, (2e-3, 2e-2), strict=False)]
    optimiser = torch.optim.Adam(groups)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, [group["lr"] for group in groups], total_steps=steps)
    modules.train()
    for _ in range(steps):
        batch = torch.randint(len(data[0]), (8,))
        optimiser.zero_grad()
        loss(data[0][batch], data[1][batch]).backward()
        optimiser.step()
        schedule.step()
    modules.eval()


def draw_results(results: Mapping[str, Tensor], shown: int = 4) -> Figure:
    """Scenes, true labels, and the labels of every model, one scene per row."""
    shown = min(shown, *(len(pictures) for pictures in results.values()))
    figure = Figure(figsize=(2 * len(results), 2.05 * shown), layout="constrained")
    for scene, row in enumerate(figure.subplots(shown, len(results), squeeze=False)):
        for ax, (name, pictures) in zip(row, results.items(), strict=True):
            ax.imshow(pictures[scene].numpy(), cmap="Set2", vmin=0, vmax=7, interpolation="nearest")
            ax.set_title(name if scene == 0 else "", fontsize=9)
            ax.set_axis_off()
    return figure


def main(
    scenes: int = 160, tests: int = 60, before: int = 250, joint: int = 60
) -> dict[str, tuple[float, float, float]]:
    """Train all four, print a table, and return accuracy and the interval of the gain for each."""
    data, (images, truth) = tensors(scenes, 0), tensors(tests, 10_000)
    torch.manual_seed(56)
    start_network = small_network(CLASSES + 1, width=64)
    train(nn.ModuleList([start_network]), partial(loss_of, start_network, None), data, before)
    table = GainTable("correct pixels", 79)
    results = {"scene": images.movedim(1, -1) / 255, "truth": truth}
    for name in ("network", "grid CRF, labelling", "grid CRF, marginals", "dense CRF"):
        network, top = copy.deepcopy(start_network), top_of(name)
        loss = partial(loss_of, network, top)
        modules = nn.ModuleList([module for module in (network, top) if module is not None])
        train(modules, loss, data, joint)
        found = []
        with torch.no_grad():
            for image in images.split(10):
                found.append(marginals_of(network, top, image).argmax(1))
        results[name] = torch.cat(found)
        table.add(name, (results[name] == truth).double().mean((1, 2)).numpy())
    save_picture(draw_results(results), "grid.png")
    return table.rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Segments scenes with and without a CRF.")
    parser.add_argument("--scenes", type=int, default=160, help="number of training scenes")
    parser.add_argument("--tests", type=int, default=60, help="number of test scenes")
    parser.add_argument("--before", type=int, default=250, help="training steps of the network alone")
    parser.add_argument("--joint", type=int, default=60, help="joint training steps of each model")
    main(**vars(parser.parse_args()))
