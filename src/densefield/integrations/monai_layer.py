"""A layer in place of `monai.networks.blocks.CRF`, with gradients."""

from __future__ import annotations

from typing import Any

from monai.data import MetaTensor
from monai.utils import convert_to_dst_type
from torch import Tensor, nn

from densefield.crf.convert import from_monai
from densefield.crf.kernels import Widths
from densefield.crf.model import CRF
from densefield.errors import InputError
from densefield.nn.dense_crf import DenseCRF


class MonaiCRF(nn.Module):
    """`monai.networks.blocks.CRF` with gradients for logits and image, from compiled code of densefield.

    Marginals are those of MONAI's block, on the same lattice. The arguments are the block's and fixed: the layer has no
    parameters. To learn weights and widths use ``DenseCRF.from_numpy(from_monai(…), num_classes, channels=…, axes=…)``.

    Parameters
    ----------
    iterations, bilateral_weight, gaussian_weight, bilateral_spatial_sigma, bilateral_color_sigma
        Those of MONAI's block; see `densefield.crf.from_monai`.
    gaussian_spatial_sigma, update_factor, compatibility_matrix
        Those of MONAI's block too.

    >>> import torch
    >>> logits = torch.zeros(1, 2, 6, 8, 8, requires_grad=True)
    >>> q = MonaiCRF(iterations=2)(logits, torch.rand(1, 1, 6, 8, 8))
    >>> q[:, 0].sum().backward()
    >>> q.shape, bool((logits.grad[:, 0] > 0).all())
    (torch.Size([1, 2, 6, 8, 8]), True)
    """

    def __init__(
        self,
        iterations: int = 5,
        bilateral_weight: float = 1.0,
        gaussian_weight: float = 1.0,
        bilateral_spatial_sigma: Widths = 5.0,
        bilateral_color_sigma: float = 0.5,
        gaussian_spatial_sigma: Widths = 5.0,
        update_factor: float = 3.0,
        compatibility_matrix: Tensor | None = None,
    ) -> None:
        super().__init__()
        if isinstance(compatibility_matrix, Tensor) and compatibility_matrix.requires_grad:
            raise InputError(
                "compatibility_matrix requires a gradient, which this layer has for logits and image alone. Pass "
                "compatibility_matrix.detach(), or learn weights by DenseCRF.from_numpy(from_monai(…), num_classes)."
            )
        self.crf: CRF = from_monai(
            iterations=iterations,
            bilateral_weight=bilateral_weight,
            gaussian_weight=gaussian_weight,
            bilateral_spatial_sigma=bilateral_spatial_sigma,
            bilateral_color_sigma=bilateral_color_sigma,
            gaussian_spatial_sigma=gaussian_spatial_sigma,
            update_factor=update_factor,
            compatibility_matrix=compatibility_matrix,
        )
        # Sizes and device are known at the first call. Not submodules, so that the layer has no parameters.
        self._modules_of_sizes: dict[tuple[Any, ...], DenseCRF] = {}

    def extra_repr(self) -> str:
        """The kernels, for print()."""
        return repr(self.crf)

    def forward(self, input_tensor: Tensor, reference_tensor: Tensor) -> Tensor:
        """Marginals (B, L, …), in the type of the logits.

        Parameters
        ----------
        input_tensor
            Logits (B, L, …).
        reference_tensor
            Images (B, C, …), in the unit of `bilateral_color_sigma`.
        """
        logits, image = (
            each.as_tensor() if isinstance(each, MetaTensor) else each for each in (input_tensor, reference_tensor)
        )
        if not isinstance(logits, Tensor) or not isinstance(image, Tensor) or min(logits.ndim, image.ndim) < 3:
            came = [
                str(tuple(each.shape)) if isinstance(each, Tensor) else type(each).__name__ for each in (logits, image)
            ]
            raise InputError(
                f"logits and image are {' and '.join(came)}, expected tensors (batch, classes, …) and "
                "(batch, channels, …)."
            )
        size = logits.shape[1], image.shape[1], logits.ndim - 2, logits.device
        if size not in self._modules_of_sizes:
            crf = DenseCRF.from_numpy(self.crf, size[0], channels=size[1], axes=size[2]).requires_grad_(False)
            self._modules_of_sizes[size] = crf.to(logits.device)
        q = self._modules_of_sizes[size](logits, image).exp().to(logits.dtype)
        return convert_to_dst_type(q, dst=input_tensor)[0] if isinstance(input_tensor, MetaTensor) else q
