"""The settings of a run, each with its default, its type and its limits."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from densefield.crf.compatibility import MOST_WEIGHT
from densefield.crf.problem import MOST_ITERATIONS

Positive = Annotated[float, Field(gt=0, le=MOST_WEIGHT)]
NotNegative = Annotated[float, Field(ge=0, le=MOST_WEIGHT)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Side = Annotated[int, Field(ge=1)]

HELD_OUT = "held_out"  # the split of images that are taken out of those for training

# What each network can be made with besides the number of labels, and the values it may have.
NETWORK_OPTIONS: dict[str, dict[str, tuple[object, ...]]] = {
    "deeplab_vgg16": {"fc6": ("7x7", "4x4", "3x3", "large-fov")},
    "fcn8s_vgg16": {},
    "deeplab_efficientnet_lite0": {"output_stride": (8, 16)},
    "small_network": {"width": tuple(range(32, 257, 32)), "norm": ("batch", "group")},
}


class _Section(BaseModel):
    """Settings that do not change, among which there are no others."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class SceneConfig(_Section):
    """Scenes that are drawn as they are needed; those for validation have the numbers after those for training."""

    images: Count = 2000
    val_images: Count = 200
    size: tuple[int, int] = (96, 96)
    classes: int = Field(default=10, ge=2, le=20)
    seed: Seed = 0


class DataConfig(_Section):
    """Where images come from, and what is done to them before the network sees them."""

    kind: Literal["voc2012", "folder", "scenes"] = "voc2012"
    root: str = "data"
    sbd: str | None = None  # the folder of SBD, where it is not in root
    train: str = "train"
    val: str = "val"  # or "held_out"
    held_out: int = Field(default=0, ge=0)  # images of train that are not trained on: the split "held_out"
    val_images: int = Field(
        default=0, ge=0
    )  # how many images of val are looked at while training, evenly spread; 0 is all
    longest_side: int = Field(default=0, ge=0)  # larger images are shrunk to that as they are read; 0 leaves them
    crop: tuple[Side, Side] = (306, 306)
    scales: tuple[Positive, Positive] = (0.5, 1.5)
    mirror: bool = True
    jitter: float = Field(default=0.2, ge=0, lt=1)
    scenes: SceneConfig = SceneConfig()

    @model_validator(mode="after")
    def _scales_are_in_order(self) -> DataConfig:
        if self.scales[0] > self.scales[1]:
            raise ValueError(f"scales are {list(self.scales)}, expected the smaller first")
        return self

    @model_validator(mode="after")
    def _there_is_something_held_out(self) -> DataConfig:
        if self.held_out and self.kind == "scenes":
            raise ValueError(f"held_out is {self.held_out}, but scenes are drawn as needed: use scenes.val_images")
        if self.val == HELD_OUT and not self.held_out:
            raise ValueError("val is 'held_out', but no images are: set held_out to how many")
        return self


class NetworkConfig(_Section):
    """Which network, and what it starts from: ImageNet's weights (true), nothing (false), or a file of weights."""

    name: Literal["deeplab_vgg16", "fcn8s_vgg16", "deeplab_efficientnet_lite0", "small_network"] = "deeplab_vgg16"
    labels: int = Field(default=21, ge=1, le=255)
    pretrained: bool | str = True
    options: dict[str, str | int] = {}

    @model_validator(mode="after")
    def _options_are_those_of_the_network(self) -> NetworkConfig:
        known = NETWORK_OPTIONS[self.name]
        for name, value in self.options.items():
            if name not in known:
                raise ValueError(f"options has {name!r}, but {self.name} has {', '.join(known) or 'none'}")
            if value not in known[name]:
                raise ValueError(f"options.{name} is {value!r}, expected one of {', '.join(map(str, known[name]))}")
        if self.name == "small_network" and self.pretrained is True:
            raise ValueError("pretrained is true, but there are no weights for small_network: set it to false")
        return self


class SpatialConfig(_Section):
    """The kernel of positions: its width in pixels, one or one per axis, and its weight; 0 leaves it out."""

    sigma: Positive | tuple[Positive, Positive] = 3.0
    weight: NotNegative = 3.0


class BilateralConfig(_Section):
    """The kernel of positions and colours 0…255."""

    sigma_xy: Positive | tuple[Positive, Positive] = 60.0
    sigma_rgb: Positive | tuple[Positive, Positive, Positive] = 10.0
    weight: NotNegative = 5.0


class CRFConfig(_Section):
    """The CRF of stage 2, as it is at first."""

    enabled: bool = True  # false trains the network alone in stage 2 too: what the CRF is compared with
    iterations: int = Field(default=5, ge=1, le=MOST_ITERATIONS)
    exclude_self: bool = False
    normalization: Literal["symmetric", "after", "before", "none"] = "symmetric"
    compatibility: Literal["potts", "per_label", "matrix"] = "potts"
    freeze: tuple[str, ...] = ()  # names of parameters that are not learnt, such as "*.log_sigma"
    spatial: SpatialConfig = SpatialConfig()
    bilateral: BilateralConfig = BilateralConfig()

    @model_validator(mode="after")
    def _one_kernel_at_least(self) -> CRFConfig:
        if self.spatial.weight == 0 and self.bilateral.weight == 0:
            raise ValueError("both kernels have weight 0, expected one that counts")
        return self

    @model_validator(mode="after")
    def _what_is_frozen_is_there(self) -> CRFConfig:
        kernels = [name for name in ("spatial", "bilateral") if getattr(self, name).weight]
        weight = "matrix" if self.compatibility == "matrix" else "log_weight"
        names = [f"{kernel}.{part}" for kernel in kernels for part in ("log_sigma", weight)]
        for pattern in self.freeze:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise ValueError(f"freeze has {pattern!r}, which fits none of {', '.join(names)}")
        return self


class OptimizerConfig(_Section):
    """How parameters move: the top layer, all other layers and the CRF at rates of their own."""

    name: Literal["sgd", "adamw"] = "sgd"
    lr_top: Positive = 0.01
    lr_rest: Positive = 0.001
    lr_crf: NotNegative = 0.01
    momentum: float = Field(default=0.9, ge=0, lt=1)  # of sgd
    weight_decay: NotNegative = 0.0005  # never of biases, nor of the CRF
    bias_factor: Positive = 2.0  # how much faster biases move
    schedule: Literal["constant", "poly"] = "poly"


class TrainingConfig(_Section):
    """What is done how often."""

    stage: Literal[1, 2] = 1
    steps: Count = 6000
    batch: Count = 20  # images per step, of all processes together
    accumulate: Count = 1  # parts in which each process goes through its share of a batch
    validate_every: Count = 500
    checkpoint_every: Count = 500
    log_every: Count = 1
    seed: Seed = 0
    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    workers: int = Field(default=2, ge=0)  # processes that read images; 0 reads them in the process that trains
    start_from: str | None = None  # a run or a checkpoint whose weights are taken

    @model_validator(mode="after")
    def _batches_can_be_split(self) -> TrainingConfig:
        if self.batch % self.accumulate:
            raise ValueError(f"batch is {self.batch}, expected a multiple of accumulate, which is {self.accumulate}")
        return self


class Config(_Section):
    """All settings of a run."""

    data: DataConfig = DataConfig()
    network: NetworkConfig = NetworkConfig()
    crf: CRFConfig = CRFConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    training: TrainingConfig = TrainingConfig()

    @property
    def uses_crf(self) -> bool:
        """Whether the CRF takes part: in stage 2, unless it is switched off."""
        return self.training.stage == 2 and self.crf.enabled
