"""Downloading files: resumed where they were interrupted, and checked."""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from densefield.errors import DensefieldError, InputError

Progress = Callable[[int, int | None], None]  # bytes done, and of how many, where that is known

CHUNK = 1 << 20
TIMEOUT = 60.0  # seconds without a byte
ATTEMPTS = 5  # in a row that bring nothing new
PAUSE = 1.0  # seconds before the second attempt; doubled before each further one


class DownloadError(DensefieldError, OSError):
    """A file could not be downloaded, or is not the one that was expected."""


def download(
    url: str, path: Path, *, sha256: str | None = None, md5: str | None = None, progress: Progress | None = None
) -> Path:
    """Downloads a file, whole or not at all, and returns its path.

    What an interrupted download left in `path` + ".part" is gone on with. A file that is there already is kept if its
    checksum is right, and otherwise taken for the beginning of the download. Without a checksum an existing file is
    taken as it is and nothing is resumed, since nothing would tell the halves of two different files.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise InputError(f"the address is {url!r}, expected one that begins with https:// or http://.")
    checksums = {name: value.lower() for name, value in (("sha256", sha256), ("md5", md5)) if value is not None}
    if path.exists() and _wrong_checksum(path, checksums) is None:
        return path
    part = path.with_name(f"{path.name}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        os.replace(path, part)
    if not checksums:
        part.unlink(missing_ok=True)
    resumed = part.exists()
    _fetch(url, part, progress)
    wrong = _wrong_checksum(part, checksums)
    if wrong is not None and resumed:  # what was there may have been of another file
        part.unlink()
        _fetch(url, part, progress)
        wrong = _wrong_checksum(part, checksums)
    if wrong is not None:
        part.unlink()
        raise DownloadError(
            f"what {url} gave is not the file that was expected: {wrong}. Download it elsewhere to {path}."
        )
    os.replace(part, path)
    return path


def _wrong_checksum(path: Path, checksums: dict[str, str]) -> str | None:
    """In words, the first checksum that differs."""
    for name, expected in checksums.items():
        digest = hashlib.new(name, usedforsecurity=False)
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
        if digest.hexdigest() != expected:
            return f"{name} is {digest.hexdigest()}, expected {expected}"
    return None


def _fetch(url: str, part: Path, progress: Progress | None) -> None:
    """Adds to the file until it is whole, after interruptions too."""
    failures = 0
    while True:
        before = _size(part)
        try:
            if _fetch_once(url, part, progress):
                return
            reason = "the connection was closed early"
        except urllib.error.HTTPError as error:
            reason = f"the server answered {error.code} {error.reason}"
            if error.code < 500 and error.code not in (408, 429):  # trying again would not help
                raise DownloadError(f"{url} cannot be downloaded: {reason}. Look for another address.") from error
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, DownloadError):
                raise
            reason = f"{getattr(error, 'reason', None) or error or type(error).__name__}"
        failures = 1 if _size(part) > before else failures + 1
        if failures >= ATTEMPTS:
            raise DownloadError(
                f"{url} cannot be downloaded: {reason}. {_size(part)} bytes are in {part}; try again later, and the "
                "download goes on from there."
            )
        time.sleep(PAUSE * 2 ** (failures - 1))


def _fetch_once(url: str, part: Path, progress: Progress | None) -> bool:
    """One request for what is missing; True if the file is whole."""
    have = _size(part)
    headers = {"User-Agent": "densefield", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        # Nothing lies beyond what we have. If that is the whole, well; if it is too much, begin again.
        if error.headers.get("Content-Range", "").rpartition("/")[2] == str(have):
            return True
        part.unlink()
        return False
    with response:
        if response.status != 206 or not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            have = 0  # the server begins at the beginning
        length = response.headers.get("Content-Length")
        total = None if length is None else have + int(length)
        _check_space(part, (total or 0) - have)
        with part.open("r+b" if have else "wb") as file:
            file.seek(have)
            while chunk := response.read(CHUNK):
                file.write(chunk)
                have += len(chunk)
                if progress is not None:
                    progress(have, total)
        return total is None or have >= total


def _check_space(part: Path, needed: int) -> None:
    free = shutil.disk_usage(part.parent).free
    if needed > free:
        raise DownloadError(f"{part} needs {needed} bytes more, but only {free} are free there. Choose another place.")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
