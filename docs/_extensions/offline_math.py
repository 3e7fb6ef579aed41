"""Formulas as MathML, which browsers draw without scripts, in a mathematical font that the pages bring along."""

from __future__ import annotations

import logging
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from docutils import nodes
from fontTools import subset
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util.logging import getLogger

FONT = "math.woff"
# What formulas use: Latin, Greek, punctuation, arrows, operators, braces, angle brackets, mathematical letters.
CHARACTERS = [(0x20, 0x17F), (0x391, 0x3F6), (0x2000, 0x2070), (0x2190, 0x2300), (0x23DE, 0x23E0), (0x27E8, 0x27EA)]
CHARACTERS.append((0x1D400, 0x1D800))

# What latex2mathml does not know, or writes with attributes that browsers ignore.
BEFORE = {
    r"\lVert": r"\|",
    r"\rVert": r"\|",
    r"\arg\max": r"\text{arg max}",
    r"\mathbf 1": "\N{MATHEMATICAL BOLD DIGIT ONE}",
    r"\mathsf T": "\N{MATHEMATICAL SANS-SERIF CAPITAL T}",
}
NAMED_FUNCTION = re.compile(r"(<mi>(?:log|exp|min|max)</mi>)(?=<m(?:i|n|sub|sup|subsup|row|frac)\b)")
LOGGER = getLogger(__name__)


def to_mathml(latex: str, display: str) -> str:
    """A formula as a <math> element; display is "inline" or "block"."""
    for unknown, known in BEFORE.items():
        latex = latex.replace(unknown, known)
    mathml = convert(latex, display=display)
    if "\\" in mathml:
        LOGGER.warning("a command of the formula %r is unknown to latex2mathml: add it to BEFORE", latex)
    return NAMED_FUNCTION.sub(r'\1<mspace width="0.17em"/>', mathml)


def visit_inline(translator: Any, node: nodes.math) -> None:
    """Writes a formula in a line of text."""
    translator.body.append(to_mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.math_block) -> None:
    """Writes a formula in a line of its own, which scrolls if it is too wide for the screen."""
    translator.body.append(f'<div class="formula">{to_mathml(node.astext(), "block")}</div>\n')
    raise nodes.SkipNode


def write_font(app: Sphinx, error: Exception | None) -> None:
    """Writes the glyphs that formulas need to _static, from the font that the package ziamath carries."""
    target = Path(app.outdir, "_static", FONT)
    if error or app.builder.format != "html" or target.exists():
        return
    logging.getLogger("fontTools").setLevel(logging.WARNING)  # it lists every glyph
    options = subset.Options(flavor="woff", layout_features=["ssty", "dtls", "flac"], hinting=False)
    with files("ziamath").joinpath("fonts", "STIXTwoMath-Regular.ttf").open("rb") as file:
        font = subset.load_font(file, options)
        subsetter = subset.Subsetter(options)
        subsetter.populate(unicodes=[code for first, end in CHARACTERS for code in range(first, end)])
        subsetter.subset(font)
        subset.save_font(font, str(target), options)


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the renderer."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.connect("build-finished", write_font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
