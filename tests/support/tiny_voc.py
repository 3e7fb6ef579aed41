"""Small datasets in the layouts of PASCAL VOC 2012 and of SBD."""

from __future__ import annotations

import io
import tarfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from densefield.images.palette import voc_palette

TRAIN = ("2007_000032", "2007_000063", "2008_000089")
VAL = ("2007_000033", "2009_002239")
TEST = ("2008_000006",)
EXTRA = ("2008_000002", "2010_005001")  # what SBD adds to train
OFFICIAL = {"train": 3, "val": 2, "trainval": 5, "test": 1, "train_aug": 5}


def labels_of(id: str, source: str = "voc") -> np.ndarray:
    """Labels (7 to 10, 11) that depend on the id and the dataset; only VOC has void."""
    random = np.random.default_rng(zlib.crc32(f"{source} {id}".encode()))
    labels = random.integers(0, 21, (7 + zlib.crc32(id.encode()) % 4, 11)).astype(np.uint8)
    if source == "voc":
        labels[0, 0] = 255
    return labels


def save_image(path: Path, id: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(zlib.crc32(id.encode()))
    photo = random.integers(0, 256, (*labels_of(id).shape, 3)).astype(np.uint8)
    Image.fromarray(photo).save(path, quality=95)


def save_mask(path: Path, labels: np.ndarray, indexed: bool = True) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = Image.fromarray(labels)
    if indexed:
        picture.putpalette(voc_palette().tobytes())
    picture.save(path)


def write_list(path: Path, ids: tuple[str, ...]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{id}\n" for id in ids), encoding="utf-8")


def write_voc(folder: Path, *, test: bool = False) -> Path:
    """Write VOCdevkit/VOC2012 with all images and the masks of train and val; returns the VOC2012 folder."""
    base = folder / "VOCdevkit" / "VOC2012"
    for id in (*TRAIN, *VAL, *EXTRA):
        save_image(base / "JPEGImages" / f"{id}.jpg", id)
    for name, ids in {"train": TRAIN, "val": VAL, "trainval": tuple(sorted(TRAIN + VAL))}.items():
        write_list(base / "ImageSets" / "Segmentation" / f"{name}.txt", ids)
        for id in ids:
            save_mask(base / "SegmentationClass" / f"{id}.png", labels_of(id))
    if test:
        write_list(base / "ImageSets" / "Segmentation" / "test.txt", TEST)
        for id in TEST:
            save_image(base / "JPEGImages" / f"{id}.jpg", id)
    return base


def write_sbd(folder: Path) -> Path:
    """Write benchmark_RELEASE/dataset; as in SBD, some images are also in train and val of VOC."""
    scipy_io = pytest.importorskip("scipy.io", reason=".mat files need scipy")
    sparse = pytest.importorskip("scipy.sparse", reason=".mat files need scipy")
    base = folder / "benchmark_RELEASE" / "dataset"
    (base / "cls").mkdir(parents=True)
    for id in (*EXTRA, TRAIN[0], VAL[0]):
        labels = labels_of(id, "sbd")
        boundaries = np.empty((20, 1), object)
        for label in range(20):
            boundaries[label, 0] = sparse.csc_matrix((labels == label + 1).astype(float))
        truth = {"Boundaries": boundaries, "Segmentation": labels, "CategoriesPresent": np.unique(labels[labels > 0])}
        scipy_io.savemat(base / "cls" / f"{id}.mat", {"GTcls": truth}, do_compression=True)
        save_image(base / "img" / f"{id}.jpg", id)
    write_list(base / "train.txt", (EXTRA[0], VAL[0]))
    write_list(base / "val.txt", (EXTRA[1], TRAIN[0]))
    return base


def packed(folder: Path, mode: str) -> bytes:
    """A tar archive of the content of a folder."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, path.name)
    return buffer.getvalue()
