"""Python objects in place of those that settings describe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from densefield.datasets.sample import Dataset

if TYPE_CHECKING:
    from torch import nn

    from densefield.nn.dense_crf import DenseCRF

# The network of a run: the module, a function that returns it, or the name of one, package.module:function.
NetworkObject = Any  # nn.Module | Callable[[], nn.Module] | str


@dataclass(frozen=True)
class Objects:
    """The objects of a run; None for what its settings describe."""

    network: nn.Module | None = None
    crf: DenseCRF | None = None
    train: Dataset | None = None
    val: Dataset | None = None


NONE = Objects()


def type_name(value: object) -> str:
    """The full name of a value's type, or of a function.

    >>> type_name(NONE), type_name(type_name)
    ('densefield.runs.objects.Objects', 'densefield.runs.objects.type_name')
    """
    named: Any = value if isinstance(value, Callable) and hasattr(value, "__qualname__") else type(value)  # type: ignore[arg-type]
    return f"{named.__module__}.{named.__qualname__}"
