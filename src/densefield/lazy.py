"""Package attributes that are imported on first use."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence

# Optional dependency → its name for users, and the command that installs it.
_INSTALL = {
    "torch": ("torch", "pip install 'densefield[torch]'"),
    "PIL": ("Pillow", "pip install pillow"),
}


def lazy_exports(
    package: str, modules: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package whose modules need torch or Pillow.

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
            if error.name not in _INSTALL:
                raise
            dependency, command = _INSTALL[error.name]
            raise ModuleNotFoundError(
                f"{package}.{name} needs {dependency}, which is not installed. Install it with: {command}",
                name=error.name,
            ) from error

    return get, lambda: sorted(homes), list(homes)
