"""pydensecrf's interface on densefield: same names, same shapes and signs, same numbers, and no torch.

Change one import, or none:

* ``import densefield.pydensecrf.densecrf as dcrf`` in place of ``import pydensecrf.densecrf as dcrf``;
* :func:`install`, after which ``import pydensecrf`` gives this package, in third-party code too;
* ``python -m densefield.pydensecrf script.py arguments…``, which runs a script so.
"""

from __future__ import annotations

import importlib
import sys

from densefield.errors import DensefieldError

__all__ = ["install"]

_MODULES = ("densecrf", "eigen", "utils")


def install() -> None:
    """Makes ``import pydensecrf`` and its submodules give this package, for the rest of the process.

    What was imported from the real package before would go on using it, unseen; so that is an error. Calling it twice
    is none.

    >>> import subprocess, sys
    >>> code = "import densefield.pydensecrf as p; p.install(); import pydensecrf.utils; print(pydensecrf is p)"
    >>> subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
    'True'
    """
    this = sys.modules[__name__]
    present = sys.modules.get("pydensecrf")
    if present is this:
        return
    if present is not None:
        raise DensefieldError(
            f"pydensecrf is imported already, from {getattr(present, '__file__', None)}, and what was taken from it "
            "stays in use. Call densefield.pydensecrf.install() before the first import of pydensecrf, or run the "
            "script with: python -m densefield.pydensecrf script.py"
        )
    aliases = {f"pydensecrf.{name}": importlib.import_module(f"{__name__}.{name}") for name in _MODULES}
    sys.modules.update({"pydensecrf": this, **aliases})
