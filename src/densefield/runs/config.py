"""The settings of a run, with their defaults, types and limits."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from densefield.crf.crf_tables import KERNELS, kernel_problems
from densefield.datasets.transforms import SCALES
from densefield.filters.lattice_design import MAX_DIMENSION
from densefield.runs.config_section import Count, NotNegative, Positive, Section, Seed
from densefield.runs.crf_config import EMBEDDING, CRFConfig, parameter_names
from densefield.runs.references import is_own, is_reference

MAX_NETWORK_SIZE = 4096  # activations of larger images take tens of gigabytes
MIN_NETWORK_SIZE = 32  # two scores at a stride of 16: batch normalisation needs more than one

CROP = (306, 306)  # the default of training on crops

MAX_EMBEDDING = MAX_DIMENSION - 2  # channels, besides two of the position
WITH_EMBEDDING = ("small_network", "deeplab_efficientnet_lite0")

DATA_KINDS = ("voc2012", "folder", "scenes")

HELD_OUT = "held_out"  # the split of images removed from the training images

# The options of each network besides the number of classes, and their values.
NETWORK_OPTIONS: dict[str, dict[str, tuple[object, ...]]] = {
    "deeplab_vgg16": {"fc6": ("7x7", "4x4", "3x3", "large-fov")},
    "fcn8s_vgg16": {},
    "deeplab_efficientnet_lite0": {"output_stride": (8, 16)},
    "small_network": {"width": tuple(range(32, 257, 32)), "norm": ("batch", "group")},
}


def checked_name(value: str, known: Collection[str], returned: str) -> str:
    """The value; raises unless it is a known name, a Python object, or a function.

    >>> checked_name("my_data:scans", DATA_KINDS, "a dataset")
    'my_data:scans'
    """
    if value not in known and not is_own(value):
        raise ValueError(
            f'is "{value}", expected {", ".join(known)}, or a function that returns {returned}, such as '
            "package.module:function"
        )
    return value


class SceneConfig(Section):
    """Scenes drawn on demand; validation scenes have the numbers after those for training."""

    images: Count = 2000
    val_images: Count = 200
    size: tuple[int, int] = (96, 96)
    object_classes: int = Field(default=10, ge=2, le=20)
    seed: Seed = 0


class DataConfig(Section):
    """The dataset and its augmentation."""

    # "voc2012", "folder", "scenes", or "package.module:function", which returns the dataset of a split.
    kind: str = "voc2012"
    options: dict[str, Any] = Field(default_factory=dict)  # keyword arguments of that function
    root: str = "data"
    sbd: str | None = None  # the folder of SBD, if it is not in root
    train: str = "train"
    val: str = "val"  # or "held_out"
    held_out: int = Field(default=0, ge=0)  # number of training images held out as the split "held_out"
    val_images: int = Field(default=0, ge=0)  # number of validation images, evenly spread; 0 is all
    train_iou_images: int = Field(default=100, ge=0)  # number of training images, evenly spread, that are validated too
    longest_side: int = Field(default=0, ge=0)  # larger images are shrunk to this when read; 0 is no limit
    # The size at which the network sees whole images: rows and columns, or the longer side. Scores, CRF and loss have
    # the size of the image. Without it, training is on random crops.
    network_size: int | tuple[int, int] | None = None
    augment: bool = True  # false trains on the images as they are in the dataset
    crop: tuple[Count, Count] | None = None  # (306, 306) without network_size
    scales: tuple[Positive, Positive] | None = None  # (0.5, 1.5) without network_size
    mirror: bool = True
    jitter: float = Field(default=0.2, ge=0, lt=1)
    scenes: SceneConfig = SceneConfig()

    @field_validator("kind")
    @classmethod
    def _kind_is_known(cls, value: str) -> str:
        return checked_name(value, DATA_KINDS, "the dataset of a split")

    @field_validator("crop", mode="before")
    @classmethod
    def _crop_is_a_pair(cls, value: object) -> object:
        if value is not None and not (isinstance(value, list | tuple) and len(value) == 2):
            raise ValueError(f"is {value}, expected rows and columns such as {list(CROP)}")
        return tuple(value) if isinstance(value, list) else value

    @field_validator("network_size", mode="before")
    @classmethod
    def _network_size_is_a_size(cls, value: object) -> object:
        sides = value if isinstance(value, list | tuple) and len(value) == 2 else [value]
        if value is not None and not all(
            type(side) is int and MIN_NETWORK_SIZE <= side <= MAX_NETWORK_SIZE for side in sides
        ):
            raise ValueError(
                f"is {json.dumps(value, default=str)}, expected rows and columns such as [306, 306], or the length of "
                f"the longer side such as 384, each from {MIN_NETWORK_SIZE} to {MAX_NETWORK_SIZE}"
            )
        return tuple(sides) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _values_fit_together(self) -> DataConfig:
        if self.options and not is_reference(self.kind):
            raise ValueError(f"options are for a kind such as package.module:function, and the kind is {self.kind}")
        check_options(self.options)
        if not self.augment:
            for name in ("crop", "scales"):
                if getattr(self, name):
                    raise ValueError(f"augment is false, but {name} is set: remove one of them")
            object.__setattr__(self, "mirror", False)
            object.__setattr__(self, "jitter", 0.0)
        elif self.network_size is None:  # filled in here, so that RUN/config.toml shows them
            object.__setattr__(self, "crop", self.crop or CROP)
            object.__setattr__(self, "scales", self.scales or SCALES)
        if self.network_size is not None:
            for name in ("crop", "scales", "longest_side"):
                if getattr(self, name):
                    raise ValueError(
                        f"{name} and network_size are both set: with network_size, whole images are used at their own "
                        f"size, and only the network's input is resized. Remove one of them: {name} for whole images, "
                        "network_size for crops"
                    )
        if self.scales is not None and self.scales[0] > self.scales[1]:
            raise ValueError(f"scales are {list(self.scales)}, expected the smaller first")
        if self.held_out and self.kind == "scenes":
            raise ValueError(f"held_out is {self.held_out}, but scenes are drawn as needed: use scenes.val_images")
        if self.val == HELD_OUT and not self.held_out:
            raise ValueError("val is 'held_out', but held_out is 0: set it to a number of images")
        return self


class NetworkConfig(Section):
    """The network and its initial weights: ImageNet's (true), random (false), or those of a file.

    The name is that of a network of densefield, or "package.module:function", which returns a torch module. That has
    the weights with which the function returns it, or those of a file.
    """

    name: str = "deeplab_vgg16"
    num_classes: int = Field(default=21, ge=1, le=255)
    pretrained: bool | str = True
    options: dict[str, Any] = Field(default_factory=dict)  # of the network, or keyword arguments of the function
    mean: tuple[float, float, float] | None = None  # of the function's module, in colours 0…255; by default its own
    std: tuple[Positive, Positive, Positive] | None = None  # `normalization`, or ImageNet's
    multiple: Count = 1  # rows and columns of the module's input are padded to multiples of this
    top_layers: tuple[str, ...] = ()  # the module's layers that learn with lr_top; by default its own, or none
    embedding: int = Field(default=0, ge=0, le=MAX_EMBEDDING)  # channels of an embedding that a custom kernel compares
    frozen: bool = False  # in stage 2: evaluation mode, no gradients, so that the CRF alone is learnt

    @field_validator("name")
    @classmethod
    def _name_is_known(cls, value: str) -> str:
        return checked_name(value, NETWORK_OPTIONS, "a torch module")

    @property
    def is_own(self) -> bool:
        """Whether the network is the user's, not one of densefield's."""
        return is_own(self.name)

    @model_validator(mode="after")
    def _options_are_those_of_the_network(self) -> NetworkConfig:
        if self.is_own:
            check_options(self.options)
            return self
        for name in ("mean", "std", "multiple", "top_layers"):
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} is set, but {self.name} has its own: it is for other networks")
        known = NETWORK_OPTIONS[self.name]
        for name, value in self.options.items():
            if name not in known:
                raise ValueError(f"options has {name!r}, but {self.name} has {', '.join(known) or 'none'}")
            if value not in known[name]:
                raise ValueError(f"options.{name} is {value!r}, expected one of {', '.join(map(str, known[name]))}")
        if self.embedding and self.name not in WITH_EMBEDDING:
            raise ValueError(
                f"embedding is {self.embedding}, but {self.name} has none: use {' or '.join(WITH_EMBEDDING)}"
            )
        if self.name == "small_network" and self.pretrained is True:
            raise ValueError("pretrained is true, but there are no weights for small_network: set it to false")
        return self


def check_options(options: Mapping[str, Any]) -> None:
    """Raises unless all values can be written as TOML.

    >>> check_options({"classes": 3, "decoder": {"channels": [64, 32]}})
    """
    for name, value in options.items():
        inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
        if not isinstance(value, str | int | float | bool | list | tuple | Mapping):
            raise ValueError(f"options.{name} is {value!r}, expected a number, text, true or false, a list or a table")
        check_options({f"{name}.{place}": each for place, each in enumerate(inner)})


class OptimizerConfig(Section):
    """The optimiser, with learning rates of the top layer, all other layers and the CRF."""

    name: Literal["sgd", "adamw"] = "sgd"
    lr_top: Positive = 0.01
    lr_rest: Positive = 0.001
    lr_crf: NotNegative = 0.01
    momentum: float = Field(default=0.9, ge=0, lt=1)  # of sgd
    weight_decay: NotNegative = 0.0005  # not applied to biases and to the CRF
    weight_decay_crf: NotNegative = 0.0  # of the CRF's parameters towards their values in the settings
    bias_factor: Positive = 2.0  # learning rate of biases, relative to weights
    schedule: Literal["constant", "poly"] = "poly"


class TrainingConfig(Section):
    """The training loop."""

    stage: Literal[1, 2] = 1
    steps: Count = 6000
    batch: Count = 20  # images per step, over all processes
    accumulate: Count = 1  # parts in which each process computes its share of a batch
    validate_every: Count = 500
    checkpoint_every: Count = 500
    log_every: Count = 1
    best_by: Literal["iou", "nll"] = "iou"  # the validation metric of the best checkpoint
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    seed: Seed = 0
    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    workers: int = Field(default=2, ge=0)  # processes that read images; 0 reads them in the training process
    start_from: str | None = None  # a run or a checkpoint with the initial weights

    @model_validator(mode="after")
    def _batches_can_be_split(self) -> TrainingConfig:
        if self.batch % self.accumulate:
            raise ValueError(f"batch is {self.batch}, expected a multiple of accumulate, which is {self.accumulate}")
        return self


class Config(Section):
    """All settings of a run: the tables `data`, `network`, `crf`, `optimizer` and `training`."""

    data: DataConfig = DataConfig()
    network: NetworkConfig = NetworkConfig()
    crf: CRFConfig = CRFConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    training: TrainingConfig = TrainingConfig()

    @model_validator(mode="after")
    def _weights_are_for_the_labels(self) -> Config:
        problems = kernel_problems(self.crf.kernels, self.network.num_classes)
        if problems:
            raise ValueError("\n".join(f"crf.{line}" for line in problems))
        return self

    @model_validator(mode="after")
    def _the_embedding_is_compared(self) -> Config:
        channels, kernels = self.network.embedding, list(self.crf.kernels)
        custom = [place for place, table in enumerate(kernels) if table["kind"] == "custom"]
        if channels and not custom:
            raise ValueError(
                f"network.{EMBEDDING} is {channels}, but no kernel compares it: set it to 0, or add a kernel with kind "
                f'= "custom", feature = "{EMBEDDING}", sigma and sigma_xy to [[crf.{KERNELS}]]'
            )
        for place in custom:
            widths = kernels[place]["sigma"]
            if not channels:
                raise ValueError(
                    f"crf.{KERNELS}.{place}: compares the network's {EMBEDDING}, but network.{EMBEDDING} is 0: set it "
                    "to a number of channels such as 4"
                )
            if np.ndim(widths) and len(widths) != channels:
                raise ValueError(
                    f"crf.{KERNELS}.{place}.sigma: has {len(widths)} widths, but network.{EMBEDDING} is {channels}: "
                    "give one width, or one for each channel"
                )
            # One width for each channel, filled in here, so that RUN/config.toml shows them.
            kernels[place] = {**kernels[place], "sigma": np.broadcast_to(widths, channels).tolist()}
        if custom:
            object.__setattr__(self, "crf", self.crf.model_copy(update={KERNELS: tuple(kernels)}))
        return self

    @model_validator(mode="after")
    def _something_is_learnt(self) -> Config:
        if self.network.frozen and self.training.stage == 2:
            if not self.crf.enabled:
                raise ValueError("network.frozen is true and crf.enabled is false: nothing would be learnt")
            if all(
                any(fnmatchcase(name, each) for each in self.crf.freeze) for name in parameter_names(self.crf.kernels)
            ):
                raise ValueError(
                    f"network.frozen is true and crf.freeze is {list(self.crf.freeze)}: nothing would be learnt"
                )
        return self

    @property
    def uses_crf(self) -> bool:
        """Whether there is a CRF: in stage 2, unless disabled."""
        return self.training.stage == 2 and self.crf.enabled
