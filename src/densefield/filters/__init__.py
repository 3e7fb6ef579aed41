"""Gaussian filtering of N points in any dimension, as a linear operator: K v = Σ_j exp(-½‖x_i - x_j‖²) v_j.

`ExactFilter` is the sum over all pairs, `LatticeFilter` the permutohedral lattice in native code and
`TorchLatticeFilter` the same lattice in torch operations. `gaussian_filter` and `apply_filter` are their autograd
functions; these and `TorchLatticeFilter` import torch when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from densefield.lazy import lazy_exports

if TYPE_CHECKING:
    from densefield.filters.autograd import apply_filter as apply_filter
    from densefield.filters.autograd import gaussian_filter as gaussian_filter
    from densefield.filters.exact import ExactFilter as ExactFilter
    from densefield.filters.lattice import LatticeFilter as LatticeFilter
    from densefield.filters.lattice_torch import TorchLatticeFilter as TorchLatticeFilter
    from densefield.filters.operator import GaussianFilter as GaussianFilter
    from densefield.filters.pixel_order import PixelOrder as PixelOrder
    from densefield.filters.threads import default_threads as default_threads
    from densefield.filters.threads import release_memory as release_memory
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "autograd": ["apply_filter", "gaussian_filter"],
            "exact": ["ExactFilter"],
            "lattice": ["LatticeFilter"],
            "lattice_torch": ["TorchLatticeFilter"],
            "operator": ["GaussianFilter"],
            "pixel_order": ["PixelOrder"],
            "threads": ["default_threads", "release_memory"],
        },
    )
