"""Grids of pixels with four neighbours each, scored by a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import SupportsIndex

import torch
from torch import Tensor

from densefield.errors import InputError
from densefield.structured.factor_graph import (
    FactorGraph,
    Potts,
    Scores,
    batch_size,
    checked_scores,
    integer_labels,
    wrong_groups,
)


class GridGraph:
    """A factor graph over H × W pixels: a region for every pixel and every pair of neighbours (paper, Eq. 3).

    Scores by name:

    * ``pixel``: (B, L, H, W), a network's logits;
    * ``right``: each pixel and its right neighbour, (B, H, W-1, L, L), the pixel's label first;
    * ``down``: each pixel and the one below, (B, H-1, W, L, L).

    With ``potts``, the scores of pairs are weights (B, H, W-1) and (B, H-1, W) that are added if labels are equal. The
    first three axes of the scores of pairs may be 1 if all items, rows or columns share them.

    Parameters
    ----------
    rows, columns
        Size of the grid, H and W.
    num_states
        Number of labels L of each pixel.
    potts
        Whether pairs are scored by one weight for equal labels instead of a table.

    Examples
    --------
    >>> import torch
    >>> grid = GridGraph(2, 3, num_states=4, potts=True)
    >>> scores = {"pixel": torch.zeros(1, 4, 2, 3), "right": torch.ones(1, 1, 1), "down": torch.ones(1, 1, 1)}
    >>> grid.score(scores, torch.tensor([[[0, 0, 1], [0, 2, 1]]]))
    tensor([3.])
    """

    def __init__(self, rows: int, columns: int, num_states: int, *, potts: bool = False) -> None:
        self.rows, self.columns = _checked_size(rows, "rows"), _checked_size(columns, "columns")
        self.num_states = _checked_size(num_states, "num_states")
        self.potts = bool(potts)

    def __repr__(self) -> str:
        return f"GridGraph({self.rows}, {self.columns}, num_states={self.num_states}, potts={self.potts})"

    @property
    def pairs(self) -> dict[str, tuple[int, int]]:
        """Numbers of rows and columns of pairs, by name."""
        return {"right": (self.rows, self.columns - 1), "down": (self.rows - 1, self.columns)}

    def checked(self, scores: Scores) -> dict[str, Tensor]:
        """The `scores` expanded to full size; raises if they do not fit the grid."""
        names = ("pixel", "right", "down")
        if not isinstance(scores, Mapping) or set(scores) != set(names):
            raise wrong_groups(scores, names)
        table = () if self.potts else (self.num_states, self.num_states)
        shapes = {name: (*size, *table) for name, size in self.pairs.items()}
        pixel = {"pixel": (self.num_states, self.rows, self.columns)}
        full = checked_scores(scores, {**pixel, **shapes}, shared=2)
        if tuple(scores["pixel"].shape) != tuple(full["pixel"].shape):
            raise InputError(
                f"the scores 'pixel' have shape {tuple(scores['pixel'].shape)}, expected {tuple(full['pixel'].shape)}."
            )
        return full

    def score(self, scores: Scores, labels: Tensor) -> Tensor:
        """The score F(x, y) (B,) of a labelling, with gradients.

        Parameters
        ----------
        scores
            The scores of pixels and pairs.
        labels
            The label of each pixel, (B, H, W) integers.
        """
        full = self.checked(scores)
        y = self._checked_labels(labels, batch_size(full))
        total = full["pixel"].gather(1, y.unsqueeze(1)).sum((1, 2, 3))
        for name, (first, second) in {"right": (y[:, :, :-1], y[:, :, 1:]), "down": (y[:, :-1], y[:, 1:])}.items():
            if self.potts:
                chosen = full[name].where(first == second, 0.0)
            else:
                chosen = full[name].flatten(3).gather(3, (first * self.num_states + second).unsqueeze(3)).squeeze(3)
            total = total + chosen.sum((1, 2))
        return total

    def factor_graph(self) -> FactorGraph:
        """The same model as a general graph with the same group names: slower, used as the reference."""
        index = torch.arange(self.rows * self.columns).reshape(self.rows, self.columns)
        regions: dict[str, object] = {"pixel": index.reshape(-1, 1)}
        for name, (first, second) in {"right": (index[:, :-1], index[:, 1:]), "down": (index[:-1], index[1:])}.items():
            if first.numel():
                pairs = torch.stack([first.flatten(), second.flatten()], 1)
                regions[name] = Potts(pairs) if self.potts else pairs
        return FactorGraph([self.num_states] * index.numel(), regions)

    def factor_scores(self, scores: Scores) -> dict[str, Tensor]:
        """The `scores` for ``factor_graph()``, (B, R, L_1, …)."""
        full = self.checked(scores)
        flat = {"pixel": full["pixel"].flatten(2).transpose(1, 2)}
        for name, (rows, columns) in self.pairs.items():
            if rows * columns:
                flat[name] = full[name].flatten(1, 2)
        return flat

    def _checked_labels(self, labels: object, batch: int) -> Tensor:
        labels = integer_labels(labels, (batch, self.rows, self.columns))
        if labels.numel() and not (int(labels.min()) >= 0 and int(labels.max()) < self.num_states):
            raise InputError(
                f"the labels are from {int(labels.min())} to {int(labels.max())}, expected 0 to {self.num_states - 1}. "
                "The likelihood needs a label for every pixel: give void pixels a label, or crop them."
            )
        return labels


def grid_tree_weights(grid: GridGraph) -> dict[str, Tensor]:
    """Probability that a spanning tree contains a pair: weights for ``grid_belief_propagation``.

    Four trees are equally probable: all rows, joined along the first or the last column, and all columns, joined along
    the first or the last row. Pairs in the interior have 1/2.

    Parameters
    ----------
    grid
        The grid.

    Examples
    --------
    >>> grid_tree_weights(GridGraph(3, 3, num_states=2))["right"]
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
