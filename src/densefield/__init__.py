"""Fully connected conditional random fields.

The names below suffice to start. The rest is in subpackages: `filters`, `crf`, `refinement`, `diagnose`, `nn`,
`networks`, `images`, `datasets`, `scenes`, `metrics`, `runs`, `training`, `tuning`, `evaluation`, `report`,
`structured`, `volumes`, `video`, `pydensecrf` and `integrations`.

Names and subpackages are imported on first use: `import densefield` is quick, and NumPy users never import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from densefield.lazy import lazy_exports

if TYPE_CHECKING:
    from densefield.crf.kernels import Bilateral as Bilateral
    from densefield.crf.kernels import Custom as Custom
    from densefield.crf.kernels import Kernel as Kernel
    from densefield.crf.kernels import Spatial as Spatial
    from densefield.crf.model import CRF as CRF
    from densefield.crf.problem import Solution as Solution
    from densefield.diagnose.explain import explain as explain
    from densefield.diagnose.result import Finding as Finding
    from densefield.errors import DensefieldError as DensefieldError
    from densefield.errors import InputError as InputError
    from densefield.errors import InputTypeError as InputTypeError
    from densefield.errors import InputWarning as InputWarning
    from densefield.nn.dense_crf import DenseCRF as DenseCRF
    from densefield.nn.segmenter import Segmenter as Segmenter
    from densefield.refinement.propagate import propagate as propagate
    from densefield.refinement.refine import refine as refine
    from densefield.training.entry import train as train

    __version__: str

# A test keeps the imports above, which are for type checkers and editors, equal to these names.
_modules = {
    "crf.kernels": ["Bilateral", "Custom", "Kernel", "Spatial"],
    "crf.model": ["CRF"],
    "crf.problem": ["Solution"],
    "refinement.propagate": ["propagate"],
    "refinement.refine": ["refine"],
    "diagnose.explain": ["explain"],
    "diagnose.result": ["Finding"],
    "errors": ["DensefieldError", "InputError", "InputTypeError", "InputWarning"],
    "nn.dense_crf": ["DenseCRF"],
    "nn.segmenter": ["Segmenter"],
    "training.entry": ["train"],
}
_get, _, _names = lazy_exports("densefield", _modules)
_SUBPACKAGES = (
    "crf",
    "datasets",
    "diagnose",
    "evaluation",
    "filters",
    "images",
    "integrations",
    "metrics",
    "networks",
    "nn",
    "pydensecrf",
    "refinement",
    "report",
    "runs",
    "scenes",
    "structured",
    "training",
    "tuning",
    "video",
    "volumes",
)

__all__ = ["__version__", *_names]


if not TYPE_CHECKING:  # to a type checker it would mean that every name exists

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import version

            value = version("densefield")
        elif name in _SUBPACKAGES:
            value = importlib.import_module(f"densefield.{name}")
        else:
            value = _get(name)
        globals()[name] = value  # so that the next use does not come here
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBPACKAGES})
