"""Imports go one way: a layer knows the layers below it, never those above."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import densefield

PACKAGE = Path(densefield.__file__).parent

# Modules and packages directly under densefield, lowest first. Each may import those before it.
LAYERS = (
    "errors",
    "atomic",
    "label_values",
    "download",
    "_core",
    "filters",
    "crf",
    "structured",
    "nets",
    "segmenter",
    "losses",
    "metrics",
    "files",
    "data",
    "training",
    "evaluation",
    "report",
    "refining",
    "pydensecrf",
    "cli",
    "__main__",
)
# … save these, which stand below in the list but are none of its business.
STRANGERS = {
    "nets": {"filters", "crf", "structured"},
    "data": {"filters", "crf", "structured", "nets", "segmenter"},
    "files": {"_core", "filters", "crf", "structured", "nets", "segmenter", "losses", "metrics"},
    "refining": {"structured", "nets", "segmenter", "losses", "metrics", "data", "training", "evaluation", "report"},
    "pydensecrf": {
        "files",
        "refining",
        "structured",
        "nets",
        "segmenter",
        "losses",
        "metrics",
        "data",
        "training",
        "evaluation",
        "report",
    },
}


def layer_of(module: str) -> str | None:
    """'filters' of 'densefield.filters.exact'; '' of 'densefield' itself; None outside densefield."""
    top, _, rest = module.partition(".")
    return rest.partition(".")[0] if top == "densefield" else None


def imported_modules(source: str, importer: str) -> Iterator[str]:
    """Absolute names of all that the source of the module `importer` imports, wherever it does so."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = importer.split(".")[: -node.level] if node.level else []
            module = ".".join([*parents, *filter(None, [node.module])])
            if module == "densefield":  # from densefield import filters: the names are the layers
                yield from (f"densefield.{alias.name}" for alias in node.names)
            else:
                yield module


def broken_rules(source: str, importer: str) -> list[str]:
    """What the module `importer` imports against the order of layers."""
    layer = layer_of(importer)
    allowed = {layer, *LAYERS[: LAYERS.index(layer)]} - STRANGERS.get(layer, set())
    return [
        f"{importer} imports {module}"
        for module in imported_modules(source, importer)
        if layer_of(module) is not None and layer_of(module) not in allowed
    ]


def source_files() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def module_name(path: Path) -> str:
    """'densefield.filters.exact'; a package's own file keeps its '__init__', so that parents count alike."""
    return ".".join(["densefield", *path.relative_to(PACKAGE).with_suffix("").parts])


@pytest.mark.parametrize("path", source_files(), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_a_layer_imports_only_what_lies_below(path):
    assert broken_rules(path.read_text(encoding="utf-8"), module_name(path)) == []


def test_data_does_not_load_the_crf_by_a_detour():
    modules = [module_name(path) for path in source_files() if layer_of(module_name(path)) == "data"]
    code = f"""
import importlib, sys
for module in {[module for module in modules if not module.endswith("__init__")]}:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        assert error.name in ("torch", "PIL"), error
print(*sys.modules)
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert modules and [name for name in answer.stdout.split() if name.startswith("densefield.crf")] == []


def test_every_module_under_the_root_has_its_layer():
    present = {layer_of(module_name(path)) for path in source_files()}
    assert present <= set(LAYERS)


@pytest.mark.parametrize(
    ("importer", "source"),
    [
        ("densefield.filters.exact", "import densefield.crf"),
        ("densefield.filters.exact", "from densefield.crf.layer import DenseCRF"),
        ("densefield.filters.exact", "from densefield import crf"),
        (
            "densefield.filters.exact",
            "from densefield import LatticeFilter",
        ),  # through the root: hides the layer
        ("densefield.filters.exact", "from ..crf import layer"),
        ("densefield.filters.exact", "from .. import crf"),
        ("densefield.filters.__init__", "from ..crf import layer"),
        ("densefield.losses", "from .training import loop"),
        ("densefield.filters.exact", "def f():\n    from densefield.cli import main"),
        ("densefield.nets.vgg", "from densefield.crf import mean_field"),
        ("densefield.data.voc", "import densefield.crf.layer"),
        ("densefield.data.voc", "from densefield.refining import refine_files"),
        ("densefield.files.masks", "from densefield.crf.refine import VOID"),
    ],
)
def test_the_rule_catches(importer, source):
    assert broken_rules(source, importer)


@pytest.mark.parametrize(
    ("importer", "source"),
    [
        (
            "densefield.filters.exact",
            "import numpy\nfrom densefield import _core\nfrom densefield.errors import InputError",
        ),
        (
            "densefield.filters.exact",
            "from .operator import GaussianFilter\nfrom . import grid\nfrom .. import errors",
        ),
        ("densefield.crf.layer", "from densefield.filters.lattice import LatticeFilter"),
        ("densefield.data.voc", "from densefield.files.palette import voc_palette"),
        (
            "densefield.segmenter",
            "from densefield.nets import build\nfrom densefield.crf.layer import DenseCRF",
        ),
    ],
)
def test_the_rule_allows(importer, source):
    assert broken_rules(source, importer) == []
