"""The pages of docs/api list every exported name, once, and nothing else."""

from __future__ import annotations

import importlib
import inspect
import re
from collections import Counter
from dataclasses import is_dataclass
from pathlib import Path

import pytest

import densefield

pytest.importorskip("torch", reason="some packages need torch")
PAGES = sorted((Path(__file__).parents[1] / "docs" / "api").glob("*.md"))


def entries() -> list[str]:
    """The names on the pages with the package they are imported from."""
    found = []
    for page in PAGES:
        package = "densefield"
        for directive, name in re.findall(r"^\.\. ([\w:]+):: ([\w.]+)", page.read_text("utf-8"), flags=re.MULTILINE):
            if directive in ("currentmodule", "module"):
                package = name
            elif directive.startswith(("auto", "py:")):
                found.append(name if name.startswith("densefield.") else f"{package}.{name}")
    return found


def results() -> set[str]:
    """The names of the data classes and named tuples that listed functions return."""
    found = set()
    for name in entries():
        package, _, last = name.rpartition(".")
        function = getattr(importlib.import_module(package), last)
        if not inspect.isfunction(function):
            continue
        for word in re.findall(r"[A-Z]\w+", str(inspect.signature(function).return_annotation)):
            each = vars(inspect.getmodule(function)).get(word)
            if inspect.isclass(each) and (is_dataclass(each) or issubclass(each, tuple)):
                found.add(word)
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


def test_every_exported_name_is_on_a_page():
    assert sorted(set(exported()) - set(entries())) == []


def test_every_entry_can_be_imported():
    for name in entries():
        package, _, last = name.rpartition(".")
        assert hasattr(importlib.import_module(package), last), name


def test_every_page_is_in_the_index():
    (index,) = (page for page in PAGES if page.stem == "index")
    listed = index.read_text(encoding="utf-8").split()
    assert [page.stem for page in PAGES if page != index and page.stem not in listed] == []


def test_every_result_is_on_a_page():
    assert {"Solution", "Downloaded"} & results()
    assert sorted(results() - {name.rpartition(".")[2] for name in entries()}) == []


def test_no_name_is_listed_twice():
    assert [name for name, count in Counter(entries()).items() if count > 1] == []
