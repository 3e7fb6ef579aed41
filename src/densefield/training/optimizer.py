"""Settings → optimiser, learning-rate schedule and augmentation."""

from __future__ import annotations

import torch
from torch.optim.lr_scheduler import LambdaLR

from densefield.datasets.transforms import Augmentation
from densefield.errors import InputError
from densefield.networks.groups import parameter_groups
from densefield.networks.inputs import InputNormalization
from densefield.nn.dense_crf import DenseCRF
from densefield.nn.segmenter import Segmenter
from densefield.runs.config import Config, DataConfig, OptimizerConfig

POWER = 0.9  # of the schedule "poly"


def build_optimizer(config: OptimizerConfig, segmenter: Segmenter) -> torch.optim.Optimizer:
    """The optimiser, with parameter groups for the top layer, the other layers and the CRF."""
    default = OptimizerConfig.model_fields["lr_top"].default
    if not getattr(segmenter.network, "top_layers", ()) and config.lr_top not in (default, config.lr_rest):
        raise InputError(
            f"optimizer.lr_top is {config.lr_top}, but the top layers of the network are unknown: name them in "
            "network.top_layers, or set optimizer.lr_rest, the rate of all its other layers."
        )
    groups = parameter_groups(
        segmenter.network,
        learning_rate=config.lr_rest,
        top_factor=config.lr_top / config.lr_rest,
        bias_factor=config.bias_factor,
        weight_decay=config.weight_decay,
    )
    learnt = [] if segmenter.crf is None else [each for each in segmenter.crf.parameters() if each.requires_grad]
    if learnt:
        groups.append({"name": "crf", "params": learnt, "lr": config.lr_crf, "weight_decay": 0.0})
    if not groups:
        raise InputError("no parameter requires a gradient, so that nothing would be learnt.")
    for group in groups:
        group["initial_lr"] = group["lr"]
    if config.name == "adamw":
        return torch.optim.AdamW(groups)
    return torch.optim.SGD(groups, momentum=config.momentum)


def decay_to(crf: DenseCRF, initial: DenseCRF, decay: float, optimizer: torch.optim.Optimizer) -> None:
    """Before every update, moves the CRF's learnt parameters towards those of `initial`, by the share lr·decay.

    That is weight decay of their distance: a Gaussian prior of the logarithms of widths and weights.
    """
    if not decay:
        return
    pairs = [
        (parameter, start.detach().to(parameter.device, copy=True))
        for parameter, start in zip(crf.parameters(), initial.parameters(), strict=True)
        if parameter.requires_grad
    ]

    def move(*_: object) -> None:
        # Looked up here, since loading a state replaces the groups.
        rate = next((group["lr"] for group in optimizer.param_groups if group["name"] == "crf"), 0.0)
        share = min(1.0, rate * decay)
        with torch.no_grad():
            for parameter, start in pairs:
                parameter.lerp_(start, share)

    optimizer.register_step_pre_hook(move)


def build_schedule(config: Config, optimizer: torch.optim.Optimizer, step: int = 0) -> LambdaLR:
    """The learning-rate schedule after `step` steps: "constant", or "poly", which falls to 0 as (1 - step/steps)^0.9.

    Not torch's PolynomialLR: rates are functions of the step alone, so that resuming gives the same bits.
    """
    steps, power = config.training.steps, POWER if config.optimizer.schedule == "poly" else 0.0
    return LambdaLR(optimizer, lambda now: (1 - now / steps) ** power, last_epoch=step - 1)


def augmentation(config: DataConfig, normalization: InputNormalization) -> Augmentation:
    """Augmentation of the training images; padding has the mean colour of the network's normalization."""
    return Augmentation(config.crop, config.scales, config.mirror, config.jitter, normalization.fill)
