"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import uuid
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Writes under a passing name and renames, so that no one ever sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    passing = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        passing.write_bytes(content)
        os.replace(passing, path)
    finally:
        passing.unlink(missing_ok=True)
