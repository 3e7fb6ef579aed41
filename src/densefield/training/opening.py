"""Scored images, and a CRF for them, from what a user names: a run, a checkpoint, or a folder of logits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from densefield.crf.layer import DenseCRF
from densefield.data.folder import list_folder
from densefield.data.layout import find_layout, open_dataset
from densefield.data.listing import Listing
from densefield.data.shrunk import ShrunkDataset
from densefield.data.voc import list_voc
from densefield.errors import InputError
from densefield.training.score_sources import NetworkScores, SavedScores, ScoreSource


class Opened(NamedTuple):
    """The scored images of a split, the CRF of the run where it has one, and what they are, in words.

    Files may be replaced by others of the same names, so the words have digests of weights, of files of logits, and of
    files of images and masks.
    """

    source: ScoreSource
    crf: DenseCRF | None
    about: dict[str, str]


def identity(about: Mapping[str, str]) -> dict[str, str]:
    """What results depend on: where weights are known, not the place that they were read from.

    >>> identity({"scores": "runs/joint", "split": "val", "weights": "88fa"})
    {'split': 'val', 'weights': '88fa'}
    """
    return {key: value for key, value in about.items() if key != "scores" or "weights" not in about}


def open_scores(scores: Path, data: Path | None, split: str) -> Opened:
    """What is named by ``scores``: a run, a checkpoint, or a folder of logits as ID.npz.

    Without ``data`` the images are a split of those that the run's settings name.
    """
    about = {"scores": str(scores.resolve()), "split": split}
    if data is not None:
        about["data"] = str(data.resolve())
    if scores.is_dir() and not (scores / "checkpoints").is_dir():
        if not any(scores.glob("*.npz")):
            raise InputError(f"{scores} is neither a run with a checkpoint nor a folder of logits (ID.npz).")
        if data is None:
            raise InputError(f"{scores} holds logits, which know nothing of images: name the folder of the data too.")
        saved = SavedScores(scores, open_dataset(data, split))
        about["logits"] = _digest(saved.files)
        return Opened(saved, None, about | _about_images(_listed(data, split), saved.ids))
    # Whoever has logits in files need not have what training needs.
    from densefield.training.build import colour_scale, open_split
    from densefield.training.checkpoint import load_segmenter
    from densefield.training.config import HELD_OUT

    segmenter, config = load_segmenter(scores)
    own, longest = config.data, config.data.longest_side
    if data is None:
        dataset, root = open_split(own, split), Path(own.root)
        whole = own.train if split == HELD_OUT else split
        if own.kind == "voc2012":
            about |= _about_images(list_voc(root, whole, None if own.sbd is None else Path(own.sbd)), dataset.ids)
        elif own.kind == "folder":
            about |= _about_images(list_folder(find_layout(root)[1], whole), dataset.ids)
    else:
        dataset = ShrunkDataset(open_dataset(data, split), longest) if longest else open_dataset(data, split)
        about |= _about_images(_listed(data, split), dataset.ids)
    values = segmenter.state_dict().values()
    about["weights"] = blake2b(b"".join(value.numpy().tobytes() for value in values), digest_size=8).hexdigest()
    return Opened(NetworkScores(segmenter.scores, dataset, colour_scale(segmenter.network)), segmenter.crf, about)


def _listed(data: Path, split: str) -> Listing:
    """The files that `open_dataset` opens."""
    layout, base = find_layout(data)
    return list_voc(data, split) if layout == "voc" else list_folder(base, split)


def _about_images(listing: Listing, ids: Iterable[str]) -> dict[str, str]:
    """A digest of the files of those images and of their masks."""
    used = set(ids)
    pairs = [(entry.image, entry.mask) for entry in listing.entries if entry.id in used]
    return {"images and masks": _digest(path for pair in pairs for path in pair if path is not None)}


def _digest(files: Iterable[Path]) -> str:
    """Names, sizes and times of change: to read all that is in the files would take long each time."""
    stats = [(path.name, path.stat()) for path in files]
    facts = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
    return blake2b(repr(facts).encode(), digest_size=8).hexdigest()
