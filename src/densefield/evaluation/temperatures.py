"""Temperatures of the methods of an evaluation: divisors of their log marginals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from torch import Tensor

from densefield.errors import DensefieldError, InputError
from densefield.io.messages import failure_line
from densefield.io.progress import Progress
from densefield.metrics.temperature import best_temperature, sampled_margins
from densefield.nn.dense_crf import DenseCRF
from densefield.refinement.refine import checked_temperature
from densefield.runs.distributed import gather, rank_and_world_size
from densefield.runs.scored_images import ScoreSource


def tempered(log_q: Tensor, temperature: float, dim: int = 0) -> Tensor:
    """Log marginals divided by a temperature, and normalised along the axis of the classes.

    >>> import torch
    >>> tempered(torch.tensor([0.8, 0.2]).log(), 2.0).exp()
    tensor([0.6667, 0.3333])
    """
    return log_q if temperature == 1 else (log_q / temperature).log_softmax(dim)


def temperatures_of(given: float | Mapping[str, float], methods: Sequence[str]) -> dict[str, float]:
    """The temperature of each method: one for all, or by method.

    >>> temperatures_of(1.5, ["network", "crf"])
    {'network': 1.5, 'crf': 1.5}
    """
    if not isinstance(given, Mapping):
        return dict.fromkeys(methods, checked_temperature(given))
    if set(given) != set(methods):
        raise InputError(f"temperature is for {', '.join(given) or 'nothing'}, expected {' and '.join(methods)}.")
    return {method: checked_temperature(given[method]) for method in methods}


def fit_temperatures(
    source: ScoreSource, crf: DenseCRF | None, methods: Sequence[str], progress: Progress | None = None
) -> dict[str, float]:
    """The temperature of each method that maximises the likelihood of the true labels; the same in all processes.

    Parameters
    ----------
    source
        Scored images, other ones than those to evaluate.
    crf
        The CRF of the method "crf".
    methods
        "network", "crf", or both.
    progress
        Called with the number of images done and their total number.
    """
    rank, processes = rank_and_world_size()
    share = range(rank, len(source), processes)
    own: dict[int, dict[str, npt.NDArray[np.float32]]] = {}
    failure = ""  # which all processes raise, so that none waits for another
    for index in share:
        try:
            scored = source[index]
            own[index] = {
                method: sampled_margins(scored.log_marginals(crf if method == "crf" else None), scored.labels, index)
                for method in methods
            }
        except DensefieldError as error:
            failure = str(error)
        except Exception as error:  # files may hold anything
            failure = f"{failure_line(error, source.ids[index])} A temperature is fitted on all images."
        if failure:
            break
        if progress is not None:
            progress(len(own), len(share))
    found = gather((own, failure))
    for failure in (text for _, text in found if text):
        raise InputError(failure)
    margins = {index: part for each, _ in found for index, part in each.items()}
    parts = [margins[index] for index in sorted(margins)]
    return {method: float(f"{best_temperature([part[method] for part in parts]):.4g}") for method in methods}
