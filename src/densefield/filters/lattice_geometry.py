"""Geometry of the permutohedral lattice in torch operations: simplices, vertices and neighbours of points."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from densefield.errors import FeatureSpanError

_MAX_CELLS = {torch.float64: 2.0**29, torch.float32: 2.0**20}  # rounding to cells is exact up to here
_MAX_CODE = 2**62


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
        raise FeatureSpanError(
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


def corner_codes(cells: Tensor, rank: Tensor, image: Tensor, images: int) -> Tensor:
    """Number the corners of each point's simplex, (N, d+1): equal numbers for the same vertex of the same image.

    The digits of a number are the image, the first d coordinates over d+1, and the remainder. From corner k to k+1 the
    coordinate of rank d-k decreases by one cell.
    """
    corners = cells.shape[1]
    if len(cells) == 0:
        return cells
    low = cells.amin(0) - 1
    sizes = [images, *(cells.amax(0) - low + 1).tolist()[:-1], corners]  # the last coordinate follows from the others
    if math.prod(sizes) > _MAX_CODE:
        keys = corner_keys(cells, rank)
        return row_codes(torch.cat([image[:, None, None].expand(-1, corners, 1), keys], 2).flatten(0, 1)).view_as(rank)
    strides = [math.prod(sizes[place + 1 :]) for place in range(len(sizes))]
    of_coordinates = cells.new_tensor([*strides[1:-1], 0])
    first = image * strides[0] + ((cells - low) * of_coordinates).sum(1)
    moved = of_coordinates[torch.argsort(rank, dim=1, descending=True)].cumsum(1)  # all together: d+1 coordinates
    codes: Tensor = first[:, None] + torch.arange(corners, device=cells.device)
    codes[:, 1:] -= moved[:, :-1]
    return codes


def corners_at(cells: Tensor, rank: Tensor, image: Tensor, places: Tensor) -> Tensor:
    """Return the image and the key, (R, 1 + d+1), of the corners at some places of the flattened corner_codes."""
    corners = cells.shape[1]
    point, k = places // corners, (places % corners)[:, None]
    keys = corners * (cells[point] - (rank[point] > corners - 1 - k).long()) + k
    return torch.cat([image[point, None], keys], 1)


def axis_steps(dimension: int, device: torch.device) -> Tensor:
    """Return one step along each of the d+1 axes, (d+1, d+1): +1 in every coordinate, -d in the axis's own."""
    ones = torch.ones(dimension + 1, dimension + 1, dtype=torch.int64, device=device)
    return ones - (dimension + 1) * torch.eye(dimension + 1, dtype=torch.int64, device=device)


def row_codes(rows: Tensor) -> Tensor:
    """Return equal numbers for equal rows and different ones for different rows, (R,)."""
    code, size = rows.new_zeros(len(rows)), 1
    if len(rows) == 0:
        return code
    low = rows.amin(0)
    spans = (rows.amax(0) - low + 1).tolist()
    for column, least, span in zip(
        rows.T[:-1], low, spans, strict=False
    ):  # the last coordinate follows from the others
        if size * span > _MAX_CODE:
            code = torch.unique(code, return_inverse=True)[1]
            size = len(rows)
        code = code * span + (column - least)
        size *= span
    return code


def distinct_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Number the distinct rows; return the number of each row, and the distinct rows."""
    distinct, number = torch.unique(row_codes(rows), return_inverse=True)
    example = torch.zeros_like(distinct)
    example[number] = torch.arange(len(rows), device=rows.device)
    return number, rows[example]


def find_rows(wanted: Tensor, rows: Tensor) -> Tensor:
    """Return the index of each wanted row in the distinct `rows`, or len(rows) if it is missing."""
    if len(rows) == 0:
        return rows.new_zeros(len(wanted))
    code = row_codes(torch.cat([rows, wanted]))
    known, order = code[: len(rows)].sort()
    sought = code[len(rows) :]
    place = torch.searchsorted(known, sought).clamp(max=len(rows) - 1)
    return order[place].where(known[place] == sought, len(rows))


def next_vertices(keys: Tensor, steps: Tensor) -> Tensor:
    """Return the index of the next vertex along each axis, (d+1, M); M if it is missing."""
    around = (keys + steps[:, None]).flatten(0, 1)
    return find_rows(around, keys).reshape(len(steps), len(keys))


def previous_vertices(following: Tensor) -> Tensor:
    """Return the inverse of next_vertices: the index of the previous vertex along each axis, (d+1, M)."""
    axes, vertices = following.shape
    place = torch.arange(vertices, device=following.device).expand(axes, vertices)
    previous = following.new_full((axes, vertices + 1), vertices)  # the last column takes what is missing
    return previous.scatter_(1, following, place)[:, :vertices]


def add_neighbours(keys: Tensor, steps: Tensor) -> Tensor:
    """Append the direct neighbours of the vertices that are not among them."""
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
