"""Image → scores → log marginals: a network and, from stage 2 on, a CRF."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from densefield.errors import InputError, InputTypeError
from densefield.nn.dense_crf import DenseCRF


class Segmenter(nn.Module):
    """A network and a CRF on its scores: images in colours 0…255 → log marginals (paper, Fig. 3, lines 1 and 2).

    Parameters
    ----------
    network
        Normalised image (B, 3, H, W) → scores (B, L, H, W). Its attribute ``normalization``, if it has one, is applied
        to the image first; without one, the network gets the colours 0…255 as floating point numbers.
    crf
        The CRF, which gets the scores and the colours 0…255. Without one, pixels are independent: q = softmax(scores).

    Examples
    --------
    >>> import torch
    >>> segmenter = Segmenter(nn.Conv2d(3, 2, 1), DenseCRF(num_classes=2))
    >>> segmenter(torch.randint(256, (1, 3, 4, 6), dtype=torch.uint8)).shape
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

    def scores(self, image: Tensor) -> Tensor:
        """Scores of the network, before the CRF, (B, L, H, W).

        Parameters
        ----------
        image
            (B, 3, H, W), colours 0…255.
        """
        normalize = getattr(self.network, "normalization", Tensor.float)
        dtype = next((each.dtype for each in self.network.parameters() if each.is_floating_point()), torch.float32)
        scores: Tensor = self.network(normalize(image).to(dtype))
        return scores

    def forward(self, image: Tensor, ignore: Tensor | None = None) -> Tensor:
        """Log marginals (B, L, H, W); those of ignored pixels are the log-softmax of their scores.

        Parameters
        ----------
        image
            (B, 3, H, W), colours 0…255.
        ignore
            (B, H, W), boolean: True for pixels that the CRF neither sends messages to nor receives from.
        """
        scores = self.scores(image)  # 1. forward pass: the scores f
        return log_marginals(scores, image, self.crf, ignore)  # 2. T mean-field iterations by filtering: the marginals


def log_marginals(
    scores: Tensor,  # (B, L, H, W)
    image: Tensor,  # (B, 3, H, W), colours 0…255
    crf: DenseCRF | None,
    ignore: Tensor | None = None,  # (B, H, W) bool
) -> Tensor:  # (B, L, H, W)
    """Log marginals of the CRF on the scores; without a CRF, the log-softmax of the scores."""
    if crf is not None:
        return crf(scores, image, ignore=ignore)
    return torch.log_softmax(scores if scores.dtype == torch.float64 else scores.float(), dim=1)
