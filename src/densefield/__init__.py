"""Fully connected conditional random fields.

Names are loaded when they are first used, so that `import densefield` is quick and NumPy users never
import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from densefield.crf.convert import from_crfasrnn as from_crfasrnn
    from densefield.crf.convert import from_monai as from_monai
    from densefield.crf.kernels import Bilateral as Bilateral
    from densefield.crf.kernels import Custom as Custom
    from densefield.crf.kernels import Kernel as Kernel
    from densefield.crf.kernels import Spatial as Spatial
    from densefield.crf.model import CRF as CRF
    from densefield.crf.problem import Solution as Solution
    from densefield.crf.refine import refine as refine
    from densefield.datasets.folder import FolderDataset as FolderDataset
    from densefield.datasets.loading import evaluation_batches as evaluation_batches
    from densefield.datasets.loading import training_batches as training_batches
    from densefield.datasets.sample import Sample as Sample
    from densefield.datasets.transforms import Augmentation as Augmentation
    from densefield.datasets.voc import VOC2012 as VOC2012
    from densefield.diagnose.explain import explain as explain
    from densefield.diagnose.result import Finding as Finding
    from densefield.errors import DensefieldError as DensefieldError
    from densefield.errors import InputError as InputError
    from densefield.errors import InputTypeError as InputTypeError
    from densefield.errors import InputWarning as InputWarning
    from densefield.filters.autograd import apply_filter as apply_filter
    from densefield.filters.autograd import gaussian_filter as gaussian_filter
    from densefield.filters.exact import ExactFilter as ExactFilter
    from densefield.filters.lattice import LatticeFilter as LatticeFilter
    from densefield.filters.lattice_torch import TorchLatticeFilter as TorchLatticeFilter
    from densefield.filters.operator import GaussianFilter as GaussianFilter
    from densefield.filters.threads import release_memory as release_memory
    from densefield.metrics.bootstrap import bootstrap_interval as bootstrap_interval
    from densefield.metrics.bootstrap import compare_methods as compare_methods
    from densefield.metrics.metrics import SegmentationResult as SegmentationResult
    from densefield.networks.adapter import as_network as as_network
    from densefield.networks.deeplab import deeplab_efficientnet_lite0 as deeplab_efficientnet_lite0
    from densefield.networks.deeplab import deeplab_vgg16 as deeplab_vgg16
    from densefield.networks.fcn8s import fcn8s_vgg16 as fcn8s_vgg16
    from densefield.networks.groups import parameter_groups as parameter_groups
    from densefield.networks.small import small_network as small_network
    from densefield.networks.weights import load_weights as load_weights
    from densefield.nn.dense_crf import DenseCRF as DenseCRF
    from densefield.nn.losses import log_likelihood_loss as log_likelihood_loss
    from densefield.nn.segmenter import Segmenter as Segmenter
    from densefield.scenes.files import write_scenes as write_scenes
    from densefield.scenes.scene import SceneDataset as SceneDataset
    from densefield.scenes.scene import draw_scene as draw_scene

    __version__: str

# Public name → the module that defines it. A test keeps the imports above, which are for type checkers
# and editors, equal to this table.
_HOMES = {
    "from_crfasrnn": "densefield.crf.convert",
    "from_monai": "densefield.crf.convert",
    "CRF": "densefield.crf.model",
    "explain": "densefield.diagnose.explain",
    "Finding": "densefield.diagnose.result",
    "Bilateral": "densefield.crf.kernels",
    "Custom": "densefield.crf.kernels",
    "Kernel": "densefield.crf.kernels",
    "Spatial": "densefield.crf.kernels",
    "DenseCRF": "densefield.nn.dense_crf",
    "refine": "densefield.crf.refine",
    "Solution": "densefield.crf.problem",
    "FolderDataset": "densefield.datasets.folder",
    "Sample": "densefield.datasets.sample",
    "VOC2012": "densefield.datasets.voc",
    "evaluation_batches": "densefield.datasets.loading",
    "training_batches": "densefield.datasets.loading",
    "write_scenes": "densefield.scenes.files",
    "SceneDataset": "densefield.scenes.scene",
    "draw_scene": "densefield.scenes.scene",
    "Augmentation": "densefield.datasets.transforms",
    "DensefieldError": "densefield.errors",
    "InputError": "densefield.errors",
    "InputTypeError": "densefield.errors",
    "InputWarning": "densefield.errors",
    "apply_filter": "densefield.filters.autograd",
    "gaussian_filter": "densefield.filters.autograd",
    "ExactFilter": "densefield.filters.exact",
    "LatticeFilter": "densefield.filters.lattice",
    "TorchLatticeFilter": "densefield.filters.lattice_torch",
    "release_memory": "densefield.filters.threads",
    "GaussianFilter": "densefield.filters.operator",
    "log_likelihood_loss": "densefield.nn.losses",
    "bootstrap_interval": "densefield.metrics.bootstrap",
    "compare_methods": "densefield.metrics.bootstrap",
    "SegmentationResult": "densefield.metrics.metrics",
    "as_network": "densefield.networks.adapter",
    "deeplab_efficientnet_lite0": "densefield.networks.deeplab",
    "deeplab_vgg16": "densefield.networks.deeplab",
    "fcn8s_vgg16": "densefield.networks.fcn8s",
    "parameter_groups": "densefield.networks.groups",
    "small_network": "densefield.networks.small",
    "load_weights": "densefield.networks.weights",
    "Segmenter": "densefield.nn.segmenter",
}

# Module that may be missing → what it is called, and how to get it.
_CURES = {
    "torch": ("torch", "pip install 'densefield[torch]'"),
    "PIL": ("Pillow", "pip install pillow"),
}

__all__ = ["__version__", *_HOMES]


def _load(name: str) -> object:
    try:
        home = importlib.import_module(_HOMES[name])
    except ModuleNotFoundError as error:
        if error.name not in _CURES:
            raise
        needed, cure = _CURES[error.name]
        raise ModuleNotFoundError(
            f"densefield.{name} needs {needed}, which is not installed. Install it with: {cure}", name=error.name
        ) from error
    value: object = getattr(home, name)
    return value


if not TYPE_CHECKING:  # to a type checker it would say that every name exists

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import version

            value = version("densefield")
        elif name in _HOMES:
            value = _load(name)
        else:
            raise AttributeError(f"module 'densefield' has no attribute {name!r}")
        globals()[name] = value  # the next use finds it without coming here
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
