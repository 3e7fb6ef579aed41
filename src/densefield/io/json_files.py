"""Reading JSON files that are not trusted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from densefield.errors import InputError
from densefield.io.printable import cause


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; whatever is wrong with the file is an InputError that names it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.json").write_text('{"images": 3}')
    ...     read_json(Path(folder, "a.json"))
    {'images': 3}
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path} cannot be read as JSON: {cause(error)}. Remove it, or name another folder."
        ) from error
    if not isinstance(content, dict):
        raise InputError(f"{path} holds a {type(content).__name__}, expected an object. Remove it.")
    return content
