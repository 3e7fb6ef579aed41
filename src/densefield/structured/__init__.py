"""Structured models on factor graphs: exact and approximate marginals, MAP inference and learning, in torch."""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "densefield.structured needs torch, which is not installed. Install it with: pip install 'densefield[torch]'",
        name="torch",
    ) from error

from densefield.structured.belief_propagation import (
    convex_belief_propagation,
    loopy_belief_propagation,
    tree_reweighted,
)
from densefield.structured.beliefs import Beliefs
from densefield.structured.counting_numbers import bethe_weights, convex_weights, forest_weights, tree_weights
from densefield.structured.enumeration import configuration_scores, enumeration
from densefield.structured.factor_graph import FactorGraph, Potts
from densefield.structured.grid import GridGraph, grid_tree_weights
from densefield.structured.grid_belief_propagation import grid_belief_propagation
from densefield.structured.junction_tree import exact_map, exact_samples, junction_tree
from densefield.structured.learning import log_partition, negative_log_likelihood
from densefield.structured.map_inference import icm, max_product
from densefield.structured.mean_field import mean_field

__all__ = [
    "Beliefs",
    "FactorGraph",
    "GridGraph",
    "Potts",
    "bethe_weights",
    "configuration_scores",
    "convex_belief_propagation",
    "convex_weights",
    "enumeration",
    "exact_map",
    "exact_samples",
    "forest_weights",
    "grid_belief_propagation",
    "grid_tree_weights",
    "icm",
    "junction_tree",
    "log_partition",
    "loopy_belief_propagation",
    "max_product",
    "mean_field",
    "negative_log_likelihood",
    "tree_reweighted",
    "tree_weights",
]
