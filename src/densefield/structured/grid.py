"""A grid of pixels, each joined to its four neighbours: scores as networks give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import SupportsIndex

import torch
from torch import Tensor

from densefield.errors import InputError, InputTypeError
from densefield.structured.factor_graph import FactorGraph, Potts, Scores, batch_size, checked_scores


class GridGraph:
    """F(x, y) over H × W pixels of L labels, with a region for every pixel and every pair of neighbours (paper, Eq. 3).

    Scores by name:

    * ``pixel``: (B, L, H, W), a network's logits;
    * ``right``: of each pixel and the one to the right of it, (B, H, W-1, L, L), its label first;
    * ``down``: of each pixel and the one below, (B, H-1, W, L, L).

    With ``potts`` those of pairs are weights (B, H, W-1) and (B, H-1, W), which count where labels are equal. The
    first three axes of scores of pairs may be 1, for what all pixels share.

    >>> import torch
    >>> grid = GridGraph(2, 3, labels=4, potts=True)
    >>> scores = {"pixel": torch.zeros(1, 4, 2, 3), "right": torch.ones(1, 1, 1), "down": torch.ones(1, 1, 1)}
    >>> grid.score(scores, torch.tensor([[[0, 0, 1], [0, 2, 1]]]))
    tensor([3.])
    """

    def __init__(self, rows: int, columns: int, labels: int, *, potts: bool = False) -> None:
        self.rows, self.columns = _checked_size(rows, "rows"), _checked_size(columns, "columns")
        self.labels = _checked_size(labels, "labels")
        self.potts = bool(potts)

    def __repr__(self) -> str:
        return f"GridGraph({self.rows}, {self.columns}, labels={self.labels}, potts={self.potts})"

    @property
    def pairs(self) -> dict[str, tuple[int, int]]:
        """How many rows and columns of pairs there are."""
        return {"right": (self.rows, self.columns - 1), "down": (self.rows - 1, self.columns)}

    def checked(self, scores: Scores) -> dict[str, Tensor]:
        """Scores at full size; raises for what does not fit."""
        names = ("pixel", "right", "down")
        if not isinstance(scores, Mapping) or set(scores) != set(names):
            given = ", ".join(map(str, scores)) if isinstance(scores, Mapping) else type(scores).__name__
            raise InputError(f"the scores are of {given}, expected those of {', '.join(names)}.")
        table = () if self.potts else (self.labels, self.labels)
        shapes = {name: (*size, *table) for name, size in self.pairs.items()}
        pixel = {"pixel": (self.labels, self.rows, self.columns)}
        full = checked_scores(scores, {**pixel, **shapes}, shared=2)
        if tuple(scores["pixel"].shape) != tuple(full["pixel"].shape):
            raise InputError(
                f"the scores 'pixel' have shape {tuple(scores['pixel'].shape)}, expected {tuple(full['pixel'].shape)}."
            )
        return full

    def score(self, scores: Scores, labels: Tensor) -> Tensor:
        """F(x, y) (B,) of labels (B, H, W), with gradients."""
        full = self.checked(scores)
        y = self._checked_labels(labels, batch_size(full))
        total = full["pixel"].gather(1, y.unsqueeze(1)).sum((1, 2, 3))
        for name, (first, second) in {"right": (y[:, :, :-1], y[:, :, 1:]), "down": (y[:, :-1], y[:, 1:])}.items():
            if self.potts:
                chosen = full[name].where(first == second, 0.0)
            else:
                chosen = full[name].flatten(3).gather(3, (first * self.labels + second).unsqueeze(3)).squeeze(3)
            total = total + chosen.sum((1, 2))
        return total

    def factor_graph(self) -> FactorGraph:
        """The same as a general graph, with groups of the same names; slower, and the measure of what is quick."""
        index = torch.arange(self.rows * self.columns).reshape(self.rows, self.columns)
        regions: dict[str, object] = {"pixel": index.reshape(-1, 1)}
        for name, (first, second) in {"right": (index[:, :-1], index[:, 1:]), "down": (index[:-1], index[1:])}.items():
            if first.numel():
                pairs = torch.stack([first.flatten(), second.flatten()], 1)
                regions[name] = Potts(pairs) if self.potts else pairs
        return FactorGraph([self.labels] * index.numel(), regions)

    def factor_scores(self, scores: Scores) -> dict[str, Tensor]:
        """The scores for ``factor_graph()``, (B, R, L_1, …)."""
        full = self.checked(scores)
        flat = {"pixel": full["pixel"].flatten(2).transpose(1, 2)}
        for name, (rows, columns) in self.pairs.items():
            if rows * columns:
                flat[name] = full[name].flatten(1, 2)
        return flat

    def _checked_labels(self, labels: object, batch: int) -> Tensor:
        if not isinstance(labels, Tensor) or labels.is_floating_point() or labels.dtype == torch.bool:
            kind = labels.dtype if isinstance(labels, Tensor) else type(labels).__name__
            raise InputTypeError(f"the labels are {kind}, expected a torch tensor of integers.")
        if tuple(labels.shape) != (batch, self.rows, self.columns):
            raise InputError(
                f"the labels have shape {tuple(labels.shape)}, expected {(batch, self.rows, self.columns)}."
            )
        if labels.numel() and not (int(labels.min()) >= 0 and int(labels.max()) < self.labels):
            raise InputError(
                f"the labels are from {int(labels.min())} to {int(labels.max())}, expected 0 to {self.labels - 1}: the "
                "likelihood of a configuration needs all of it, so void pixels must be given a label or cut away."
            )
        return labels.long()


def grid_tree_weights(grid: GridGraph) -> dict[str, Tensor]:
    """How probable it is that a pair is in a spanning tree: weights for ``grid_belief_propagation``.

    Four trees are equally probable: all rows, joined along the first or the last column; or all columns, joined along
    the first or the last row. Nearly all pairs have 1/2.

    >>> grid_tree_weights(GridGraph(3, 3, labels=2))["right"]
    tensor([[0.7500, 0.7500],
            [0.5000, 0.5000],
            [0.7500, 0.7500]])
    """
    right, down = (torch.full(size, 0.5) for size in grid.pairs.values())
    for edge in (0, -1):
        right[edge] += 0.25
        down[:, edge] += 0.25
    return {"right": right, "down": down}


def _checked_size(size: object, name: str) -> int:
    if isinstance(size, bool) or not isinstance(size, SupportsIndex) or size.__index__() < 1:
        raise InputError(f"{name} is {size!r}, expected an integer, 1 or more.")
    return size.__index__()
