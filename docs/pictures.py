"""Draws the two pictures of lattice.md with the functions of the lattice itself: `python docs/pictures.py`."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Polygon
from matplotlib.patheffects import withStroke
from PIL import Image

from densefield.filters import TorchLatticeFilter
from densefield.filters.lattice_design import design_lattice
from densefield.filters.lattice_geometry import (
    add_neighbours,
    axis_steps,
    barycentric_weights,
    corner_keys,
    elevate,
    find_rows,
    round_to_lattice,
)

Floats = npt.NDArray[np.float64]

IMAGES = Path(__file__).parent / "images"
DESIGN = design_lattice(2)
SCALE = torch.tensor(DESIGN.scale, dtype=torch.float64)

INK, LINES = "#222222", "#cfcfcf"
SPLAT, SLICE = "#d1495b", "#00798c"
AXES = ("#1b6ca8", "#e08e0b", "#4c9f50")
MASS_ONE = 2600.0  # area of the square around the disc of a value of one, in square points
SOURCE, TARGET = np.array([0.437, 0.455]), np.array([0.62, -0.92])


def find_simplex(point: Floats) -> tuple[torch.Tensor, Floats]:
    """The corners (3, 3) of the simplex that holds a point, in the plane of the lattice, and its weights (3,)."""
    elevated = elevate(torch.tensor(point[None]), SCALE)
    cells, rank, residual = round_to_lattice(elevated)
    return corner_keys(cells, rank)[0], barycentric_weights(residual, rank)[0].numpy()


def to_features(keys: torch.Tensor) -> Floats:
    """Vertices (M, 3) of the plane as features (M, 2), in widths of the kernel."""
    basis = elevate(torch.eye(2, dtype=torch.float64), SCALE).numpy()  # (2, 3): what each feature becomes
    return keys.numpy() @ np.linalg.pinv(basis)


def grow_patch(keys: torch.Tensor, rings: int = 9) -> torch.Tensor:
    """The vertices and some rings of neighbours: more than the blur reaches, so that none is missing."""
    for _ in range(rings):
        keys = add_neighbours(keys, axis_steps(keys.shape[1] - 1, keys.device))
    return keys


def blur_patch(keys: torch.Tensor, values: Floats) -> Floats:
    """The passes of the design over vertices (M, 3) and values (M,), divided by their gain: the sum stays."""
    for axis, tap in DESIGN.passes:
        padded = np.append(values, 0.0)
        step = axis_steps(2, keys.device)[axis]
        around = padded[find_rows(keys + step, keys)] + padded[find_rows(keys - step, keys)]
        values = (values + tap * around) / (1 + 2 * tap)
    return values


def draw_edges(ax: Axes, keys: torch.Tensor, colour: str = LINES, width: float = 0.8) -> None:
    """The triangles of the lattice."""
    at, segments = to_features(keys), []
    for step in axis_steps(2, keys.device):
        following = find_rows(keys + step, keys).numpy()
        here = np.flatnonzero(following < len(keys))
        segments += [(at[i], at[following[i]]) for i in here]
    ax.add_collection(LineCollection(segments, colors=colour, linewidths=width, zorder=1))


def radius_of(value: float) -> float:
    """Of the disc that stands for a value, in points."""
    return float(np.sqrt(MASS_ONE * value) / 2)


def draw_discs(ax: Axes, at: Floats, values: Floats, colour: str, alpha: float = 1.0) -> None:
    """Values as areas of discs."""
    ax.scatter(at[:, 0], at[:, 1], s=MASS_ONE * values, color=colour, alpha=alpha, linewidths=0, zorder=4)


def draw_simplex(ax: Axes, point: Floats, discs: Floats, colour: str, *, arrives: bool) -> None:
    """A point, its simplex, arrows from or to the corners, and the weights beside the corners' discs (3,)."""
    keys, weights = find_simplex(point)
    at = to_features(keys)
    ax.add_patch(Polygon(at, facecolor=colour, alpha=0.12, linewidth=0, zorder=2))
    ax.add_patch(Polygon(at, fill=False, edgecolor=colour, linewidth=1.3, zorder=3))
    for corner, weight, disc in zip(at, weights, discs, strict=True):
        arrow = {"arrowstyle": "-|>", "color": INK, "linewidth": 1.0, "shrinkA": 4 if arrives else 2}
        ends = (point, corner) if arrives else (corner, point)
        ax.annotate("", *ends, arrowprops={**arrow, "shrinkB": 2 if arrives else 4}, zorder=6)
        outward = (corner - at.mean(0)) / np.linalg.norm(corner - at.mean(0))
        write(ax, corner, f"{weight:.2f}", colour, outward * (radius_of(disc) + 11))
    ax.scatter(*point, s=34, marker="D", color=INK, edgecolors="white", linewidths=0.9, zorder=7)
    write(ax, point, "$x_i$" if arrives else "$x_j$", INK, np.array([-9.0, -10.0] if arrives else [-13.0, 0.0]))


def write(ax: Axes, at: Floats, text: str, colour: str, shift: Floats) -> None:
    """A few bold letters, some points away from a place, with a white rim."""
    ax.annotate(
        text,
        at,
        shift,
        textcoords="offset points",
        color=colour,
        fontweight="bold",
        ha="center",
        va="center",
        path_effects=[withStroke(linewidth=2.5, foreground="white")],
        zorder=8,
    )


