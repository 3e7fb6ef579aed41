"""Files from the network: checked by SHA-256, and gone on with where they were cut off."""

from __future__ import annotations

import hashlib
import http.client
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from densefield.errors import DensefieldError

Progress = Callable[[int, "int | None"], None]  # bytes so far, bytes in all where the server tells

_TIMEOUT = 30.0  # seconds without a byte
_ATTEMPTS = 3  # in a row without a byte
_PIECE = 1 << 20


def cache_folder() -> Path:
    """Where downloads are kept: ``$DENSEFIELD_CACHE``, else ``densefield`` in the user's folder of caches."""
    own = os.environ.get("DENSEFIELD_CACHE")
    if own:
        return Path(own)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
    else:
        base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "densefield"


def download(url: str, sha256: str, folder: Path, progress: Progress | None = None) -> Path:
    """The file behind the URL, in the folder under its own name; if it is there and whole, nothing is fetched.

    Until all of it has come and its SHA-256 is right, it is kept as ``NAME.part``, and the next call goes on from
    there. ``progress`` is called with the bytes so far and, where the server tells, the bytes in all.
    """
    path = folder / url.rpartition("/")[2]
    if path.is_file():
        with path.open("rb") as whole:
            if _digest(whole) == sha256:
                return path
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.touch()
    with part.open("r+b") as file:  # not "ab": two processes then write the same bytes to the same places
        resumed = file.seek(0, os.SEEK_END) > 0
        _fetch(url, file, progress)
        found = _digest(file)
        if found != sha256 and resumed:  # what was there may be of another file
            file.truncate(0)
            _fetch(url, file, progress)
            found = _digest(file)
    if found != sha256:
        part.unlink(missing_ok=True)
        raise DensefieldError(
            f"{url} has the SHA-256 {found}, expected {sha256}: it was damaged on the way, or is another file. It was "
            "deleted. Try again, or get the file elsewhere and pass its name."
        )
    try:
        part.replace(path)
    except FileNotFoundError:  # another process was faster
        if not path.is_file():
            raise
    return path


def _fetch(url: str, file: BinaryIO, progress: Progress | None) -> None:
    """Fetches what the file lacks; a connection that breaks is made again as long as it brings something."""
    failures = 0
    while True:
        before = file.seek(0, os.SEEK_END)
        try:
            return _fetch_once(url, file, progress)
        except (OSError, http.client.HTTPException) as error:  # the errors of urllib, and timeouts, are OSErrors
            after = file.seek(0, os.SEEK_END)
            failures = 0 if after > before else failures + 1
            refused = isinstance(error, urllib.error.HTTPError) and error.code < 500  # it would be refused again
            if refused or failures == _ATTEMPTS:
                raise DensefieldError(
                    f"{url} cannot be fetched ({error}); {after} bytes have come. Try again, and it goes on from "
                    "there; or get the file elsewhere and pass its name."
                ) from error


def _fetch_once(url: str, file: BinaryIO, progress: Progress | None) -> None:
    done = file.seek(0, os.SEEK_END)
    request = urllib.request.Request(url, headers={"Range": f"bytes={done}-"} if done else {})
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and done:
            error.close()
            return  # nothing is left to send; the checksum tells whether that is so
        raise
    with response:
        if response.status != http.client.PARTIAL_CONTENT:
            done = 0  # a server that knows no ranges sends the whole file
        file.seek(done)
        length = response.headers.get("Content-Length")
        total = None if length is None else done + int(length)
        while piece := response.read(_PIECE):
            file.write(piece)
            done += len(piece)
            if progress is not None:
                progress(done, total)
        if total is not None and done < total:  # read() ends without an error when the connection does
            raise ConnectionError(f"the connection ended after {done} of {total} bytes")
        file.truncate()


def _digest(file: BinaryIO) -> str:
    file.seek(0)
    digest = hashlib.sha256()
    while piece := file.read(_PIECE):
        digest.update(piece)
    return digest.hexdigest()
