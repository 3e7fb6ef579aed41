"""Image → scores → log marginals: a network and, from stage 2 on, a CRF."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from densefield.errors import InputError, InputTypeError
from densefield.nn.dense_crf import DenseCRF


class Segmenter(nn.Module):
    """log q of every label at every pixel: those of the CRF on the network's scores (paper, Fig. 3, lines 1 and 2).

    * ``network``: normalised image (B, 3, H, W) → scores (B, L, H, W).
    * ``crf``: turns scores and image into log marginals; without one pixels are independent, q = softmax(scores).

    >>> import torch
    >>> segmenter = Segmenter(nn.Conv2d(3, 2, 1), DenseCRF(num_classes=2))
    >>> colours = torch.randint(256, (1, 3, 4, 6), dtype=torch.uint8)
    >>> segmenter(colours / 255, colours).shape
    torch.Size([1, 2, 4, 6])
    """

    def __init__(self, network: nn.Module, crf: DenseCRF | None = None) -> None:
        super().__init__()
        if not isinstance(network, nn.Module):
            raise InputTypeError(f"network is {network!r}, expected a torch.nn.Module.")
        if crf is not None and not isinstance(crf, DenseCRF):
            raise InputTypeError(f"crf is a {type(crf).__name__}, expected a DenseCRF, or None for the network alone.")
        num_classes = getattr(network, "num_classes", None)
        if crf is not None and num_classes not in (None, crf.num_classes):
            raise InputError(
                f"the network scores {num_classes} classes, but the CRF has {crf.num_classes}: use equal numbers."
            )
        self.network = network
        self.crf = crf

    def scores(self, input: Tensor) -> Tensor:
        """Scores (B, L, H, W) of a normalised image (B, 3, H, W)."""
        scores: Tensor = self.network(input)
        return scores

    def forward(
        self,
        input: Tensor,  # (B, 3, H, W), as the network is used to
        image: Tensor | None = None,  # (B, 3, H, W), colours 0…255; not needed without a CRF
        ignore: Tensor | None = None,  # (B, H, W) bool: pixels that send and receive no messages of the CRF
    ) -> Tensor:
        """Log marginals (B, L, H, W); those of ignored pixels are the softmax of their scores."""
        scores = self.scores(input)  # 1. forward pass: the scores f
        if self.crf is None:
            return torch.log_softmax(scores.float() if scores.dtype != torch.float64 else scores, dim=1)
        if image is None:
            raise InputError("the CRF needs the image in colours 0…255 (B, 3, H, W) as well: call with (input, image).")
        return self.crf(scores, image, ignore=ignore)  # 2. T mean-field iterations by filtering: the marginals
