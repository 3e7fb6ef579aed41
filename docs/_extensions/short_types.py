"""Writes array types on the reference page as in the code, NDArray[floating] and ArrayLike, not what they stand for."""

from __future__ import annotations

import re
from typing import Any, get_origin

import numpy.typing as npt
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.domains.python import PyAttribute, PyObject, PyProperty, PyVariable
from sphinx.util.typing import stringify_annotation

MODES: Any = ("smart", "fully-qualified", "fully-qualified-except-typing")
ARRAY_LIKE = [stringify_annotation(npt.ArrayLike, mode) for mode in MODES]
DOTTED = re.compile(r"(?<![\w.~])(?=[a-z_]\w*\.\w)")  # where the name of a module begins
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
    """Shortens a signature and its returned type; with <factory>, which is no Python, Sphinx would not parse it."""
    signature = shorten(signature).replace("<factory>", "...") if signature else signature
    return signature, shorten(returned) if returned else returned


def shorten_lines(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Shortens the types that napoleon adds to the fields of a docstring, and leaves out the modules of their names."""
    for i, line in enumerate(lines):
        if line.lstrip().startswith((":type", ":rtype")):
            lines[i] = DOTTED.sub("~", shorten(line))


def shorten_bases(app: Sphinx, name: str, obj: Any, options: Any, bases: list[Any]) -> None:
    """Leaves out the array types in brackets after a base class."""
    bases[:] = [get_origin(base) if "ndarray" in repr(base) else base for base in bases]


class ShortType(PyObject):
    """An object whose type is shortened."""

    def run(self) -> list[nodes.Node]:
        """Shortens the option before the signature is made of it."""
        if "type" in self.options:
            self.options["type"] = shorten(self.options["type"])
        return super().run()


class ShortVariable(ShortType, PyVariable):
    """A variable whose type is shortened."""


class ShortAttribute(ShortType, PyAttribute):
    """An attribute whose type is shortened."""


class ShortProperty(ShortType, PyProperty):
    """A property whose type is shortened."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Runs after napoleon has written the fields."""
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("autodoc-process-docstring", shorten_lines, priority=600)
    app.connect("autodoc-process-bases", shorten_bases)
    for name, directive in (("data", ShortVariable), ("attribute", ShortAttribute), ("property", ShortProperty)):
        app.add_directive_to_domain("py", name, directive, override=True)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
