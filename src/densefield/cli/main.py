"""The entry point of the command `densefield`."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

NEEDED = {"typer": "typer", "rich": "rich", "PIL": "pillow"}  # module → package


def main() -> None:
    """Runs the command line, or prints what to install for it."""
    missing = [package for module, package in NEEDED.items() if find_spec(module) is None]
    if missing:
        sys.exit(
            f"densefield: the command line needs {', '.join(missing)}. Install with: pip install 'densefield[cli]'"
        )
    # Waiting threads of torch would spin, which is many times slower on a busy computer.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from densefield.cli.app import app

    app(prog_name="densefield")
