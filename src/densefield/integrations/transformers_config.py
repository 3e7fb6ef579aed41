"""The configuration of a model of transformers with a CRF, and what is made from it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import transformers
from transformers import PretrainedConfig, PreTrainedModel

from densefield.crf.crf_file import write_crf
from densefield.crf.crf_tables import crf_from_tables, crf_to_tables
from densefield.errors import InputError, InputTypeError
from densefield.nn.dense_crf import DenseCRF

CRF_FILE = "crf.toml"


class DenseCRFConfig(PretrainedConfig):  # type: ignore[misc]
    """The configuration of a network of transformers and of the CRF on its scores.

    Saving it also writes the CRF to ``crf.toml``, for `CRF.load` and the command line.

    Parameters
    ----------
    network
        The configuration of the network as a dict, `config.to_dict()`.
    network_class
        The name of the network's class in transformers, such as "SegformerForSemanticSegmentation".
    crf
        Kernels and options of the CRF, as `crf.toml` has them.
    crf_options
        ``method``, ``adjoint`` and ``backend`` of the DenseCRF.
    pixel_values
        ``mean``, ``std`` and ``bgr`` of the image processor, in colours 0…255; None if images are always passed.
    **options
        Those of PretrainedConfig.

    >>> DenseCRFConfig(network_class="SegformerForSemanticSegmentation").model_type
    'dense_crf'
    """

    model_type = "dense_crf"

    def __init__(
        self,
        network: dict[str, Any] | None = None,
        network_class: str | None = None,
        crf: dict[str, Any] | None = None,
        crf_options: dict[str, Any] | None = None,
        pixel_values: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.network = network
        self.network_class = network_class
        self.crf = crf
        self.crf_options = crf_options
        self.pixel_values = pixel_values
        super().__init__(**options)

    def save_pretrained(self, save_directory: str | PathLike[str], *arguments: Any, **options: Any) -> None:
        """Writes config.json, and the CRF to crf.toml.

        Parameters
        ----------
        save_directory
            The folder, which is created if it does not exist.
        *arguments, **options
            Those of PretrainedConfig.save_pretrained.
        """
        if self.crf is not None:
            Path(save_directory).mkdir(parents=True, exist_ok=True)
            write_crf(Path(save_directory, CRF_FILE), crf_from_tables(self.crf))
        super().save_pretrained(save_directory, *arguments, **options)


def crf_fields(crf: DenseCRF) -> dict[str, Any]:
    """The fields of the configuration that describe the CRF as it is now."""
    options = {"method": crf.options.method, "adjoint": crf.adjoint, "backend": crf.backend}
    return {"crf": crf_to_tables(crf.to_numpy()), "crf_options": options}


def crf_of(config: DenseCRFConfig) -> DenseCRF:
    """The CRF of a configuration."""
    given = {"crf": config.crf or {}, "crf_options": config.crf_options or {}}
    for name, value in given.items():
        if not isinstance(value, Mapping):
            raise InputTypeError(f"{name} of the configuration is {value!r}, expected an object with keys and values.")
    options = given["crf_options"]
    tables = crf_from_tables(given["crf"], config.num_labels, method=options.get("method", "lattice"))
    own = {name: options[name] for name in ("adjoint", "backend") if name in options}
    return DenseCRF.from_numpy(tables, config.num_labels, **own)


def network_of(config: DenseCRFConfig) -> PreTrainedModel:
    """The network of a configuration, with random weights."""
    if config.network is None or config.network_class is None:
        raise InputError(
            "the configuration has no network: use DenseCRFForSemanticSegmentation.from_network(network, crf)."
        )
    found = class_of_transformers(config.network_class)
    return found(found.config_class.from_dict(config.network))


def class_of_transformers(name: str, expected: type | None = None) -> Any:
    """The model class of transformers with this name; files name no other classes, which would be code to run."""
    found = getattr(transformers, name, None)
    if not (inspect.isclass(found) and issubclass(found, PreTrainedModel)) or expected not in (None, found):
        raise InputTypeError(
            f"the network is of class {name}, expected a model class of transformers. For other networks use "
            "densefield.Segmenter."
        )
    return found
