"""The ``pydensecrf`` that children of a process import after it called ``densefield.pydensecrf.install()``.

It replaces itself by ``densefield.pydensecrf``, or, in an environment without densefield, by the package that would
have been imported otherwise.
"""

from __future__ import annotations

import importlib
import os
import sys


def _forward() -> None:
    """Replaces this module in ``sys.modules``, whose entry is what the import statement returns."""
    del sys.modules["pydensecrf"]
    try:
        from densefield.pydensecrf import install
    except ModuleNotFoundError as error:
        if error.name != "densefield":
            raise
        folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != folder]
        importlib.import_module("pydensecrf")
    else:
        install()


if __name__ == "pydensecrf":
    _forward()
