"""Runs a script with ``import pydensecrf`` giving densefield's: python -m densefield.pydensecrf script.py arguments…"""

from __future__ import annotations

import os
import runpy
import sys

from densefield.pydensecrf import install

USAGE = "usage: python -m densefield.pydensecrf script.py [arguments …]"


def main() -> None:
    """Does what ``python script.py arguments…`` does, after install()."""
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        wants_help = sys.argv[1:2] in (["-h"], ["--help"])
        print(USAGE, file=sys.stdout if wants_help else sys.stderr)
        sys.exit(0 if wants_help else 2)
    script = sys.argv[1]
    if not os.path.exists(script):
        print(f"{USAGE}\nthere is no file {script!r} in {os.getcwd()}", file=sys.stderr)
        sys.exit(2)
    install()
    del sys.argv[0]
    # Python puts the script's own folder first, unless it was told (-P, -I) to put nothing there.
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        sys.path[0] = os.path.dirname(os.path.realpath(script))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
