"""Where the command `densefield` begins."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

NEEDED = {"typer": "typer", "rich": "rich", "PIL": "pillow"}  # module → package


def main() -> None:
    """Runs the command line, or says what to install for it."""
    missing = [package for module, package in NEEDED.items() if find_spec(module) is None]
    if missing:
        sys.exit(
            f"densefield: the command line needs {', '.join(missing)}. Install with: pip install 'densefield[cli]'"
        )
    # Threads of torch that wait for each other would spin, and on a machine that others use too be many times as slow.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from densefield.cli.app import app

    app(prog_name="densefield")
