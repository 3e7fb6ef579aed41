"""Downloads that resume, are limited in size, and are checked by SHA-256.

Written by hand, since urllib does not resume or limit downloads, and a dependency for one function is not worth it.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from densefield.errors import DensefieldError, InputError
from densefield.io.progress import Progress

CHUNK = 1 << 20
MAX_BYTES = 1 << 33  # of a file; the largest one used has 2 GB
TIMEOUT = 60.0  # seconds without a byte
ATTEMPTS = 5  # consecutive attempts without progress
PAUSE = 1.0  # seconds before the second attempt; doubled before each further one


class DownloadError(DensefieldError, OSError):
    """A file could not be downloaded, or is not the one that was expected."""


def cache_folder() -> Path:
    """The folder of downloads: ``$DENSEFIELD_CACHE``, by default ``densefield`` in the user's cache folder."""
    own = os.environ.get("DENSEFIELD_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "densefield"


def download(url: str, path: Path, *, sha256: str, progress: Progress | None = None) -> Path:
    """Download a file, unless it exists with the right checksum, and return its path.

    An incomplete download is `path` + ".part", which the next call resumes; an existing file with another checksum is
    taken for one. More than 2³³ bytes are refused. Several processes may download the same file at once.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise InputError(f"the address is {url!r}, expected one that begins with https:// or http://.")
    expected = sha256.lower()
    part = path.with_name(f"{path.name}.part")
    if path.is_file():
        with path.open("rb") as existing:
            if _digest(existing) == expected:
                return path
        with suppress(FileNotFoundError):  # another process may have moved it
            os.replace(path, part)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not "ab", so that two processes write the same bytes to the same places; created and opened in one step.
    with open(os.open(part, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666), "r+b") as file:
        resumed = _size(file) > 0
        _fetch(url, file, part, progress)
        found = _digest(file)
        if found != expected and resumed:  # the beginning may have been of another file
            file.truncate(0)
            _fetch(url, file, part, progress)
            found = _digest(file)
    if found != expected:
        part.unlink(missing_ok=True)
        raise DownloadError(
            f"the download of {url} is not the expected file: its SHA-256 is {found}, expected {expected}. It was "
            f"deleted. Try again, or get the file elsewhere and put it at {path}."
        )
    try:
        os.replace(part, path)
    except FileNotFoundError:  # another process was faster
        if not path.is_file():
            raise
    return path


def _fetch(url: str, file: BinaryIO, part: Path, progress: Progress | None) -> None:
    """Append to the file until it is complete; broken connections are retried as long as they make progress."""
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
                "download resumes from there."
            )
        time.sleep(PAUSE * 2 ** (failures - 1))


def _fetch_once(url: str, file: BinaryIO, part: Path, progress: Progress | None) -> None:
    """Request the missing bytes once; raises if the connection ends early."""
    done = _size(file)
    headers = {"User-Agent": "densefield", "Accept-Encoding": "identity"}
    if done:
        headers["Range"] = f"bytes={done}-"
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and done:
            error.close()
            return  # nothing is missing, or the checksum will differ
        raise
    with response:
        resumes = response.headers.get("Content-Range", "").startswith(f"bytes {done}-")
        if response.status != http.client.PARTIAL_CONTENT or not resumes:
            done = 0  # a server without support for ranges sends the complete file
        length = response.headers.get("Content-Length", "")
        # Anything but a number counts as missing; http.client reads the body the same way.
        total = done + int(length) if length.isascii() and length.isdecimal() and len(length) < 20 else None
        _check_size(url, total or 0)
        needed, free = (total or 0) - done, shutil.disk_usage(part.parent).free
        if needed > free:
            raise DownloadError(
                f"{part} needs {needed} bytes more, but only {free} are free there. Choose another place."
            )
        file.seek(done)
        while chunk := response.read(CHUNK):
            done += len(chunk)
            _check_size(url, done)
            file.write(chunk)
            if progress is not None:
                progress(done, total or 0)
        if total is not None and done < total:  # read() ends without an error when the connection does
            raise ConnectionError(f"the connection ended after {done} of {total} bytes")
        file.truncate()


def _check_size(url: str, size: int) -> None:
    if size > MAX_BYTES:
        raise DownloadError(
            f"{url} gives {size} bytes or more, expected at most {MAX_BYTES}: it is not the expected file."
        )


def _size(file: BinaryIO) -> int:
    return file.seek(0, os.SEEK_END)


def _digest(file: BinaryIO) -> str:
    file.seek(0)
    digest = hashlib.sha256()
    while chunk := file.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()
