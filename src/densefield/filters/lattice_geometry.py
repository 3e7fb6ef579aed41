"""Geometry of the permutohedral lattice in torch operations: simplices, vertices and neighbours of points."""

from __future__ import annotations

import torch
from torch import Tensor

from densefield.errors import InputError

_MAX_CELLS = {torch.float64: 2.0**29, torch.float32: 2.0**20}  # rounding to cells is exact up to here


def elevate(features: Tensor, scale: Tensor) -> Tensor:
    """Map features (N, d) into the plane of the lattice: d+1 coordinates that sum to zero, (N, d+1).

    y_0 = Σ_i c_i and y_j = Σ_{i≥j} c_i - j c_{j-1}, with c_i = x_i · scale_i: an isometry times a constant.
    """
    total = torch.zeros_like(features[:, 0])
    columns = []
    for j in range(features.shape[1], 0, -1):
        c = features[:, j - 1] * float(scale[j - 1])
        columns.append(total - j * c)
        total = total + c
    columns.append(total)
    return torch.stack(columns[::-1], dim=1)


def vertex_features(keys: Tensor, scale: Tensor) -> Tensor:
    """Return the features (M, d) of vertices (M, d+1), in float64: the inverse of elevate on the plane."""
    at = keys.cpu().double()  # not every device has float64
    sums = at.cumsum(1)
    columns = [
        (sums[:, i] - (i + 1) * at[:, i + 1]) / (float(scale[i]) * (i + 1) * (i + 2)) for i in range(at.shape[1] - 1)
    ]
    return torch.stack(columns, dim=1)


def round_to_lattice(elevated: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Find the simplex that contains each point, by its corner of remainder 0 and the order of the residuals.

    Returns cells (N, d+1), the corner's coordinates over d+1, integers that sum to zero; the rank of each coordinate's
    residual, 0 for the largest; and the residuals over d+1.
    """
    corners = elevated.shape[1]
    scaled = elevated * (1.0 / corners)
    down, up = scaled.floor(), scaled.ceil()
    cells = torch.where(up * corners - elevated < elevated - down * corners, up, down)
    if elevated.numel() and not bool((cells.abs() < _MAX_CELLS[elevated.dtype]).all()):
        raise InputError(
            f"the features span {float(cells.abs().max()):.3g} lattice cells, more than lattice keys can hold. The "
            "kernel's widths are too small for the spread of these features. Use larger widths."
        )
    residual = elevated - cells * corners
    order = torch.sort(residual, dim=1, descending=True, stable=True).indices
    rank = torch.argsort(order, dim=1)
    # A nonzero sum means that the corner is off the plane: the coordinates rounded furthest move by one cell.
    shifted = rank + cells.sum(1, keepdim=True).long()
    move = (shifted < 0).long() - (shifted >= corners).long()
    residual = (residual - move * corners) * (1.0 / corners)
    return cells.long() + move, shifted + move * corners, residual


def barycentric_weights(residual: Tensor, rank: Tensor) -> Tensor:
    """Return the weights of the d+1 corners of each point's simplex, (N, d+1): nonnegative, with sum 1."""
    last = residual.shape[1] - 1
    ordered = residual.gather(1, torch.argsort(rank, dim=1))  # by rank
    first = 1 + (ordered[:, last] - ordered[:, 0])
    others = [ordered[:, last - k] - ordered[:, last - k + 1] for k in range(1, last + 1)]
    return torch.stack([first, *others], dim=1)


def corner_keys(cells: Tensor, rank: Tensor) -> Tensor:
    """Return the corners of each point's simplex, (N, d+1, d+1): corner k has remainder k modulo d+1."""
    corners = cells.shape[1]
    return torch.stack([corners * (cells - (rank > corners - 1 - k).long()) + k for k in range(corners)], dim=1)


def axis_steps(dimension: int, device: torch.device) -> Tensor:
    """Return one step along each of the d+1 axes, (d+1, d+1): +1 in every coordinate, -d in the axis's own."""
    ones = torch.ones(dimension + 1, dimension + 1, dtype=torch.int64, device=device)
    return ones - (dimension + 1) * torch.eye(dimension + 1, dtype=torch.int64, device=device)


def row_codes(rows: Tensor) -> Tensor:
    """Return equal numbers for equal rows and different ones for different rows, (R,)."""
    code = rows.new_zeros(len(rows))
    for column in rows.T[:-1]:  # the last coordinate follows from the others
        column = column - column.min()
        # The code is made dense before each step, so it stays below R · range, far from overflow.
        code = torch.unique(code * (column.max() + 1) + column, return_inverse=True)[1]
    return code


def distinct_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Number the distinct rows; return the number of each row, and the distinct rows."""
    if len(rows) == 0:
        return rows.new_zeros(0), rows
    number = row_codes(rows)
    distinct = rows.new_empty(int(number.max()) + 1, rows.shape[1])
    distinct[number] = rows
    return number, distinct


def find_rows(wanted: Tensor, rows: Tensor) -> Tensor:
    """Return the index of each wanted row in the distinct `rows`, or len(rows) if it is missing."""
    if len(rows) == 0:
        return rows.new_zeros(0)
    code = row_codes(torch.cat([rows, wanted]))
    index = rows.new_full((int(code.max()) + 1,), len(rows))
    index[code[: len(rows)]] = torch.arange(len(rows), device=rows.device)
    return index[code[len(rows) :]]


def add_neighbours(keys: Tensor) -> Tensor:
    """Append the direct neighbours of the vertices that are not among them."""
    if len(keys) == 0:
        return keys
    steps = axis_steps(keys.shape[1] - 1, keys.device)
    around = torch.cat([keys + step for step in steps] + [keys - step for step in steps])
    around = distinct_rows(around)[1]
    return torch.cat([keys, around[find_rows(around, keys) == len(keys)]])


def pull_back(slopes: Tensor, rank: Tensor, scale: Tensor) -> Tensor:
    """Return ∂/∂x (N, d) for ∂/∂weights (N, d+1): the transpose of barycentric_weights and of elevate.

    The residual of rank r adds to the weight of corner d-r and takes from that of the corner after it.
    """
    corners = rank.shape[1]
    rising = corners - 1 - rank
    by_y = (slopes.gather(1, rising) - slopes.gather(1, (rising + 1) % corners)) / corners
    columns = [float(scale[i]) * (by_y[:, : i + 1].sum(1) - (i + 1) * by_y[:, i + 1]) for i in range(corners - 1)]
    return torch.stack(columns, dim=1)
