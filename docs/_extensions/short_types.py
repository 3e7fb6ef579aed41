"""Writes array types on the reference page as in the code, NDArray[floating] and ArrayLike, not what they stand for."""

from __future__ import annotations

import re
from typing import Any

import numpy.typing as npt
from sphinx.application import Sphinx
from sphinx.util.typing import stringify_annotation

MODES: Any = ("smart", "fully-qualified", "fully-qualified-except-typing")
ARRAY_LIKE = [stringify_annotation(npt.ArrayLike, mode) for mode in MODES]
ARRAY = re.compile(r"(~?)numpy\.ndarray\[tuple\[(?:~?typing\.)?Any, \.\.\.\], ~?numpy\.dtype\[(~?[\w.]+)\]\]")


def shorten(text: str) -> str:
    """A type, or text with types, with short names of arrays."""
    for expanded in ARRAY_LIKE:
        text = text.replace(expanded, "~numpy.typing.ArrayLike" if "~" in expanded else "ArrayLike")
    text = ARRAY.sub(r"\1numpy.typing.NDArray[\2]", text)
    text = text.replace("npt.NDArray", "~numpy.typing.NDArray").replace("[np.", "[~numpy.")
    return text.replace("numpy.bool_]", "numpy.bool]")


def shorten_signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Shortens a signature and its returned type."""
    return shorten(signature) if signature else signature, shorten(returned) if returned else returned


def shorten_lines(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Shortens the types that napoleon adds to the fields of a docstring."""
    lines[:] = [shorten(line) if line.lstrip().startswith((":type", ":rtype")) else line for line in lines]


def setup(app: Sphinx) -> dict[str, bool]:
    """Runs after napoleon has written the fields."""
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("autodoc-process-docstring", shorten_lines, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
