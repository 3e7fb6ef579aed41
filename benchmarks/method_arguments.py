"""Arguments NAME=METHOD:PLACE,PLACE,… of benchmarks that compare methods over seeds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from densefield.errors import DensefieldError


def parsed(arguments: Sequence[str]) -> list[tuple[str, str, list[Path]]]:
    """Name, method and places of each argument; ends the program with one line if one is wrong."""
    found = []
    for argument in arguments:
        name, _, rest = argument.partition("=")
        method, _, places = rest.partition(":")
        if not name or method not in ("network", "crf") or not all(places.split(",")):
            raise SystemExit(
                f"{argument!r} is not NAME=METHOD:FOLDER,FOLDER,…, expected something like joint=crf:one,two with the "
                "method network or crf"
            )
        if name in (each[0] for each in found):
            raise SystemExit(f"two methods are called {name!r}: choose another name")
        found.append((name, method, [Path(place) for place in places.split(",")]))
    return found


def run(main: Callable[[Sequence[str]], None], text: str | None) -> None:
    """Runs a program; prints its `text` without arguments and for --help, and errors of input as one line."""
    if len(sys.argv) == 1 or "--help" in sys.argv:
        sys.exit(text)
    try:
        main(sys.argv[1:])
    except DensefieldError as error:
        sys.exit(str(error))
