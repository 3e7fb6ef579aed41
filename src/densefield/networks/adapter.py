"""Using any segmentation module as a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor, nn
from torch.nn.functional import pad

from densefield.errors import InputError, InputTypeError
from densefield.networks.groups import parameter_groups
from densefield.networks.inputs import IMAGENET, InputNormalization, Triple, checked_batch
from densefield.networks.network import InputSize, SegmentationNetwork, checked_input_size
from densefield.networks.upsampling import Size, resize


def as_network(
    module: nn.Module,
    *,
    mean: Triple | None = None,
    std: Triple | None = None,
    input_size: InputSize = None,
    multiple: int = 1,
    top_layers: Sequence[str] | None = None,
) -> NetworkAdapter:
    """Wrap a module so that its scores have the image's size: (B, C, H, W) → (B, L, H, W).

    Parameters
    ----------
    module
        A module that returns scores (B, L, h, w) of any resolution: as a tensor, as "out" in a dict (torchvision), or
        as the attribute ``logits`` of an object (transformers). Or a pair of scores and features (B, d, h′, w′) that a
        kernel of the CRF compares; features are resized like scores.
    mean, std
        The normalisation that the module expects, in colours 0…255; by default its attribute ``normalization``, an
        `InputNormalization`, or ImageNet's.
    input_size
        The size at which the module sees images: rows and columns, or the length of the longer side; by default their
        own.
    multiple
        Inputs are padded at the bottom and on the right, so that rows and columns are multiples of this, as modules
        with poolings and skip connections may need; the scores of the padding are removed.
    top_layers
        Names of the module's layers that learn with the rate of top layers, such as ["classifier"]; by default its
        attribute ``top_layers``, or none.

    >>> import torch
    >>> network = as_network(nn.Conv2d(3, 21, 4, stride=4))
    >>> network(torch.zeros(1, 3, 30, 41)).shape
    torch.Size([1, 21, 30, 41])
    """
    if not isinstance(module, nn.Module):
        raise InputTypeError(f"module is {module!r}, expected a torch.nn.Module.")
    own = getattr(module, "normalization", None)
    known = own if isinstance(own, InputNormalization) else IMAGENET
    normalization = InputNormalization(
        known.mean if mean is None else _checked_triple(mean, "mean"),
        known.std if std is None else _checked_triple(std, "std"),
    )
    if min(normalization.std) <= 0:
        raise InputError(f"std is {std}, expected numbers above zero.")
    _check_scale(normalization)
    if isinstance(multiple, bool) or not isinstance(multiple, int) or multiple < 1:
        raise InputError(f"multiple is {multiple!r}, expected an integer such as 32.")
    layers = tuple(getattr(module, "top_layers", ()) if top_layers is None else top_layers)
    if layers:
        parameter_groups(module, top=layers)  # raises unless they are layers with parameters
    network = NetworkAdapter(module, normalization)
    network.input_size = checked_input_size(input_size)
    network.multiple = multiple
    network.top_layers = tuple(f"module.{name}" for name in layers)
    return network


class NetworkAdapter(SegmentationNetwork):
    """A module whose scores are resized to the image; its parameters are under ``module``."""

    multiple: int = 1
    top_layers: tuple[str, ...] = ()

    def __init__(self, module: nn.Module, normalization: InputNormalization) -> None:
        super().__init__()
        self.module = module
        self.normalization = normalization

    def checked(self, image: object) -> Tensor:
        """The image; raises unless it is (B, C, H, W), floating point, with at least one pixel."""
        return checked_batch(image)

    def coarse_scores(self, image: Tensor) -> Tensor:
        """The scores that the module returns, (B, L, h, w)."""
        return self.coarse_outputs(image)[0]

    def coarse_outputs(self, image: Tensor) -> tuple[Tensor, ...]:
        """The scores that the module returns, and the features if it returns a pair."""
        rows, columns = self._padding((image.shape[2], image.shape[3]))
        # A colour of 0 after normalisation is the mean.
        output = self.module(pad(image, (0, columns, 0, rows)) if rows or columns else image)
        output, *features = output if type(output) is tuple and len(output) == 2 else (output,)
        scores = _scores_in(output)
        came = f"scores of shape {tuple(scores.shape)} for an image of shape {tuple(image.shape)}"
        if not scores.is_floating_point():
            raise InputTypeError(
                f"the module returned {scores.dtype}, expected scores in floating point numbers, not labels."
            )
        if scores.ndim != 4 or len(scores) != len(image):
            raise InputError(f"the module returned {came}, expected (batch, classes, rows, columns).")
        if scores.numel() == 0:
            raise InputError(f"the module returned {came}: it is too small for the module.")
        self._check_features(features, scores)
        return scores, *features

    def _check_features(self, features: Sequence[object], scores: Tensor) -> None:
        """Raises unless the features are (B, d, h, w), if there are some, with d the `embedding` of the settings."""
        for each in features:
            if not isinstance(each, Tensor) or not each.is_floating_point():
                came = f"of {each.dtype}" if isinstance(each, Tensor) else f"of type {type(each).__name__}"
                raise InputTypeError(f"the module returned features {came}, expected floating point numbers.")
            if each.ndim != 4 or len(each) != len(scores) or not each.numel():
                raise InputError(
                    f"the module returned features of shape {tuple(each.shape)} with scores of shape "
                    f"{tuple(scores.shape)}, expected (batch, channels, rows, columns)."
                )
        channels = [each.shape[1] for each in features if isinstance(each, Tensor)]
        if self.embedding and channels != [self.embedding]:
            came = f"features of {channels[0]} channels" if channels else "scores alone"
            raise InputError(
                f"the CRF compares an embedding of {self.embedding} channels (network.embedding), but "
                f"{type(self.module).__name__} returned {came}: return a pair, scores and features (batch, "
                f"{self.embedding}, rows, columns), or give the kernel one width for each channel."
            )

    def upsample_embedding(self, features: Tensor, size: Size, seen: Size) -> Tensor:
        """Features resized to the image as scores are."""
        return self.upsample(features, size, seen)

    def upsample(self, scores: Tensor, size: Size, seen: Size) -> Tensor:
        """Scores resized to the image, with the outer edges of both aligned."""
        rows, columns = self._padding(seen)
        if rows or columns:
            padded = resize(scores, (seen[0] + rows, seen[1] + columns))
            scores = padded[:, :, : seen[0], : seen[1]]
        return resize(scores, size)

    def _padding(self, size: Size) -> Size:
        """Rows and columns that are missing to multiples."""
        return -size[0] % self.multiple, -size[1] % self.multiple


def _scores_in(output: object) -> Tensor:
    """The tensor of scores in the output of a module."""
    if isinstance(output, Mapping) and "out" in output:
        found = output["out"]
    else:
        found = getattr(output, "logits", output)
    if isinstance(found, Tensor):
        return found
    came = f"an object of type {type(output).__name__}"
    if isinstance(output, Mapping):
        came += f" with {', '.join(repr(key) for key in output) or 'nothing in it'}"
    raise InputTypeError(
        f"the module returned {came}, expected a tensor of scores, a pair of scores and features, a dict with scores "
        "as 'out', or an object with them as .logits: wrap the module in one that returns the tensor."
    )


def _check_scale(normalization: InputNormalization) -> None:
    """Raises if mean or std are for colours 0…1: then 0…255 would be hundreds of standard deviations."""
    mean, std = normalization
    fractions = 0 < max(mean) <= 1
    if max(std) < 1 or (max(std) <= 1 and fractions):
        in_colours = [
            tuple(float(f"{255 * each:.6g}") for each in values) if scaled else values
            for values, scaled in ((mean, fractions), (std, True))
        ]
        raise InputError(
            f"the normalisation of the network is mean {mean} and std {std}, expected those of colours 0…255: pass "
            f"mean={in_colours[0]} and std={in_colours[1]} if these are for colours 0…1."
        )


def _checked_triple(values: Triple, name: str) -> Triple:
    try:
        red, green, blue = (float(value) for value in values)
    except (TypeError, ValueError):
        raise InputTypeError(f"{name} is {values!r}, expected three numbers, for r, g and b.") from None
    if not all(abs(value) < float("inf") for value in (red, green, blue)):
        raise InputError(f"{name} is {values!r}, expected finite numbers.")
    return red, green, blue
