"""A segmentation model of transformers with a CRF, as a model of transformers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from os import PathLike
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.modeling_outputs import SemanticSegmenterOutput

from densefield.errors import InputError, InputTypeError
from densefield.integrations.pixel_values import PixelValues
from densefield.integrations.query_masks import semantic_scores
from densefield.integrations.transformers_config import (
    DenseCRFConfig,
    class_of_transformers,
    crf_fields,
    crf_of,
    network_of,
)
from densefield.labels import VOID
from densefield.nn.dense_crf import DenseCRF
from densefield.nn.kernel_parameters import KernelParameters
from densefield.nn.losses import log_likelihood_loss


class DenseCRFForSemanticSegmentation(PreTrainedModel):  # type: ignore[misc]
    """A segmentation model of transformers and a CRF on its scores: pixel values → log marginals as logits.

    `from_network` makes it from a model and a CRF. It trains with `Trainer`, and `save_pretrained` and
    `from_pretrained` keep network, CRF and configuration. docs/integrations/transformers.md is the guide.

    Parameters
    ----------
    config
        A DenseCRFConfig.
    network, crf
        Made from the configuration if they are not given.

    >>> from transformers import SegformerConfig, SegformerForSemanticSegmentation
    >>> config = SegformerConfig(num_labels=3, hidden_sizes=[8] * 4, num_attention_heads=[1] * 4)
    >>> network = SegformerForSemanticSegmentation(config)
    >>> model = DenseCRFForSemanticSegmentation.from_network(network, DenseCRF(num_classes=3))
    >>> images = torch.randint(256, (1, 3, 32, 48), dtype=torch.uint8)
    >>> model(images / 255, images=images).logits.shape
    torch.Size([1, 3, 32, 48])
    """

    config_class = DenseCRFConfig
    main_input_name = "pixel_values"
    accepts_loss_kwargs = False  # the loss is a mean over the pixels of a batch, which Trainer has to average
    # Widths and weights are logarithms, whose rounding to half precision would change them by percents.
    _keep_in_fp32_modules = ["crf"]  # noqa: RUF012
    _keep_in_fp32_modules_strict = ["crf"]  # noqa: RUF012

    def __init__(
        self, config: DenseCRFConfig, network: PreTrainedModel | None = None, crf: DenseCRF | None = None
    ) -> None:
        super().__init__(config)
        for given in (network, crf):
            for module in () if given is None else given.modules():
                module._is_hf_initialized = True  # otherwise post_init() replaces its weights
        self.network = network_of(config) if network is None else network
        self.crf = crf_of(config) if crf is None else crf
        self._pixel_values = None if config.pixel_values is None else PixelValues.of_config(config.pixel_values)
        self._has_warned = False
        self.supports_gradient_checkpointing = self.network.supports_gradient_checkpointing
        self.post_init()

    @classmethod
    def from_network(
        cls, network: PreTrainedModel, crf: DenseCRF, *, image_processor: Any = None
    ) -> DenseCRFForSemanticSegmentation:
        """The model of a network and a CRF, which are not copied.

        Parameters
        ----------
        network
            A segmentation model of transformers whose output `semantic_scores` takes.
        crf
            The CRF, for as many classes. It compares colours 0…255.
        image_processor
            The image processor of the network. Its normalisation is inverted to get colours from the pixel values.
            Without one, every call needs images=.
        """
        if not isinstance(network, PreTrainedModel):
            raise InputTypeError(f"network is of type {type(network).__name__}, expected a model of transformers.")
        class_of_transformers(type(network).__name__, type(network))
        _check_crf(crf, network)
        arithmetic = None if image_processor is None else PixelValues.of_processor(image_processor)
        config = DenseCRFConfig(
            network=network.config.to_dict(),
            network_class=type(network).__name__,
            pixel_values=None if arithmetic is None else arithmetic.to_config(),
            id2label=network.config.id2label,
            label2id=network.config.label2id,
            **crf_fields(crf),
        )
        return cls(config, network, crf)

    def forward(
        self,
        pixel_values: Tensor,  # (B, 3, H, W)
        labels: Tensor | None = None,  # (B, H, W)
        images: Tensor | None = None,  # (B, 3, H′, W′)
        pixel_mask: Tensor | None = None,  # (B, H, W)
        return_dict: bool | None = None,
        **network_inputs: Any,
    ) -> Any:
        """The output of semantic segmentation, whose ``logits`` are log marginals (B, L, H, W).

        Parameters
        ----------
        pixel_values
            The input of the network, (B, 3, H, W), as the image processor makes it.
        labels
            (B, H, W), integers 0…L-1, or the network's value for void, usually 255; the output then has a ``loss``.
        images
            Colours 0…255 for the CRF, (B, 3, H, W), by default those of the pixel values. They may have another size,
            such as that of the original image: the result and the labels then have that size.
        pixel_mask
            (B, H, W), 0 for padding, which the CRF ignores.
        return_dict
            False for a tuple instead of an object.
        **network_inputs
            Further inputs of the network. If it computes a loss of its own from them, as Mask2Former does from
            mask_labels and class_labels, that loss is added.
        """
        ignore = None if pixel_mask is None else pixel_mask == 0
        colours = self._colours(pixel_values, images, ignore)
        if pixel_mask is not None and "pixel_mask" in inspect.signature(self.network.forward).parameters:
            network_inputs["pixel_mask"] = pixel_mask
        outputs = self.network(pixel_values=pixel_values, return_dict=True, **network_inputs)
        scores = semantic_scores(outputs, (colours.shape[-2], colours.shape[-1]))
        log_marginals = self.crf(scores, colours, ignore=ignore)
        losses = [each for each in (getattr(outputs, "loss", None),) if each is not None]
        if labels is not None:
            losses.append(log_likelihood_loss(log_marginals, self._with_common_void(labels)))
        output = SemanticSegmenterOutput(loss=sum(losses) if losses else None, logits=log_marginals)
        return output.to_tuple() if return_dict is False else output

    def save_pretrained(self, save_directory: str | PathLike[str], *arguments: Any, **options: Any) -> None:
        """Writes model.safetensors, config.json and crf.toml.

        Parameters
        ----------
        save_directory
            The folder.
        *arguments, **options
            Those of PreTrainedModel.save_pretrained.
        """
        self.config.network = self.network.config.to_dict()
        for name, value in crf_fields(self.crf).items():
            setattr(self.config, name, value)
        # Some models have other names of parameters in files, but Trainer expects the names of the model to resume.
        if "save_original_format" in inspect.signature(PreTrainedModel.save_pretrained).parameters:
            options.setdefault("save_original_format", False)
        super().save_pretrained(save_directory, *arguments, **options)

    def _colours(self, pixel_values: Tensor, images: Tensor | None, ignore: Tensor | None) -> Tensor:
        """Colours 0…255 for the CRF; warns once of pixel values of another normalisation."""
        if images is not None:
            shape = tuple(images.shape) if isinstance(images, Tensor) else None
            channels = (3, 4)  # with alpha
            if shape is None or len(shape) != 4 or shape[0] != len(pixel_values) or shape[1] not in channels:
                came = f"of type {type(images).__name__}" if shape is None else f"of shape {shape}"
                raise InputError(
                    f"images are {came}, expected a tensor of colours 0…255 of shape ({len(pixel_values)}, 3, rows, "
                    "columns): one image for each of the pixel values."
                )
            if ignore is not None and images.shape[-2:] != pixel_values.shape[-2:]:
                raise InputError(
                    f"the images have shape {tuple(images.shape)} and the pixel values {tuple(pixel_values.shape)}, "
                    "but pixel_mask= is given: expected images of the same size, with the same padding."
                )
            return images
        if self._pixel_values is None:
            raise InputError(
                "the model was made without an image processor, so it does not know the colours of the pixel values: "
                "pass images=, with colours 0…255, or from_network(network, crf, image_processor=processor)."
            )
        if not self._has_warned and self._pixel_values.warn_unless_plausible(pixel_values, ignore):
            self._has_warned = True
            self.crf._range_checked = True  # its own cure is for images
        return self._pixel_values.colours(pixel_values)

    def _with_common_void(self, labels: Tensor) -> Tensor:
        """Labels whose value for void is 255, whatever it is in the configuration of the network."""
        if self.crf.num_classes > VOID:
            raise InputError(f"there are {self.crf.num_classes} classes, expected at most {VOID} for a loss.")
        for name in ("semantic_loss_ignore_index", "loss_ignore_index", "ignore_value"):
            void = getattr(self.network.config, name, VOID)
            if void != VOID:
                return labels.masked_fill(labels == void, VOID)
        return labels

    def _apply(self, fn: Callable[[Tensor], Tensor], *arguments: Any) -> Any:
        """Moves or converts all tensors, but keeps the CRF in single precision or better, as `from_pretrained` does."""
        own = {id(each) for parameter in self.crf.parameters() for each in (parameter, parameter.grad)}

        def converted(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            is_half = moved.dtype in (torch.float16, torch.bfloat16)
            return tensor.to(moved.device) if is_half and id(tensor) in own else moved

        return super()._apply(converted, *arguments)

    def _init_weights(self, module: torch.nn.Module) -> None:
        """Initial values of modules that a file has no weights for."""
        if isinstance(module, KernelParameters):
            module.reset_parameters()
        elif not isinstance(module, DenseCRF | DenseCRFForSemanticSegmentation):
            self.network._init_weights(module)


def _check_crf(crf: object, network: PreTrainedModel) -> None:
    """Raises unless the CRF compares colours 0…255 of images alone, for the classes of the network."""
    if not isinstance(crf, DenseCRF):
        raise InputTypeError(f"crf is of type {type(crf).__name__}, expected a DenseCRF.")
    classes = network.config.num_labels
    if classes != crf.num_classes:
        hint = " A model with one label has one logit, of the foreground: use num_labels=2." if classes == 1 else ""
        raise InputError(f"the network scores {classes} classes, but the CRF has {crf.num_classes}.{hint}")
    if crf.feature_names or (crf.axes, crf.channels) != (2, 3) or crf.options.data_range not in (None, VOID):
        raise InputError(
            f"the CRF compares {', '.join(map(repr, crf.feature_names)) or 'images'} with axes={crf.axes}, "
            f"channels={crf.channels} and data_range={crf.options.data_range}, expected colours 0…255 of images, "
            "without Custom kernels."
        )
