"""The fully connected CRF for NumPy arrays: kernels, pairwise terms, mean field, and refinement of masks.

An image passes through `refine` → `unary` → `model` → `problem` (checks) → `pairwise` (a kernel's filter, bound to the
pixels) → `native` (all iterations). `mean_field` and `convergent` are the readable algorithms.
"""

from densefield.crf.convert import from_crfasrnn as from_crfasrnn
from densefield.crf.convert import from_monai as from_monai
from densefield.crf.kernels import Bilateral as Bilateral
from densefield.crf.kernels import Custom as Custom
from densefield.crf.kernels import Kernel as Kernel
from densefield.crf.kernels import Spatial as Spatial
from densefield.crf.model import CRF as CRF
from densefield.crf.model import PHOTO_KERNELS as PHOTO_KERNELS
from densefield.crf.options import CRFOptions as CRFOptions
from densefield.crf.problem import Solution as Solution
