"""Image → scores → log marginals: a network and, from stage 2 on, a CRF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

import torch
from torch import Tensor, nn

from densefield.errors import InputError, InputTypeError
from densefield.nn.dense_crf import DenseCRF
from densefield.nn.network_features import features_at_size, outputs_of


class Segmenter(nn.Module):
    """A network and a CRF on its scores: images in colours 0…255 → log marginals (paper, Fig. 3, lines 1 and 2).

    Parameters
    ----------
    network
        Normalised image (B, 3, H, W) → scores (B, L, H, W). Its attribute ``normalization``, if it has one, is applied
        to the image first; without one, the network gets the colours 0…255 as floating point numbers. It may also
        return scores and features (B, d, H, W), or smaller ones, which are upsampled.
    crf
        The CRF, which gets the scores and the colours 0…255. Without one, pixels are independent: q = softmax(scores).
    feature
        Name of the Custom kernel that compares the features of the network.

    Examples
    --------
    >>> import torch
    >>> segmenter = Segmenter(nn.Conv2d(3, 2, 1), DenseCRF(num_classes=2))
    >>> segmenter(torch.randint(256, (1, 3, 4, 6), dtype=torch.uint8)).shape
    torch.Size([1, 2, 4, 6])

    A network that learns which pixels are similar:

    >>> from densefield import Custom
    >>> from densefield.networks import small_network
    >>> network = small_network(num_classes=2, embedding=4)
    >>> segmenter = Segmenter(network, DenseCRF(2, [Custom("embedding", sigma=[0.5] * 4, sigma_xy=20)]))
    >>> segmenter(torch.randint(256, (1, 3, 24, 32), dtype=torch.uint8)).shape
    torch.Size([1, 2, 24, 32])
    """

    def __init__(self, network: nn.Module, crf: DenseCRF | None = None, *, feature: str = "embedding") -> None:
        super().__init__()
        if not isinstance(network, nn.Module):
            raise InputTypeError(f"network is {network!r}, expected a torch.nn.Module.")
        if crf is not None and not isinstance(crf, DenseCRF):
            raise InputTypeError(
                f"crf is of type {type(crf).__name__}, expected a DenseCRF, or None for the network alone."
            )
        num_classes = getattr(network, "num_classes", None)
        if crf is not None and num_classes not in (None, crf.num_classes):
            raise InputError(
                f"the network scores {num_classes} classes, but the CRF has {crf.num_classes}: use equal numbers."
            )
        self.network = network
        self.crf = crf
        self.feature = feature

    @overload
    def scores(self, image: Tensor) -> Tensor: ...

    @overload
    def scores(self, image: Sequence[Tensor]) -> list[Tensor]: ...

    def scores(self, image: Any) -> Any:
        """Scores of the network, before the CRF, (B, L, H, W); or a list of (L, H, W) for a list of images.

        Parameters
        ----------
        image
            (B, 3, H, W), colours 0…255; or a list of (3, H, W) of any sizes, for networks of `densefield.networks`.
        """
        return self.outputs(image)[0]

    def outputs(self, image: Any) -> tuple[Any, dict[str, Any]]:
        """The scores, and by name the features that the network returns besides, if any.

        Parameters
        ----------
        image
            That of scores().
        """
        normalize = getattr(self.network, "normalization", Tensor.float)
        dtype = next((each.dtype for each in self.network.parameters() if each.is_floating_point()), torch.float32)
        if isinstance(image, Tensor):
            return self._named(self.network(normalize(image).to(dtype)))
        if not hasattr(self.network, "input_size"):
            raise InputTypeError(
                f"the images are a list, but {type(self.network).__name__} takes a tensor: wrap it with "
                "densefield.networks.as_network, or pass one image at a time."
            )
        return self._named(self.network([normalize(each).to(dtype) for each in image]))

    def _named(self, output: Any) -> tuple[Any, dict[str, Any]]:
        scores, features = outputs_of(output)
        return scores, {} if features is None else {self.feature: features_at_size(features, scores)}

    def check_features(self, features: Mapping[str, Any]) -> None:
        """Raises unless the CRF, if there is one, compares exactly the features of the network.

        Parameters
        ----------
        features
            Those of outputs().
        """
        if self.crf is None or set(self.crf.feature_names) == set(features):
            return
        if not self.crf.feature_names:
            raise InputError(
                f"the network returns features, but no kernel compares them: add Custom({self.feature!r}, …) to the "
                "kernels of the CRF."
            )
        compared, given = (
            ", ".join(map(repr, names)) or "scores alone" for names in (self.crf.feature_names, features)
        )
        raise InputError(
            f"the CRF's Custom kernels compare {compared} of the network's features, but the network returns {given}: "
            "use the same names, Custom(name, …) and Segmenter(…, feature=name)."
        )

    def forward(self, image: Any, ignore: Any = None, spacing: Sequence[Sequence[float]] | None = None) -> Any:
        """Log marginals (B, L, H, W); those of ignored pixels are the log-softmax of their scores.

        Parameters
        ----------
        image
            (B, 3, H, W), colours 0…255; or a list of (3, H, W) of any sizes. The result is then a list too.
        ignore
            (B, H, W), boolean: True for pixels that the CRF neither sends messages to nor receives from.
        spacing
            Size of a pixel of each image along x and y, such as (2, 2) for an image at half its size; by default 1.
        """
        scores, features = self.outputs(image)  # 1. forward pass: the scores f
        self.check_features(features)
        # 2. T mean-field iterations by filtering: the marginals
        return log_marginals(scores, image, self.crf, ignore, spacing, features)


@overload
def log_marginals(
    scores: Tensor,
    image: Tensor,
    crf: DenseCRF | None,
    ignore: Tensor | None = ...,
    spacing: Sequence[Sequence[float]] | None = ...,
    features: Mapping[str, Tensor] | None = ...,
) -> Tensor: ...


@overload
def log_marginals(
    scores: Sequence[Tensor],
    image: Sequence[Tensor],
    crf: DenseCRF | None,
    ignore: Sequence[Tensor] | None = ...,
    spacing: Sequence[Sequence[float]] | None = ...,
    features: Mapping[str, Sequence[Tensor]] | None = ...,
) -> list[Tensor]: ...


def log_marginals(
    scores: Any,  # (B, L, H, W), or a list of (L, H, W)
    image: Any,  # (B, 3, H, W), colours 0…255, or a list
    crf: DenseCRF | None,
    ignore: Any = None,  # (B, H, W) bool, or a list
    spacing: Sequence[Sequence[float]] | None = None,  # x, y of each image
    features: Mapping[str, Any] | None = None,  # (B, d, H, W) each; those that no kernel compares are not used
) -> Any:
    """Log marginals of the CRF on the scores, of their shape; without a CRF, the log-softmax of the scores."""
    if crf is not None:
        return crf(scores, image, ignore=ignore, spacing=spacing, features=_compared(crf, features))
    if isinstance(scores, Tensor):
        return _log_softmax(scores, dim=1)
    return [_log_softmax(each, dim=0) for each in scores]


def _log_softmax(scores: Tensor, dim: int) -> Tensor:
    return torch.log_softmax(scores if scores.dtype == torch.float64 else scores.float(), dim=dim)


def _compared(crf: DenseCRF, features: Mapping[str, Any] | None) -> dict[str, Any]:
    """The features that a kernel of the CRF compares."""
    return {name: each for name, each in (features or {}).items() if name in crf.feature_names}
