"""Packages that import their modules on first use offer the same names to type checkers and at run time."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = [
    f"densefield.{name}"
    for name in (
        "datasets",
        "evaluation",
        "images",
        "integrations",
        "metrics",
        "networks",
        "report",
        "runs",
        "training",
        "tuning",
    )
]


@pytest.mark.parametrize("package", PACKAGES)
def test_type_checkers_see_the_names_that_exist_at_run_time(package):
    module = importlib.import_module(package)
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    homes = {alias.asname: node.module for node in block.body for alias in node.names}
    table = ast.literal_eval(block.orelse[0].value.args[1])
    assert homes == {name: f"{package}.{home}" for home, names in table.items() for name in names}
    assert sorted(homes) == sorted(module.__all__) == dir(module)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_resolves_to_an_object_of_that_name(package):
    pytest.importorskip("PIL", reason="some names need Pillow")
    pytest.importorskip("torch", reason="some names need torch")
    pytest.importorskip("lightning_fabric", reason="some names need the extra train")
    module = importlib.import_module(package)
    for name in module.__all__:
        assert getattr(getattr(module, name), "__name__", name) == name


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_a_package_loads_neither_torch_nor_pillow(package):
    code = f"import sys, {package}; print({{'torch', 'PIL'}} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "set()"


def test_an_unknown_name_is_an_attribute_error():
    images = importlib.import_module("densefield.images")
    with pytest.raises(AttributeError, match=r"'densefield\.images' has no attribute 'read_imge'"):
        images.read_imge  # noqa: B018


def test_without_pillow_the_error_names_the_command_that_installs_it():
    code = """
import sys
sys.modules["PIL"] = None  # the import system treats this as not installed
import densefield.images
try:
    densefield.images.read_image
except ImportError as error:
    print(error)
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "densefield.images.read_image needs Pillow" in answer and "pip install 'densefield[cli]'" in answer


def test_a_library_that_cannot_be_imported_is_named(tmp_path, monkeypatch):
    (tmp_path / "nibabel.py").write_text("raise ImportError('libz.so.9: no such file')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "nibabel", raising=False)
    from densefield.lazy import optional_module

    words = (
        r"reading NIfTI needs nibabel, which is installed but cannot be imported: libz\.so\.9: no such file\. Install"
    )
    with pytest.raises(ModuleNotFoundError, match=words):
        optional_module("nibabel", "reading NIfTI")
