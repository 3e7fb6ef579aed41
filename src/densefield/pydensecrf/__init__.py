"""pydensecrf's interface on densefield: same names, same shapes and signs, same numbers, and no torch.

Change one import, or none:

* ``import densefield.pydensecrf.densecrf as dcrf`` in place of ``import pydensecrf.densecrf as dcrf``;
* :func:`install`, after which ``import pydensecrf`` gives this package, in third-party code and child processes too;
* ``python -m densefield.pydensecrf script.py arguments…`` (or ``-m module arguments…``), which runs a program so.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

from densefield.errors import DensefieldError

__all__ = ["install"]

_MODULES = ("densecrf", "eigen", "utils")
_PATH_ENTRY = str(Path(__file__).resolve().parent / "path_entry")


def install() -> None:
    """Make ``import pydensecrf`` and its submodules give this package, in this process and in its children.

    Children are the processes that are started later: workers of multiprocessing, joblib and torch, and subprocesses
    that run Python. They inherit it by a folder of this package in ``PYTHONPATH`` and ``sys.path``.

    It is an error if the real package was imported before, since modules would continue to use it. Calling it twice
    is allowed.

    >>> import subprocess, sys
    >>> code = "import densefield.pydensecrf as p; p.install(); import pydensecrf.utils; print(pydensecrf is p)"
    >>> subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
    'True'
    """
    this = sys.modules[__name__]
    present = sys.modules.get("pydensecrf")
    if present is not None and present is not this:
        raise DensefieldError(
            f"pydensecrf is imported already, from {getattr(present, '__file__', None)}, and what was taken from it "
            "stays in use. Call densefield.pydensecrf.install() before the first import of pydensecrf, or run the "
            "script with: python -m densefield.pydensecrf script.py"
        )
    aliases = {f"pydensecrf.{name}": importlib.import_module(f"{__name__}.{name}") for name in _MODULES}
    sys.modules.update({"pydensecrf": this, **aliases})
    if _PATH_ENTRY not in sys.path:
        sys.path.insert(1, _PATH_ENTRY)  # before any other pydensecrf, but sys.path[0] is the script's
    inherited = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    os.environ["PYTHONPATH"] = os.pathsep.join([_PATH_ENTRY, *(entry for entry in inherited if entry != _PATH_ENTRY)])
