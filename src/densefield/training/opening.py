"""Scored images, and a CRF for them, from what a user names: a run, a checkpoint, or a folder of logits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from densefield.crf.layer import DenseCRF
from densefield.data.layout import open_dataset
from densefield.data.sample import Dataset, entries_of
from densefield.data.shrunk import ShrunkDataset
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
        dataset = open_dataset(data, split)
        saved = SavedScores(scores, dataset)
        about["logits"] = _digest(saved.files)
        return Opened(saved, None, about | _about_images(dataset, saved.ids))
    # Whoever has logits in files need not have what training needs.
    from densefield.training.build import colour_scale, open_split
    from densefield.training.checkpoint import load_segmenter

    segmenter, config = load_segmenter(scores)
    longest = config.data.longest_side
    if data is None:
        dataset = open_split(config.data, split)
    else:
        dataset = ShrunkDataset(open_dataset(data, split), longest) if longest else open_dataset(data, split)
    about |= _about_images(dataset, dataset.ids)
    values = segmenter.state_dict().values()
    about["weights"] = blake2b(b"".join(value.numpy().tobytes() for value in values), digest_size=8).hexdigest()
    return Opened(NetworkScores(segmenter.scores, dataset, colour_scale(segmenter.network)), segmenter.crf, about)


def _about_images(dataset: Dataset, ids: Iterable[str]) -> dict[str, str]:
    """A digest of the files of those images and of their masks; nothing where there are none."""
    used = set(ids)
    pairs = [(entry.image, entry.mask) for entry in entries_of(dataset) if entry.id in used]
    if not pairs:
        return {}
    return {"images and masks": _digest(path for pair in pairs for path in pair if path is not None)}


def _digest(files: Iterable[Path]) -> str:
    """Names, sizes and times of change: to read all that is in the files would take long each time."""
    stats = [(path.name, path.stat()) for path in files]
    facts = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
    return blake2b(repr(facts).encode(), digest_size=8).hexdigest()
