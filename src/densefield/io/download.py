"""Files from the web: resumed where they were cut off, bounded in size, and checked by SHA-256."""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from densefield.errors import DensefieldError, InputError

Progress = Callable[[int, "int | None"], None]  # bytes so far, and of how many, where the server tells

PIECE = 1 << 20
MOST_BYTES = 1 << 33  # of a file; the largest that is downloaded here has 2 GB
TIMEOUT = 60.0  # seconds without a byte
ATTEMPTS = 5  # in a row that bring nothing new
PAUSE = 1.0  # seconds before the second attempt; doubled before each further one


class DownloadError(DensefieldError, OSError):
    """A file could not be downloaded, or is not the one that was expected."""


def cache_folder() -> Path:
    """Where downloads are kept: ``$DENSEFIELD_CACHE``, else ``densefield`` in the user's folder of caches."""
    own = os.environ.get("DENSEFIELD_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "densefield"


def download(url: str, path: Path, *, sha256: str, progress: Progress | None = None) -> Path:
    """Downloads a file, whole and right or not at all, and returns its path.

    Until all of it has come and its SHA-256 is right, it is `path` + ".part", and the next call resumes from there. A
    file that is there already is kept if its checksum is right, and otherwise taken for the beginning of the download.
    More than 2³³ bytes are refused. Several processes may fetch the same file at once.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise InputError(f"the address is {url!r}, expected one that begins with https:// or http://.")
    expected = sha256.lower()
    if path.is_file():
        with path.open("rb") as whole:
            if _digest(whole) == expected:
                return path
    part = path.with_name(f"{path.name}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        os.replace(path, part)
    part.touch()
    with part.open("r+b") as file:  # not "ab": two processes then write the same bytes to the same places
        resumed = _size(file) > 0
        _fetch(url, file, part, progress)
        found = _digest(file)
        if found != expected and resumed:  # what was there may have been of another file
            file.truncate(0)
            _fetch(url, file, part, progress)
            found = _digest(file)
    if found != expected:
        part.unlink(missing_ok=True)
        raise DownloadError(
            f"what {url} gave is not the file that was expected: its SHA-256 is {found}, expected {expected}. It was "
            f"deleted. Try again, or get the file elsewhere and put it at {path}."
        )
    try:
        os.replace(part, path)
    except FileNotFoundError:  # another process was faster
        if not path.is_file():
            raise
    return path


def _fetch(url: str, file: BinaryIO, part: Path, progress: Progress | None) -> None:
    """Adds to the file until it is whole; a connection that breaks is made again as long as that brings something."""
    failures = 0
    while True:
        before = _size(file)
        try:
            return _fetch_once(url, file, part, progress)
        except DownloadError:
            raise
        except urllib.error.HTTPError as error:
            reason = f"the server answered {error.code} {error.reason}"
            if error.code < 500 and error.code not in (408, 429):  # trying again would not help
                raise DownloadError(
                    f"{url} cannot be downloaded: {reason}. Look for another address, or get the file elsewhere and "
                    f"put it at {part.with_suffix('')}."
                ) from error
        except (OSError, http.client.HTTPException) as error:  # the errors of urllib, and timeouts, are OSErrors
            reason = f"{getattr(error, 'reason', None) or error or type(error).__name__}"
        failures = 1 if _size(file) > before else failures + 1
        if failures >= ATTEMPTS:
            raise DownloadError(
                f"{url} cannot be downloaded: {reason}. {_size(file)} bytes are in {part}; try again later, and the "
                "download goes on from there."
            )
        time.sleep(PAUSE * 2 ** (failures - 1))


def _fetch_once(url: str, file: BinaryIO, part: Path, progress: Progress | None) -> None:
    """One request for what is missing; raises where not all of it comes."""
    done = _size(file)
    headers = {"User-Agent": "densefield", "Accept-Encoding": "identity"}
    if done:
        headers["Range"] = f"bytes={done}-"
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and done:
            error.close()
            return  # nothing is left to send; the checksum tells whether that is so
        raise
    with response:
        begins_there = response.headers.get("Content-Range", "").startswith(f"bytes {done}-")
        if response.status != http.client.PARTIAL_CONTENT or not begins_there:
            done = 0  # a server that knows no ranges sends the whole file
        length = response.headers.get("Content-Length", "")
        # What is no number says nothing, as if it were missing; http.client reads the body the same way.
        total = done + int(length) if length.isascii() and length.isdecimal() and len(length) < 20 else None
        _check_size(url, total or 0)
        _check_space(part, (total or 0) - done)
        file.seek(done)
        while piece := response.read(PIECE):
            done += len(piece)
            _check_size(url, done)
            file.write(piece)
            if progress is not None:
                progress(done, total)
        if total is not None and done < total:  # read() ends without an error when the connection does
            raise ConnectionError(f"the connection ended after {done} of {total} bytes")
        file.truncate()


def _check_size(url: str, size: int) -> None:
    if size > MOST_BYTES:
        raise DownloadError(
            f"{url} gives {size} bytes or more, expected at most {MOST_BYTES}: it is not the file that was expected."
        )


def _check_space(part: Path, needed: int) -> None:
    free = shutil.disk_usage(part.parent).free
    if needed > free:
        raise DownloadError(f"{part} needs {needed} bytes more, but only {free} are free there. Choose another place.")


def _size(file: BinaryIO) -> int:
    return file.seek(0, os.SEEK_END)


def _digest(file: BinaryIO) -> str:
    file.seek(0)
    digest = hashlib.sha256()
    while piece := file.read(PIECE):
        digest.update(piece)
    return digest.hexdigest()
