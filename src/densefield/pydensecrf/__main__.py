"""Runs a program with ``import pydensecrf`` giving densefield's, in its child processes too.

python -m densefield.pydensecrf script.py arguments…
python -m densefield.pydensecrf -m package.module arguments…
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
import zipfile
from typing import NoReturn

from densefield.pydensecrf import install

USAGE = """\
usage: python -m densefield.pydensecrf script.py [arguments …]
       python -m densefield.pydensecrf -m package.module [arguments …]"""


def main() -> None:
    """Does what ``python script.py arguments…`` or ``python -m module arguments…`` does, after install()."""
    arguments = sys.argv[1:]
    if arguments[:1] in (["-h"], ["--help"]):
        print(USAGE)
        return
    if arguments and arguments[0].startswith("-m"):
        attached = arguments[0][2:]
        module, rest = (attached, arguments[1:]) if attached else ("".join(arguments[1:2]), arguments[2:])
        _run_module(module, rest)
    elif arguments and not arguments[0].startswith("-"):
        _run_script(arguments[0], arguments[1:])
    else:
        _fail(USAGE)


def _run_script(script: str, arguments: list[str]) -> None:
    if not os.path.exists(script):
        _fail(f"{USAGE}\nthere is no file {script!r} in {os.getcwd()}")
    # Python puts the script's own folder first, unless it was started with -P or -I.
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        if os.path.isdir(script) or zipfile.is_zipfile(script):
            del sys.path[0]  # runpy puts the folder or archive itself there
        else:
            sys.path[0] = os.path.dirname(os.path.realpath(script))
    install()
    sys.argv[:] = [script, *arguments]
    runpy.run_path(script, run_name="__main__")


def _run_module(module: str, arguments: list[str]) -> None:
    if not module:
        _fail(f"{USAGE}\n-m needs the name of a module")
    if module.startswith("."):
        _fail(f"{module} is a relative name, expected package.module", code=1)
    install()
    sys.argv[:] = ["-m", *arguments]  # as under Python, until the module is found
    try:
        spec = importlib.util.find_spec(module)
        if spec is not None and spec.submodule_search_locations is not None:
            module = f"{module}.__main__"
            spec = importlib.util.find_spec(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # an import inside a parent package failed
        spec = None
    if spec is None:
        _fail(f"there is no module named {module}", code=1)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _fail(message: str, code: int = 2) -> NoReturn:
    print(message, file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
