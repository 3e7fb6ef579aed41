"""`import densefield` is fast, imports no heavy package, and provides every public name."""

from __future__ import annotations

import ast
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

import densefield

NAMES = sorted(set(densefield.__all__) - {"__version__"})
TORCH_NAMES = [
    "DenseCRF",
    "Segmenter",
    "train",
    "nn.log_likelihood_loss",
    "filters.TorchLatticeFilter",
    "filters.apply_filter",
]
TORCH_NAMES += ["filters.gaussian_filter", "networks.as_network", "networks.small_network", "networks.load_weights"]
TORCH_NAMES += ["datasets.training_batches", "datasets.evaluation_batches", "structured.FactorGraph"]
PILLOW_NAMES = ["datasets.FolderDataset", "datasets.VOC2012", "images.read_mask"]
NUMPY_NAMES = [*sorted(set(NAMES) - set(TORCH_NAMES)), "filters.ExactFilter", "filters.LatticeFilter", "crf.from_monai"]
NUMPY_NAMES += ["datasets.Sample", "datasets.Augmentation", "scenes.draw_scene", "metrics.bootstrap_interval"]


def attribute(name: str) -> object:
    """The object of a name such as "filters.LatticeFilter"."""
    found: object = densefield
    for part in name.split("."):
        found = getattr(found, part)
    return found


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    )


def loaded_modules(code: str) -> set[str]:
    """Top-level modules that are imported after running the code in a new interpreter."""
    answer = run_python("-c", f"import sys\n{code}\nprint(*sys.modules)").stdout
    return {name.partition(".")[0] for name in answer.split()}


def import_seconds() -> float:
    """Time in seconds of `import densefield`, including its imports."""
    for line in run_python("-X", "importtime", "-c", "import densefield").stderr.splitlines():
        _, cumulative, name = line.rsplit("|", 2)
        if name.strip() == "densefield":
            return int(cumulative) * 1e-6
    raise RuntimeError("-X importtime does not list densefield")


def test_import_takes_less_than_200_ms():
    assert (
        min(import_seconds() for _ in range(5)) < 0.2
    )  # the best of five, since other processes use the processor too


def test_import_loads_nothing_heavy():
    heavy = {"torch", "scipy", "matplotlib", "skimage", "PIL", "numpy"}
    assert not loaded_modules("import densefield") & heavy


@pytest.mark.parametrize("name", NUMPY_NAMES)
def test_numpy_names_do_not_load_torch(name):
    assert "torch" not in loaded_modules(f"import densefield; densefield.{name}")


@pytest.mark.parametrize("name", PILLOW_NAMES)
def test_reading_data_loads_neither_torch_nor_scipy(name):
    pytest.importorskip("PIL", reason="the name needs Pillow")
    assert not {"torch", "scipy"} & loaded_modules(f"import densefield; densefield.{name}")


def test_a_newcomer_needs_few_names():
    assert len(NAMES) <= 17


@pytest.mark.parametrize("name", [*NUMPY_NAMES, *TORCH_NAMES, *PILLOW_NAMES])
def test_public_names_resolve(name):
    if name in TORCH_NAMES:
        pytest.importorskip("torch", reason="the name needs torch")
    if name in PILLOW_NAMES:
        pytest.importorskip("PIL", reason="the name needs Pillow")
    assert attribute(name).__name__ == name.rpartition(".")[2]


@pytest.mark.parametrize("package", densefield._SUBPACKAGES)
def test_every_subpackage_exports_its_public_names(package):
    pytest.importorskip("torch", reason="some packages need torch")
    module = attribute(package)
    names = [name for name in dir(module) if not name.startswith("_") and name != "annotations"]
    assert module.__doc__ and [name for name in names if getattr(module, name) is not None]


def test_every_folder_with_code_is_a_listed_subpackage():
    folders = {path.parent.name for path in Path(densefield.__file__).parent.glob("*/__init__.py")}
    internal = {"cli", "explorer", "io"}  # the command line and its page, and internal helpers
    assert folders - set(densefield._SUBPACKAGES) == internal


def test_dir_lists_every_public_name():
    assert set(densefield.__all__) <= set(dir(densefield))


def test_the_version_is_that_of_the_installed_package():
    assert densefield.__version__ == importlib.metadata.version("densefield")


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'densefield' has no attribute 'LatticeFlter'"):
        densefield.LatticeFlter  # noqa: B018


@pytest.mark.parametrize(
    "name, module, cure",
    [(name, "torch", "pip install 'densefield[torch]'") for name in TORCH_NAMES]
    + [(name, "PIL", "pip install 'densefield[cli]'") for name in PILLOW_NAMES]
    + [("train", module, "pip install 'densefield[train]'") for module in ("pydantic", "lightning_fabric")],
)
def test_without_a_dependency_the_error_says_what_to_install(name, module, cure):
    if name == "train":
        pytest.importorskip("torch", reason="torch is asked for first")
    code = f"""
import sys
sys.modules[{module!r}] = None  # the import system treats this as not installed
import densefield
try:
    densefield.{name}
except ImportError as error:
    print(error)
"""
    assert run_python("-c", code).stdout.rstrip().endswith(f"Install it with: {cure}")


def test_type_checkers_see_the_names_of_run_time():
    tree = ast.parse(Path(densefield.__file__).read_text(encoding="utf-8"))
    (block,) = (
        node.body for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    seen = {alias.asname: node.module for node in block if isinstance(node, ast.ImportFrom) for alias in node.names}
    homes = {name: f"densefield.{home}" for home, names in densefield._modules.items() for name in names}
    assert seen == homes


def test_type_information_is_installed():
    assert Path(densefield.__file__).with_name("py.typed").is_file()
