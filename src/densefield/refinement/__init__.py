"""Refinement of masks and scores with learnt parameters: what `densefield.refine` does.

`refine` takes the arguments. A mask passes through `mask_input` (checks) → `mask_edges` (distances to its edges, and
the image's edges around them) → `roughness` (`blocks`, `registration`) → `rough_mask` (scores, colours of
`colour_model`, and the CRF of the pixels near edges). Probabilities and logits need only the kernels of `scores`.
`parameters` reads the learnt numbers. `propagate` makes dense labels from scribbles.
"""

from densefield.refinement.propagate import propagate as propagate
from densefield.refinement.refine import refine as refine
