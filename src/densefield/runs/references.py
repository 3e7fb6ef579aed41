"""The user's functions, which settings name as "package.module:function"; a call imports their module."""

from __future__ import annotations

import difflib
import importlib
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from densefield.errors import InputError

OBJECT = "object"  # in settings: a Python object that was passed to densefield.train
_FORM = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def is_reference(name: str) -> bool:
    """Whether a name has the form package.module:function.

    >>> is_reference("my_networks:unet"), is_reference("small_network"), is_reference("C:\\\\data")
    (True, False, False)
    """
    return _FORM.fullmatch(name) is not None


def is_own(name: str) -> bool:
    """Whether a name in settings means something of the user: a function, or a Python object."""
    return name == OBJECT or is_reference(name)


def names_function(path: Path | None) -> bool:
    """Whether an argument of the command line names a function, and not a file or folder.

    >>> names_function(Path("my_data:scans")), names_function(Path("scans")), names_function(None)
    (True, False, False)
    """
    return path is not None and is_reference(str(path)) and not path.exists()


def call_reference(name: str, key: str, *arguments: object, options: Mapping[str, Any] | None = None) -> Any:
    """What the named function returns. This imports its module, which runs the module's code.

    The working directory is searched for the module too, after all other places.

    Parameters
    ----------
    name
        The function, package.module:function.
    key
        What names it, for messages: "network.name", for instance.
    arguments, options
        Its arguments; the options are passed by keyword.
    """
    function = _imported(name, key)
    try:
        return function(*arguments, **(options or {}))
    except (Exception, SystemExit) as error:  # code of the user
        shown = ", ".join([*map(repr, arguments), *(f"{each}={value!r}" for each, value in (options or {}).items())])
        raise InputError(f"{key}: {name.replace(':', '.')}({shown}) raised {_shown(error)}") from error


def reference_to(function: object) -> str | None:
    """The name by which another process can import a function or class; None if there is none.

    Functions inside functions, lambdas, and those of the program itself, `__main__`, have none.

    >>> reference_to(Path), reference_to(lambda: None)
    ('pathlib:Path', None)
    """
    module, place = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(place, str) or module == "__main__":
        return None
    name = f"{module}:{place}"
    found: object = sys.modules.get(module)
    for part in place.split("."):
        found = getattr(found, part, None)
    return name if found is function and is_reference(name) else None


def _imported(name: str, key: str) -> Callable[..., Any]:
    """The named function or class."""
    module_name, _, place = name.partition(":")
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:  # a console script does not search it
        sys.path.append(here)
    try:
        found: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # code of the user
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
            raise InputError(
                f"{key} is {name!r}, but there is no module {error.name}. Modules are searched in the environment of "
                f"{sys.executable}, in PYTHONPATH, and in {here}: install the package, set PYTHONPATH to the folder of "
                "the module, or start in that folder."
            ) from error
        raise InputError(f"{key}: importing {module_name} raised {_shown(error)}") from error
    for part in place.split("."):
        if not hasattr(found, part):
            close = difflib.get_close_matches(part, [each for each in dir(found) if not each.startswith("_")], 1)
            hint = f"; did you mean {close[0]}?" if close else "."
            raise InputError(f"{key} is {name!r}, but {_file_of(module_name)} has no {part}{hint}")
        found = getattr(found, part)
    if not callable(found):
        raise InputError(f"{key} is {name!r}, which is of type {type(found).__name__}, expected a function.")
    function: Callable[..., Any] = found
    return function


def _file_of(module: str) -> str:
    """The file of an imported module, for messages."""
    return str(getattr(sys.modules.get(module), "__file__", None) or module)


def _shown(error: BaseException) -> str:
    """An error of other code in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split()) or 'no message'}".rstrip(".") + "."
