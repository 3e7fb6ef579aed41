"""Fails if a built page loads a script, style, font or picture from elsewhere: `python docs/check_offline.py HTML`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

# Attributes and rules that make a browser load something; a link that a reader may follow is none.
LOADED = (
    re.compile(
        r"""<(?:script|img|source|iframe|video|audio|embed)\b[^>]*\b(?:src|srcset)=["']((?:https?:)?//[^"']+)"""
    ),
    re.compile(
        r"""<link\b(?=[^>]*\brel=["'](?:stylesheet|preload|preconnect|icon)\b)[^>]*\bhref=["']((?:https?:)?//[^"']+)"""
    ),
    re.compile(r"""(?:@import\s+|url\()\s*["']?((?:https?:)?//[^"')\s]+)"""),
)


def remote_resources(folder: Path) -> Iterator[tuple[Path, str]]:
    """Every address on another server that a page or style sheet loads."""
    for path in sorted([*folder.rglob("*.html"), *folder.rglob("*.css")]):
        text = path.read_text(encoding="utf-8")
        yield from ((path, address) for pattern in LOADED for address in pattern.findall(text))


def main() -> int:
    """Print them, and return 1 if there are any."""
    folder = Path(sys.argv[1])
    if not (folder / "index.html").is_file():
        print(f"{folder} has no index.html. Build the pages first: make docs")
        return 1
    found = list(remote_resources(folder))
    for path, address in found:
        print(f"{path} loads {address}")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
