"""The device that a network computes on: a GPU if there is one, as in training, or the one that is chosen."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from densefield.errors import InputError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from densefield.nn.segmenter import Segmenter

AUTO = "auto"
_NAME = re.compile(r"auto|cpu|mps|(cuda|xpu)(:\d{1,3})?")


def check_device_name(name: str) -> None:
    """Raises unless the name is that of a kind of device; choose_device() checks whether there is one, and needs torch.

    >>> check_device_name("cuda:1")
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(f"device is {name!r}, expected auto, cpu, cuda, cuda:N, xpu, xpu:N or mps.")


def choose_device(name: str = AUTO) -> torch.device:
    """The device of this process; raises if it is not there.

    Parameters
    ----------
    name
        "auto" for a CUDA GPU if there is one, else the CPU; or "cpu", "cuda", "cuda:1", "xpu", "mps". Under torchrun
        "auto", "cuda" and "xpu" are the GPU with the number of the process on its computer.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    import torch

    check_device_name(name)
    counts = {"cuda": torch.cuda.device_count() if torch.cuda.is_available() else 0}
    counts["xpu"] = torch.xpu.device_count() if torch.xpu.is_available() else 0
    counts["mps"] = int(torch.backends.mps.is_available())
    if name == AUTO:
        name = "cuda" if counts["cuda"] else "cpu"
    kind, _, number = name.partition(":")
    if kind == "cpu":
        return torch.device("cpu")
    index = int(number or (os.environ.get("LOCAL_RANK", "0") if kind != "mps" else "0"))
    if index >= counts[kind]:
        here = ", ".join(["cpu", *(f"{each}:{place}" for each, count in counts.items() for place in range(count))])
        raise InputError(
            f"device is {kind}:{index}, but torch {torch.__version__} finds {here}: pass one of these as device=, or "
            "install a torch for this computer's GPU."
        )
    return torch.device(kind, index)


def network_on(segmenter: Segmenter, device: torch.device) -> Callable[[Tensor], tuple[Tensor, dict[str, Tensor]]]:
    """Moves the network to the device; returns its function from images to scores and features, all on the CPU."""
    segmenter.network.to(device)

    def outputs(image: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        scores, features = segmenter.outputs(image.to(device))
        return scores.float().cpu(), {name: each.float().cpu() for name, each in features.items()}

    return outputs
