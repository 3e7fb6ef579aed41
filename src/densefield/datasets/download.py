"""Downloading PASCAL VOC 2012 and SBD from their publishers."""

from __future__ import annotations

import shutil
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from densefield.datasets.check import DatasetReport, check_data
from densefield.datasets.reading import require_scipy
from densefield.datasets.voc import find_voc, list_voc
from densefield.errors import DensefieldError, InputError
from densefield.io.download import download
from densefield.io.files import open_atomically
from densefield.io.folders import path_inside
from densefield.io.progress import Progress, StageProgress


@dataclass(frozen=True)
class Archive:
    """A published archive, and the splits that need it."""

    name: str
    url: str
    sha256: str
    splits: tuple[str, ...]

    @property
    def file(self) -> str:
        """The name of its file."""
        return self.url.rpartition("/")[2]


# The publishers give no checksums. These are from torchvision's prototype datasets.
VOC_ARCHIVE = Archive(
    "PASCAL VOC 2012",
    "http://host.robots.ox.ac.uk/pascal/VOC/voc2012/VOCtrainval_11-May-2012.tar",
    "e14f763270cf193d0b5f74b169f44157a4b0c6efa708f4dd0ff78ee691763bcb",
    ("train", "val"),
)
SBD_ARCHIVE = Archive(
    "SBD",
    "https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/semantic_contours/benchmark.tgz",
    "6a5a2918d5c73ce032fdeba876574d150d9d04113ab87540a1304cbcc715be53",
    ("train_aug",),
)


@dataclass(frozen=True)
class Downloaded:
    """The outcome of `download_voc2012`.

    Parameters
    ----------
    report
        The check of the dataset after the download.
    failures
        A line for each archive that failed.
    """

    report: DatasetReport
    failures: tuple[str, ...]


def download_voc2012(
    folder: Path,
    *,
    archives: tuple[Archive, ...] = (VOC_ARCHIVE, SBD_ARCHIVE),
    threads: int | None = None,
    progress: StageProgress | None = None,
) -> Downloaded:
    """Download PASCAL VOC 2012 and SBD, unpack and check them.

    Splits that are complete are not downloaded again. If one archive fails, the other is still downloaded. The test
    split is not included: it is given to registered users only.

    Parameters
    ----------
    folder
        The folder to unpack to; archives are kept in `folder/archives`.
    archives
        The archives to download.
    threads
        Number of threads of the check, by default all processors.
    progress
        Called with the name of the stage, what is done (bytes, or samples of the check), and the total.

    >>> downloaded = download_voc2012(Path("/data"))  # doctest: +SKIP
    """

    def stage(name: str) -> Progress:
        return lambda done, total: progress(name, done, total) if progress is not None else None

    failures = []
    for archive in archives:
        if all(_is_complete(folder, split) for split in archive.splits):
            continue
        path = folder / "archives" / archive.file
        try:
            if "train_aug" in archive.splits:
                require_scipy()  # before the download, not after it
            download(archive.url, path, sha256=archive.sha256, progress=stage(f"download {archive.name}"))
            unpack(path, folder, stage(f"unpack {archive.name}"))
        except DensefieldError as error:
            failures.append(f"{archive.name}: {error}")
    if find_voc(folder) is None:
        raise DensefieldError("\n".join(failures) or f"the archives hold no VOCdevkit/VOC2012: {folder} has none.")
    return Downloaded(check_data(folder, threads=threads, progress=stage("check")), tuple(failures))


def _is_complete(folder: Path, split: str) -> bool:
    try:
        return list_voc(folder, split).complete
    except DensefieldError:  # nothing is downloaded yet
        return False


def unpack(archive: Path, folder: Path, progress: Progress | None = None) -> None:
    """Unpack an untrusted tar archive, compressed or not; nothing is ever written outside the folder.

    Links, devices and names that lead out of the folder are errors: tarfile's data filter is less strict, and missing
    in early releases of Python 3.10. Files appear completely or not at all; existing files are replaced. `progress` is
    called with the bytes read and their total.
    """
    if not archive.is_file():
        raise InputError(f"there is no file {archive}.")
    try:
        total = archive.stat().st_size
        # As a stream, since the members of a compressed archive are known only after it is read.
        with archive.open("rb") as raw, tarfile.open(fileobj=raw, mode="r|*") as tar:
            for member in tar:
                target = _target(archive, member, folder)
                if member.isdir():
                    target.mkdir(parents=True, exist_ok=True)
                else:
                    content = tar.extractfile(member)
                    assert content is not None
                    _write(target, content, member.size)
                if progress is not None:
                    progress(raw.tell(), total)
    except InputError:
        raise
    except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError) as error:
        raise InputError(f"{archive} cannot be unpacked into {folder}: {error}.") from error


def _target(archive: Path, member: tarfile.TarInfo, folder: Path) -> Path:
    """The path of a member; raises if it is not allowed."""
    if not (member.isfile() or member.isdir()):
        raise InputError(f"{archive} has an entry {member.name!r} that is a link or a device: do not trust it.")
    if not PurePosixPath(member.name).parts:  # "."
        return folder
    try:
        return path_inside(folder, member.name)
    except InputError as error:
        raise InputError(
            f"{archive} has an entry {member.name!r}, which leads out of {folder}: do not trust it."
        ) from error


def _write(target: Path, content: IO[bytes], size: int) -> None:
    """Write a file atomically, without a sync to disk, which would take longer than unpacking."""
    with open_atomically(target, sync=False) as file:
        shutil.copyfileobj(content, file, 1 << 20)
        if file.tell() != size:
            raise EOFError(f"{target.name} ends after {file.tell()} of {size} bytes")
