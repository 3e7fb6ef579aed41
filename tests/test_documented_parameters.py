"""Every parameter of a public function or class is documented, in a Parameters section or in `backticks`."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

import densefield

pytest.importorskip("torch", reason="some packages need torch")
PACKAGES = ["densefield", *(f"densefield.{name}" for name in densefield._SUBPACKAGES if name != "pydensecrf")]
SECTIONS = re.compile("Returns|Examples|Raises|Yields|Notes|Attributes|>>>.*")


def documented(text: str) -> set[str]:
    """The names in the Parameters section of a docstring, and those in backticks."""
    lines = inspect.cleandoc(text).split("\n")
    names = set(re.findall(r"`(\w+)`", text))
    if "Parameters" not in lines:
        return names
    for line in lines[lines.index("Parameters") + 2 :]:
        if SECTIONS.fullmatch(line):
            break
        if line and not line.startswith(" "):
            names |= {name.strip().lstrip("*") for name in line.partition(" : ")[0].split(",")}
    return names


def public_callables(package: str) -> Iterator[tuple[str, Any, str]]:
    """Functions, constructors and methods that a package exports, each with its docstring."""
    module = importlib.import_module(package)
    for name in getattr(module, "__all__", None) or dir(module):
        each = getattr(module, name)
        if name.startswith("_") or not callable(each) or not each.__module__.startswith("densefield"):
            continue
        if not inspect.isclass(each):
            yield name, each, each.__doc__ or ""
        elif not issubclass(each, Exception) and not getattr(each, "_is_protocol", False):
            yield name, each, each.__doc__ or ""
            yield from public_methods(each)


def public_methods(owner: type) -> Iterator[tuple[str, Any, str]]:
    inherited = {name for base in owner.__mro__[1:] if base.__module__.startswith("densefield") for name in vars(base)}
    for name, member in vars(owner).items():
        function = getattr(member, "__func__", member)
        if inspect.isfunction(function) and not name.startswith("_") and name not in inherited:
            yield f"{owner.__name__}.{name}", function, function.__doc__ or ""


@pytest.mark.parametrize("package", PACKAGES)
def test_every_parameter_is_documented(package: str) -> None:
    missing = {}
    for name, each, text in public_callables(package):
        names = [parameter for parameter in inspect.signature(each).parameters if parameter not in ("self", "cls")]
        left = [parameter for parameter in names if parameter not in documented(text)]
        if left and "arameters are those of" not in text:
            missing[name] = left
    assert missing == {}
