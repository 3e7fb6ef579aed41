"""A head that embeds every pixel, for a kernel of the CRF to compare."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import relu

from densefield.errors import InputError
from densefield.networks.upsampling import upsample_points

MAX_EMBEDDING = 14  # channels: a lattice has up to 16 dimensions, and two of them are the position
FINE_STRIDE = 2  # of the features that the embedding takes its edges from, and of the embedding

_WIDTH = 32  # channels of the hidden layer


class EmbeddingHead(nn.Module):
    """Fine features (B, c, h, w) and deep ones (B, C, h/r, w/r) → an embedding (B, d, h, w).

    The fine ones have the edges and textures of the image, the deep ones know its objects. Both are mixed by one hidden
    layer.

    Parameters
    ----------
    fine, deep
        Channels of both.
    channels
        Number of channels of the embedding, d.
    ratio
        The stride of the deep features in pixels of the fine ones, r.

    >>> import torch
    >>> head = EmbeddingHead(fine=8, deep=64, channels=4, ratio=4)
    >>> head(torch.zeros(1, 8, 15, 20), torch.zeros(1, 64, 4, 5)).shape
    torch.Size([1, 4, 15, 20])
    """

    def __init__(self, fine: int, deep: int, channels: int, ratio: int) -> None:
        super().__init__()
        self._ratio = ratio
        self.fine = nn.Conv2d(fine, _WIDTH, 3, padding=1)
        self.deep = nn.Conv2d(deep, _WIDTH, 1, bias=False)
        self.mix = nn.Conv2d(_WIDTH, channels, 1, bias=False)  # kernels compare differences

    def forward(self, fine: Tensor, deep: Tensor) -> Tensor:
        """The embedding, at the size of the fine features."""
        x = self.fine(fine)
        upsampled = upsample_points(self.deep(deep), self._ratio, (x.shape[2], x.shape[3]))
        embedding: Tensor = self.mix(relu(x + upsampled.to(x.dtype)))
        return embedding


def checked_embedding(embedding: object) -> int:
    """The number of channels of an embedding; 0 for none.

    >>> checked_embedding(4)
    4
    """
    if isinstance(embedding, bool) or not isinstance(embedding, int) or not 0 <= embedding <= MAX_EMBEDDING:
        raise InputError(
            f"embedding is {embedding!r}, expected a number of channels up to {MAX_EMBEDDING}, or 0 for no embedding."
        )
    return embedding
