"""Slow, readable mixtures of Gaussians for the colours of labels, in float64: the twin of the native ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

RANGE, PART = 256.0, 256  # of a channel, and of a bin
CHANNELS = 3  # those that an image does not have are 0

Gaussian = tuple[float, np.ndarray, np.ndarray]  # share, mean (3,), covariance (3, 3)


def places(image: np.ndarray, low: Sequence[float], scale: Sequence[float], levels: int) -> np.ndarray:
    """The positions (N, C) of colours along the bins, 0 … levels; 0 for NaN."""
    with np.errstate(invalid="ignore", over="ignore"):
        found = (image.astype(np.float32) - np.float32(low)) * np.float32(scale)
    return np.clip(np.where(np.isnan(found), 0, found), 0, levels)


def samples(positions: np.ndarray, levels: int) -> tuple[np.ndarray, np.ndarray]:
    """The mean colours (n, 3) of the occupied bins, and their numbers of pixels (n,)."""
    bins = np.minimum(positions.astype(int), levels - 1)
    within = np.floor((positions - bins) * PART)
    colours, weights = [], []
    for place in np.unique(bins, axis=0):
        inside = (bins == place).all(axis=1)
        mean = np.zeros(CHANNELS)
        mean[: len(place)] = (place + within[inside].sum(axis=0) / PART / inside.sum()) * RANGE / levels
        colours.append(mean)
        weights.append(float(inside.sum()))
    return np.array(colours).reshape(-1, CHANNELS), np.array(weights)


def moments(colours: np.ndarray, weights: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Weight, mean and covariance."""
    mean = np.average(colours, axis=0, weights=weights)
    return weights.sum(), mean, np.cov(colours.T, aweights=weights, bias=True).reshape(CHANNELS, CHANNELS)


def principal_axis(covariance: np.ndarray) -> np.ndarray:
    """The longest column of a high power: nearly the first eigenvector."""
    power = np.linalg.matrix_power(covariance / max(np.trace(covariance), 1e-300), 256)
    axis = power[np.argmax(np.diagonal(power))]
    return axis / max(np.linalg.norm(axis), 1e-300)


def fit(
    colours: np.ndarray, weights: np.ndarray, components: int, iterations: int, least_variance: float
) -> list[Gaussian]:
    """The mixture of one label, by splits across principal axes and assignment to the most likely Gaussian."""
    if not len(colours):
        return []
    groups = [np.arange(len(colours))]
    while len(groups) < components:
        found = [moments(colours[group], weights[group]) for group in groups]
        axes = [principal_axis(covariance) for *_, covariance in found]
        widths = [weight * axis @ covariance @ axis for (weight, _, covariance), axis in zip(found, axes, strict=True)]
        widest = int(np.argmax(widths))
        if widths[widest] <= 1e-9:
            break
        group, axis = groups[widest], axes[widest]
        beyond = colours[group] @ axis > found[widest][1] @ axis
        groups[widest] = group[~beyond]
        groups.append(group[beyond])
    for iteration in range(iterations + 1):
        parts = [moments(colours[group], weights[group]) for group in groups if len(group)]
        total = sum(weight for weight, *_ in parts)
        mixture = [(w / total, mean, cov + least_variance * np.eye(CHANNELS)) for w, mean, cov in parts]
        if iteration < iterations:
            best = log_densities(colours, mixture).argmax(axis=0)
            groups = [np.flatnonzero(best == k) for k in range(len(mixture))]
    return mixture


def log_densities(colours: np.ndarray, mixture: Sequence[Gaussian]) -> np.ndarray:
    """log(π p(x)) of each Gaussian, (components, n)."""
    rows = []
    for share, mean, covariance in mixture:
        apart = colours - mean
        distance = np.einsum("na,ab,nb->n", apart, np.linalg.inv(covariance), apart)
        norm = CHANNELS * math.log(2 * math.pi) + np.linalg.slogdet(covariance)[1]
        rows.append(math.log(share) - (distance + norm) / 2)
    return np.array(rows)


def log_likelihoods(
    image: np.ndarray,
    labels: np.ndarray,
    num_labels: int,
    low: Sequence[float],
    scale: Sequence[float],
    levels: int,
    components: int,
    iterations: int,
    least_variance: float,
    least: float,
) -> np.ndarray:
    """log p(colour | label) of all pixels, minus its mean over the labels, (labels, N)."""
    positions = places(image, low, scale, levels)
    colours = np.zeros((len(image), CHANNELS))
    colours[:, : image.shape[1]] = positions * RANGE / levels
    rows = []
    for label in range(num_labels):
        mixture = fit(*samples(positions[labels == label], levels), components, iterations, least_variance)
        if mixture:
            rows.append(np.maximum(log_densities(colours, mixture).max(axis=0), least))
        else:
            rows.append(np.full(len(image), -CHANNELS * math.log(RANGE)))
    return np.array(rows) - np.mean(rows, axis=0)
