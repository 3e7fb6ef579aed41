"""Package attributes and optional dependencies that are imported on first use."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

# Optional dependency → its name for users, and the command that installs it.
_INSTALL = {
    "torch": ("torch", "pip install 'densefield[torch]'"),
    "PIL": ("Pillow", "pip install 'densefield[cli]'"),
    "lightning_fabric": ("Lightning Fabric", "pip install 'densefield[train]'"),
    "pydantic": ("pydantic", "pip install 'densefield[train]'"),
    "lightning": ("Lightning", "pip install 'densefield[lightning]'"),
    "monai": ("MONAI", "pip install 'densefield[monai]'"),
    "transformers": ("transformers", "pip install 'densefield[transformers]'"),
    "nibabel": ("nibabel", "pip install 'densefield[nifti]'"),
    "pydicom": ("pydicom", "pip install 'densefield[dicom]'"),
    "rasterio": ("rasterio", "pip install 'densefield[geotiff]'"),
    "tifffile": ("tifffile", "pip install 'densefield[tiff]'"),
    "zarr": ("zarr", "pip install 'densefield[zarr]'"),
}


def optional_module(name: str, purpose: str) -> ModuleType:
    """Imports an optional dependency; one that is missing or broken is an error that says how to install it.

    Parameters
    ----------
    name
        The module.
    purpose
        What it is needed for, as the subject of the message.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise _missing(name, purpose) from error
    except ImportError as error:  # such as of a shared library that it needs
        dependency, command = _INSTALL[name]
        raise ModuleNotFoundError(
            f"{purpose} needs {dependency}, which is installed but cannot be imported: {error}. Install it again, with "
            f"what it needs: {command}",
            name=name,
        ) from error


def _missing(name: str, purpose: str) -> ModuleNotFoundError:
    dependency, command = _INSTALL[name]
    return ModuleNotFoundError(
        f"{purpose} needs {dependency}, which is not installed. Install it with: {command}", name=name
    )


def lazy_exports(
    package: str, modules: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package whose modules need torch, Pillow or other optional libraries.

    Parameters
    ----------
    package
        The package's `__name__`.
    modules
        The public names of each module of the package. Type checkers need the same imports under `TYPE_CHECKING`.
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        except ModuleNotFoundError as error:
            library = (error.name or "").partition(".")[0]
            if library not in _INSTALL:
                raise
            raise _missing(library, f"{package}.{name}") from error

    return get, lambda: sorted(homes), list(homes)
