"""Fetching PASCAL VOC 2012 and SBD from where they are published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from densefield.datasets.check import Report, check_data
from densefield.datasets.sbd import need_scipy
from densefield.datasets.unpack import unpack
from densefield.datasets.voc import find_voc, list_voc
from densefield.errors import DensefieldError
from densefield.io.download import download

Progress = Callable[[str, int, int | None], None]  # what is done, how much of it, and of how much


@dataclass(frozen=True)
class Archive:
    """A published archive, and the splits that want it."""

    name: str
    url: str
    sha256: str
    splits: tuple[str, ...]

    @property
    def file(self) -> str:
        """The name of its file."""
        return self.url.rpartition("/")[2]


# The publishers give no checksums. These are the ones that torchvision's prototype of its datasets checks by.
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
class Fetched:
    """What is there now, and why what is not there could not be fetched."""

    report: Report
    failures: tuple[str, ...]


def fetch_voc2012(
    folder: Path,
    *,
    archives: tuple[Archive, ...] = (VOC_ARCHIVE, SBD_ARCHIVE),
    threads: int | None = None,
    progress: Progress | None = None,
) -> Fetched:
    """Downloads PASCAL VOC 2012 and SBD to a folder, unpacks them there, and checks all of it.

    What is complete already is not fetched again. Archives stay in `folder/archives`. If one cannot be had, the other
    is still fetched. The test split is not among them: it is given to registered users only.
    """

    def tell(what: str) -> Callable[[int, int | None], None]:
        return lambda done, total: progress(what, done, total) if progress is not None else None

    failures = []
    for archive in archives:
        if all(_is_complete(folder, split) for split in archive.splits):
            continue
        path = folder / "archives" / archive.file
        try:
            if "train_aug" in archive.splits:
                need_scipy()  # before the download, not after it
            download(archive.url, path, sha256=archive.sha256, progress=tell(f"download {archive.name}"))
            unpack(path, folder, tell(f"unpack {archive.name}"))
        except DensefieldError as error:
            failures.append(f"{archive.name}: {error}")
    if find_voc(folder) is None:
        raise DensefieldError("\n".join(failures) or f"the archives hold no VOCdevkit/VOC2012: {folder} has none.")
    return Fetched(check_data(folder, threads=threads, progress=tell("check")), tuple(failures))


def _is_complete(folder: Path, split: str) -> bool:
    try:
        return list_voc(folder, split).complete
    except DensefieldError:  # nothing is there yet
        return False
