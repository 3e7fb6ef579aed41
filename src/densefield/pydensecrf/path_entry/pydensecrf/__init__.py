"""What ``import pydensecrf`` finds in the children of a process that called ``densefield.pydensecrf.install()``.

It gives way to ``densefield.pydensecrf``. In a Python without densefield, such as that of another environment, it gives
way to the package that would have been imported otherwise.
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