def draw_axes(ax: Axes, middle: Floats) -> None:
    """One step each way along each of the three axes, from a vertex."""
    steps = to_features(axis_steps(2, torch.device("cpu")))
    for axis, (step, colour) in enumerate(zip(steps, AXES, strict=True)):
        arrow = {"arrowstyle": "<|-|>", "color": colour, "linewidth": 1.8, "shrinkA": 0, "shrinkB": 0}
        ax.annotate("", middle + step, middle - step, arrowprops=arrow, zorder=6)
        write(ax, middle + step, f"axis {axis}", colour, step / np.linalg.norm(step) * (17, 14))


def draw_steps() -> Figure:
    """Splat, blur and slice in two dimensions."""
    corners, weights = find_simplex(SOURCE)
    patch = grow_patch(corners)
    at = to_features(patch)
    splatted = np.zeros(len(patch))
    splatted[find_rows(corners, patch).numpy()] = weights
    blurred = blur_patch(patch, splatted)
    near = find_rows(find_simplex(TARGET)[0], patch).numpy()

    figure, axes = plt.subplots(1, 3, figsize=(8, 3.0), layout="constrained")
    for ax, title in zip(axes, ("1  splat: $S^T v$", "2  blur: $B$", "3  slice: $S$"), strict=True):
        draw_edges(ax, patch)
        ax.set_title(title, loc="left", fontweight="bold")
        ax.set(xlim=(-1.4, 2.5), ylim=(-1.85, 2.05), aspect="equal", xticks=[], yticks=[])
        ax.spines[:].set_color(LINES)
    draw_discs(axes[0], at, splatted, SPLAT, 0.6)
    draw_simplex(axes[0], SOURCE, weights, SPLAT, arrives=False)
    draw_discs(axes[1], at, blurred, SPLAT, 0.6)
    draw_axes(axes[1], at[int(blurred.argmax())])
    draw_discs(axes[2], at, blurred, SPLAT, 0.25)
    draw_discs(axes[2], at[near], blurred[near], SPLAT, 0.6)
    draw_simplex(axes[2], TARGET, blurred[near], SLICE, arrives=True)
    return figure


def draw_kernel() -> Figure:
    """A column of K in two dimensions, beside the Gaussian."""
    source = np.array([0.3, 0.25])  # a typical place: the largest difference is about the median over all places
    reach, shown = 7.0, 3.5
    ticks = np.linspace(-reach, reach, 281)
    points = np.stack(np.meshgrid(*(ticks + source[:, None])), axis=-1).reshape(-1, 2)
    middle = len(points) // 2  # the single point with a value
    k = TorchLatticeFilter(torch.tensor(points))
    response = k.apply(k.identity(middle, middle + 1)).numpy().reshape(len(ticks), -1)
    gaussian = np.exp(-0.5 * ((points - source) ** 2).sum(1)).reshape(response.shape)
    difference = response - gaussian
    print(f"lattice: peak {response.max():.3f}; difference: {difference.min():.3f} to {difference.max():.3f}")

    figure, axes = plt.subplots(1, 3, figsize=(8, 3.2), layout="constrained")
    titles = ("lattice, $K_{ij}$", "Gaussian, $\\exp(-r^2/2)$", "lattice − Gaussian")
    patch = grow_patch(find_simplex(source)[0])
    edge = reach * (1 + 1 / (len(ticks) - 1))
    extent = (source[0] - edge, source[0] + edge, source[1] - edge, source[1] + edge)
    images = []
    for ax, values, title in zip(axes, (response, gaussian, difference), titles, strict=True):
        # Steps of one colour can be told apart on the bars, and keep the file small.
        shades = {"vmin": 0, "vmax": 1.2, "cmap": plt.get_cmap("viridis", 24)}
        if values is difference:
            shades = {"vmin": -0.26, "vmax": 0.26, "cmap": plt.get_cmap("RdBu_r", 13)}
        smooth = {"interpolation": "bilinear", "interpolation_stage": "data"}
        images.append(ax.imshow(values, origin="lower", extent=extent, **smooth, **shades))
        if values is not gaussian:
            draw_edges(ax, patch, colour="#80808088", width=0.5)
        ax.plot(*source, marker="+", markersize=7, color=INK, markeredgewidth=1.0)
        ax.set(xlim=source[0] + (-shown, shown), ylim=source[1] + (-shown, shown), title=title)
        ax.set(xticks=range(-3, 4), yticks=range(-3, 4), xlabel="$x_1$, in widths")
        ax.label_outer()
    axes[0].set_ylabel("$x_2$, in widths")
    figure.colorbar(images[0], ax=axes[:2], orientation="horizontal", shrink=0.6, aspect=34)
    figure.colorbar(images[2], ax=axes[2:], orientation="horizontal", aspect=28, ticks=(-0.2, -0.1, 0, 0.1, 0.2))
    return figure


def save(figure: Figure, path: Path) -> None:
    """A PNG of 256 colours, which is a third of the size."""
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3]
    Image.fromarray(pixels).quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def main() -> None:
    """Draw both pictures."""
    plt.rcParams.update({"font.size": 9, "axes.titlesize": 10, "figure.dpi": 200, "mathtext.fontset": "dejavusans"})
    IMAGES.mkdir(exist_ok=True)
    save(draw_steps(), IMAGES / "lattice-splat-blur-slice.png")
    save(draw_kernel(), IMAGES / "lattice-kernel.png")


if __name__ == "__main__":
    main()
