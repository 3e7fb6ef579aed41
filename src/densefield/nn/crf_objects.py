"""A CRF in any of its forms, as a torch module."""

from __future__ import annotations

from collections.abc import Sequence

from densefield.crf.kernels import Kernel
from densefield.crf.model import CRF
from densefield.errors import InputError, InputTypeError
from densefield.nn.dense_crf import DenseCRF

CRFLike = DenseCRF | CRF | Sequence[Kernel]


def as_dense_crf(crf: CRFLike, num_classes: int) -> DenseCRF:
    """A CRF in any form as a torch module.

    >>> from densefield.crf.kernels import Spatial
    >>> as_dense_crf([Spatial(2)], num_classes=3).num_classes
    3
    """
    if isinstance(crf, DenseCRF):
        return crf
    if isinstance(crf, list | tuple) and not crf:
        raise InputError("crf is an empty list, expected one kernel or more, or None for the network alone.")
    if isinstance(crf, Sequence) and all(isinstance(each, Kernel) for each in crf):
        crf = CRF(list(crf))
    if not isinstance(crf, CRF):
        came = f"the class {crf.__name__}" if isinstance(crf, type) else f"of type {type(crf).__name__}"
        raise InputTypeError(
            f"crf is {came}, expected a DenseCRF, a CRF, a list of kernels such as [Spatial(3)], or None for the "
            "network alone."
        )
    return DenseCRF.from_numpy(crf, num_classes)
