"""docs/api.md lists every exported name, once, and nothing else."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from pathlib import Path

import pytest

import densefield

pytest.importorskip("torch", reason="some packages need torch")
PAGE = (Path(__file__).parents[1] / "docs" / "api.md").read_text(encoding="utf-8")


def entries() -> list[str]:
    """The names on the page with the package they are imported from."""
    found, package = [], "densefield"
    for directive, name in re.findall(r"^\.\. ([\w:]+):: ([\w.]+)", PAGE, flags=re.MULTILINE):
        if directive in ("currentmodule", "module"):
            package = name
        elif directive.startswith(("auto", "py:")):
            found.append(name if name.startswith("densefield.") else f"{package}.{name}")
    return found


def exported() -> dict[str, object]:
    """The public functions, classes and tables of all packages by name; those of the top package only there."""
    found: dict[str, object] = {}
    for package in ("densefield", *(f"densefield.{name}" for name in densefield._SUBPACKAGES)):
        module = importlib.import_module(package)
        names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
        for name in names:
            each = getattr(module, name)
            own = getattr(each, "__module__", "").startswith("densefield")
            if not (callable(each) and own) and not isinstance(each, (tuple, dict)):
                continue  # a submodule, or an import of another package
            if package == "densefield" or getattr(densefield, name, None) is not each:
                found[f"{package}.{name}"] = each
    return found


def test_every_exported_name_is_on_the_page():
    assert sorted(set(exported()) - set(entries())) == []


def test_every_entry_can_be_imported():
    for name in entries():
        package, _, last = name.rpartition(".")
        assert hasattr(importlib.import_module(package), last), name


def test_no_name_is_listed_twice():
    assert [name for name, count in Counter(entries()).items() if count > 1] == []
