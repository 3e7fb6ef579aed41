"""The arguments of a report, checked before anything heavy is imported: named folders, and the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from densefield.errors import InputError


def check_page(out: Path) -> None:
    """Raises unless the page is an HTML file."""
    if out.suffix.lower() not in (".html", ".htm"):
        ending = f"ends in {out.suffix}" if out.suffix else "has no ending"
        raise InputError(f"{out} {ending}, expected .html.")


def check_folder(folder: Path) -> None:
    """Raises unless there is a folder."""
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}.")


def named_folders(runs: Sequence[str]) -> list[tuple[str, Path]]:
    """The name and folder of each run; the name is given by NAME=FOLDER, or is the shortest unique end of the path.

    >>> [name for name, _ in named_folders(["joint=runs/7", "runs/8", "a/eval", "b/eval"])]
    ['joint', '8', 'a/eval', 'b/eval']
    """
    split = [_split(run) for run in runs]
    given = [name for name, _ in split if name]
    paths = [folder.resolve() for name, folder in split if not name]
    named = [(name or _shortest(folder.resolve(), paths, given), folder) for name, folder in split]
    check_names([name for name, _ in named])
    return named


def _split(run: str) -> tuple[str, Path]:
    """NAME=FOLDER, or a folder without a name."""
    name, equals, path = run.partition("=")
    if not equals or Path(run).exists():
        return "", Path(run)
    if not name.strip() or not path:
        raise InputError(f"{run} has no {'folder' if name.strip() else 'name'}, expected NAME=FOLDER or FOLDER.")
    return name, Path(path)


def _shortest(path: Path, paths: Sequence[Path], given: Sequence[str]) -> str:
    """The shortest end of a path that is neither that of another path nor a given name."""
    for count in range(1, len(path.parts)):
        end = Path(*path.parts[-count:]).as_posix()
        if end not in given and [each.parts[-count:] for each in paths].count(path.parts[-count:]) == 1:
            return end
    return path.as_posix()


def check_names(names: Sequence[str]) -> None:
    """Raises if names are not unique: rows and colours depend on them."""
    for name, times in Counter(names).items():
        if times > 1:
            raise InputError(
                f"the name {name} is that of {times} runs, expected unique names: give them as NAME=FOLDER."
            )
