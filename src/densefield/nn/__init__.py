"""The dense CRF in torch: a module with learnable parameters, the segmenter around it, and the loss.

`dense_crf` owns the parameters and checks inputs. `native_op` is the operator on the CPU, to which `hand_over` copies
tensors of other devices; `torch_mean_field` computes whole batches by torch operations on any device. `reference` is
the readable twin of both, and computes exact filters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from densefield.lazy import lazy_exports

if TYPE_CHECKING:
    from densefield.nn.dense_crf import DenseCRF as DenseCRF
    from densefield.nn.losses import log_likelihood_loss as log_likelihood_loss
    from densefield.nn.segmenter import Segmenter as Segmenter
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {"dense_crf": ["DenseCRF"], "losses": ["log_likelihood_loss"], "segmenter": ["Segmenter"]},
    )
