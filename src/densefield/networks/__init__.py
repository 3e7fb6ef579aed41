"""Segmentation networks: normalised images (B, 3, H, W) to scores (B, L, H, W), their weights and learning rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from densefield.lazy import lazy_exports

if TYPE_CHECKING:
    from densefield.networks.adapter import as_network as as_network
    from densefield.networks.deeplab import deeplab_efficientnet_lite0 as deeplab_efficientnet_lite0
    from densefield.networks.deeplab import deeplab_vgg16 as deeplab_vgg16
    from densefield.networks.fcn8s import fcn8s_vgg16 as fcn8s_vgg16
    from densefield.networks.groups import parameter_groups as parameter_groups
    from densefield.networks.inputs import InputNormalization as InputNormalization
    from densefield.networks.small import small_network as small_network
    from densefield.networks.weights import load_weights as load_weights
    from densefield.networks.weights import read_weights as read_weights
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "adapter": ["as_network"],
            "deeplab": ["deeplab_efficientnet_lite0", "deeplab_vgg16"],
            "fcn8s": ["fcn8s_vgg16"],
            "groups": ["parameter_groups"],
            "inputs": ["InputNormalization"],
            "small": ["small_network"],
            "weights": ["load_weights", "read_weights"],
        },
    )
