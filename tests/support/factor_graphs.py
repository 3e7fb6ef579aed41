"""Random factor graphs with few variables."""

from __future__ import annotations

import math
import random

import torch
from torch import Tensor

from densefield.structured import FactorGraph, Potts

Model = tuple[FactorGraph, dict[str, Tensor]]


def random_model(
    seed: int, *, tree: bool = False, strength: float = 1.0, batch: int = 2, largest: int = 3, potts: bool = True
) -> Model:
    """Two to six variables of one to four states, with table, Potts and unary regions of up to three variables."""
    draws = random.Random(seed)
    noise = torch.Generator().manual_seed(seed)
    labels = [draws.choice([1, 2, 2, 3, 3, 4]) for _ in range(draws.randint(2, 6))]
    chosen = tree_regions(draws, len(labels)) if tree else loopy_regions(draws, len(labels), largest)
    groups: dict[tuple[tuple[int, ...], bool], list[tuple[int, ...]]] = {}
    for region in chosen + [(i,) for i in range(len(labels)) if draws.random() < 0.7]:
        shape = tuple(labels[i] for i in region)
        weighted = potts and len(shape) == 2 and shape[0] == shape[1] and draws.random() < 0.5
        groups.setdefault((shape, weighted), []).append(region)
    regions: dict[str, object] = {}
    scores: dict[str, Tensor] = {}
    for (shape, weighted), found in groups.items():
        name = f"{'potts' if weighted else 'any'}{shape}"
        regions[name] = Potts(found) if weighted else found
        size = (batch, len(found)) if weighted else (batch, len(found), *shape)
        scores[name] = strength * torch.randn(size, generator=noise, dtype=torch.float64)
    return FactorGraph(labels, regions), scores


def loopy_regions(draws: random.Random, count: int, largest: int) -> list[tuple[int, ...]]:
    """One or more regions of two to `largest` variables, all over different variables."""
    found: dict[frozenset[int], tuple[int, ...]] = {}
    for _ in range(draws.randint(1, 2 * count)):
        region = tuple(draws.sample(range(count), draws.randint(2, min(largest, count))))
        found.setdefault(frozenset(region), region)
    return list(found.values())


def tree_regions(draws: random.Random, count: int) -> list[tuple[int, ...]]:
    """Regions without a loop; sometimes they form several components."""
    order = draws.sample(range(count), count)
    there = [order.pop()]
    regions = []
    while order:
        new = [order.pop() for _ in range(min(len(order), draws.randint(1, 2)))]
        if draws.random() < 0.8:
            region = [draws.choice(there), *new]
            draws.shuffle(region)
            regions.append(tuple(region))
        there += new
    return regions or [(there[0], there[1])]


def forbid(scores: dict[str, Tensor], seed: int, share: float = 0.2) -> dict[str, Tensor]:
    """The same scores with some −inf, never for label 0, so that a configuration stays possible."""
    noise = torch.Generator().manual_seed(seed)
    result = {}
    for name, given in scores.items():
        hit = torch.rand(given.shape, generator=noise) < share
        if given.ndim == 2:
            hit &= torch.zeros((), dtype=torch.bool)  # equal labels include 0, 0
        else:
            hit.flatten(2)[..., 0] = False
        result[name] = given.masked_fill(hit, -math.inf)
    return result
