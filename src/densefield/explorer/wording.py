"""Messages of the library in the words of the page: its controls, and options of the command, for Python arguments."""

from __future__ import annotations

import re

# What messages say to do → what to do in the page. Texts of the library are kept, so that a test can look for them.
WORDS = {
    "No problem found: ": "",
    "pass roughness= in pixels": "untick “Estimate how rough the mask is” and set the roughness",
    "pass a larger roughness=": "untick “Estimate how rough the mask is” and set a larger roughness",
    "without one use kernels=[Spatial(3)]": "without one remove the bilateral kernel",
    "or take a sigma_rgb well below its range": "or take a width in colour well below its range",
    "pass num_classes= or void=": "start with --num-classes or --void",
    "pass num_classes=": "start with --num-classes ",
    "For a binary mask pass labels=mask > 0": "For a binary mask write objects as 1",
    "pass labels=mask > 0": "write 1 instead",
    "Pass them as probabilities= of refine, or their logarithms as scores": "Start without --logits",
    "Pass logits=-energies": "Change the sign of the numbers in the file",
    "or the network's own scores as logits=": "or the network's own scores, with --logits",
    "Check the mask, and void=": "Check the mask, and --void",
    "Pass Spatial or Bilateral": "Add a kernel",
    "kernels = []": "no kernels",
    "Check the mask or the probabilities": "Check the mask or the scores",
    "or pass more confident scores": "or raise the confidence",
    "divide the scores by a temperature": "raise the temperature",
    "sigma_xy": "the bilateral width",
    " A matrix that is learnt may become so: freeze it.": "",
    ", or a matrix w @ w.T, or parallel inference": ", or untick “Convergent”",
    "Use normalization='symmetric' or 'none', or parallel inference": "Choose the normalisation symmetric or none, or "
    "untick “Convergent”",
}
CELLS = re.compile(r"\d+\.\d+(?= lattice cells)")


def in_page(message: str) -> str:
    """A message with controls of the page in place of Python arguments, and numbers of cells with three digits.

    >>> in_page("If that is wrong, pass roughness= in pixels.")
    'If that is wrong, untick “Estimate how rough the mask is” and set the roughness.'
    >>> in_page("the features span 376229726209483263209959606714368.000000 lattice cells")
    'the features span 3.76e+32 lattice cells'
    """
    for text, words in WORDS.items():
        message = message.replace(text, words)
    message = CELLS.sub(lambda found: f"{float(found[0]):.3g}", message)
    return message[:1].upper() + message[1:] if message.startswith("the bilateral width") else message
