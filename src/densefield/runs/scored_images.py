"""Scored images: scores from files or from a network, with the images and true labels beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from densefield.crf.unary import LEAST_PROBABILITY
from densefield.datasets.folder import open_dataset
from densefield.datasets.sample import Dataset, Sample, entries_of
from densefield.datasets.transforms import ShrunkDataset
from densefield.errors import InputError
from densefield.io.folders import list_files
from densefield.io.messages import first_names
from densefield.nn.dense_crf import DenseCRF
from densefield.nn.network_features import outputs_of
from densefield.nn.segmenter import log_marginals
from densefield.runs.devices import AUTO, choose_device, network_on
from densefield.runs.objects import NetworkObject
from densefield.runs.references import names_function
from densefield.runs.score_files import (
    SUFFIXES,
    check_sources,
    find_score_files,
    images_with_scores,
    names_score_files,
    read_first,
    read_scores,
    warn_of_sigmoid,
)

CACHE_BYTES = 2**30  # of scored images


@dataclass(frozen=True)
class ScoredImage:
    """The `scores`, colours (`image`) and true `labels` of the image `id`, and `features` of the network, if any."""

    scores: Tensor  # (L, H, W) float32
    image: Tensor  # (3, H, W) uint8, colours 0…255
    labels: Tensor  # (H, W) int64, 255 is void
    id: str
    features: Mapping[str, Tensor] = field(default_factory=dict)  # (d, H, W) each: those of the network, by name

    def log_marginals(self, crf: DenseCRF | None) -> Tensor:
        """Log marginals (L, H, W) of the `crf`; without one, the log-softmax of the scores."""
        with torch.inference_mode():
            try:
                features = {name: each[None] for name, each in self.features.items()}
                return log_marginals(self.scores[None], self.image[None], crf, features=features)[0]
            except InputError as error:
                raise Uncomputable(f"{self.id}: {error}") from error


class Uncomputable(InputError):
    """A CRF cannot be computed on an image, such as one whose widths are far too narrow."""


class ScoreSource(Protocol):
    """Scored images by index, with the ids of the images and the names of the classes."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the images."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> ScoredImage: ...


class OpenedScores(NamedTuple):
    """The scores of a split, opened by `open_scores`.

    Parameters
    ----------
    source
        The scored images.
    crf
        The CRF of the run if it has one.
    about
        A description, with digests of weights, of score files, and of files of images and masks, since files may be
        replaced by others of the same names.
    notes
        A line for each kind of skipped file.
    """

    source: ScoreSource
    crf: DenseCRF | None
    about: dict[str, str]
    notes: tuple[str, ...] = ()


def open_scores(
    scores: Path,
    data: Path | None = None,
    split: str | None = None,
    *,
    probabilities: bool = False,
    device: str = AUTO,
    network: NetworkObject | None = None,
) -> OpenedScores:
    """Scored images of a run, a checkpoint, or a folder of score files.

    Parameters
    ----------
    scores
        The run, the checkpoint, or the folder with scores as ID.npz or ID.npy.
    data
        The folder of the dataset, or a function that returns the dataset of a split, package.module:function; by
        default that of the run's settings.
    split
        The split; by default that of the run's settings, or "val", or all images of a folder without split lists.
    probabilities
        The files hold probabilities rather than logits.
    device
        The device of the network, as in `choose_device`; files of scores need none. Scored images are on the CPU.
    network
        The network of a run that was trained on a Python object, as in `load_segmenter`.
    """
    check_sources(scores, data, split, probabilities)
    place = choose_device(device)
    about = {"scores": str(scores.resolve())}
    if data is not None:
        about["data"] = str(data) if names_function(data) else str(data.resolve())
    if names_score_files(scores, probabilities):
        assert data is not None
        if network is not None:
            raise InputError(f"network is given, but {scores} holds scores: leave it out.")
        num_classes = None
        if names_function(data):
            num_classes = len(read_first(list(find_score_files(scores).values()), None, probabilities)[1].values)
        dataset = _dataset(data, split, num_classes)
        saved = SavedScores(scores, dataset, probabilities=probabilities)
        about |= {"split": _split_name(dataset), "logits": _digest(saved.files)}
        notes = (*getattr(dataset, "notes", ()), *saved.notes)
        return OpenedScores(saved, None, about | _about_images(dataset, saved.ids), notes)
    # Imported here, since score files do not need pydantic.
    from densefield.runs.checkpoint import load_segmenter
    from densefield.runs.splits import default_split, open_split

    segmenter, config = load_segmenter(scores, network)
    longest = config.data.longest_side
    notes = ()
    if data is None:
        about["split"] = split or default_split(config.data)
        dataset = open_split(config, about["split"])
    else:
        dataset = _dataset(data, split, config.network.num_classes)
        about["split"], notes = _split_name(dataset), getattr(dataset, "notes", ())
        dataset = ShrunkDataset(dataset, longest) if longest else dataset
    if len(dataset.classes) != config.network.num_classes:
        raise InputError(
            f"the network of {scores} scores {config.network.num_classes} classes, but the dataset has "
            f"{len(dataset.classes)}: name the data that it was trained for."
        )
    about |= _about_images(dataset, dataset.ids)
    if config.data.network_size is not None:
        about["network size"] = str(config.data.network_size)
    values = segmenter.state_dict().values()
    about["weights"] = blake2b(b"".join(value.numpy().tobytes() for value in values), digest_size=8).hexdigest()
    return OpenedScores(NetworkScores(network_on(segmenter, place), dataset), segmenter.crf, about, notes)


def _dataset(data: Path, split: str | None, num_classes: int | None) -> Dataset:
    """A split of the dataset in a folder, or of what a function returns."""
    if not names_function(data):
        return open_dataset(data, split)
    from densefield.runs.splits import named_dataset

    return named_dataset(str(data), "DATA", split or "val", num_classes)


def identity(about: Mapping[str, str]) -> dict[str, str]:
    """The part of a description that results depend on: without the path of the scores if their weights are known.

    >>> identity({"scores": "runs/joint", "split": "val", "weights": "88fa"})
    {'split': 'val', 'weights': '88fa'}
    """
    return {key: value for key, value in about.items() if key != "scores" or "weights" not in about}


class SavedScores:
    """Scores in files `FOLDER/ID.npz` or `ID.npy`, (L, h, w) of any size, resized to the images of those ids.

    Parameters
    ----------
    folder
        The files. An `.npz` holds one array, or several of which one is named `logits` or `probabilities`.
    dataset
        The images and true labels. Those with a file are used, in the order of the dataset. `notes` has a line for
        images without a file and for each file that was skipped.
    probabilities
        The files hold probabilities; an array of this name does in any case. They are resized, and log(max(p, 1e-5))
        are the scores.

    Examples
    --------
    >>> import tempfile
    >>> from densefield.scenes.scene import SceneDataset
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder, "scene_000001.npz"), logits=np.zeros((3, 12, 12), np.float16))
    ...     source = SavedScores(Path(folder), SceneDataset(4, size=(96, 96), object_classes=2))
    ...     source.ids, source[0].scores.shape, source[0].labels.shape
    (('scene_000001',), torch.Size([3, 96, 96]), torch.Size([96, 96]))
    """

    def __init__(self, folder: Path, dataset: Dataset, *, probabilities: bool = False) -> None:
        files = find_score_files(folder)
        self.classes = dataset.classes
        self.ids = tuple(images_with_scores(folder, files, dataset.ids))
        self.files = tuple(files[id] for id in self.ids)
        self.notes = _skipped(folder, files, dataset.ids)
        self._dataset, self._probabilities = dataset, probabilities
        places = {id: number for number, id in enumerate(dataset.ids)}
        self._numbers = [places[id] for id in self.ids]
        warn_of_sigmoid(*read_first(self.files, len(self.classes), probabilities))

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: int) -> ScoredImage:
        sample = self._dataset[self._numbers[index]]
        values, are_probabilities = read_scores(self.files[index], len(self.classes), self._probabilities)
        size = sample.image.shape[:2]
        scores = interpolate(torch.from_numpy(values)[None], size, mode="bilinear", align_corners=False)[0]
        return _scored(sample, scores.clamp(min=LEAST_PROBABILITY).log() if are_probabilities else scores)


def _skipped(folder: Path, files: Mapping[str, Path], ids: Sequence[str]) -> tuple[str, ...]:
    """A line for images without a file, and for files without an image."""
    known = set(ids)
    without = [id for id in ids if id not in files]
    others = [path.name for id, path in files.items() if id not in known]
    lines = []
    if without:
        lines.append(f"{len(without)} of {len(ids)} images have no scores in {folder}: {first_names(without)}.")
    if others:
        lines.append(f"{len(others)} files of {folder} have the name of no image: {first_names(others)}.")
    return (*lines, *list_files(folder, set(SUFFIXES)).skipped_lines("a file of scores (.npz, .npy)"))


class NetworkScores:
    """The scores of a network for the images of a dataset.

    Parameters
    ----------
    network
        Colours 0…255, uint8 (1, 3, H, W) → scores (1, L, H, W), such as `Segmenter.scores`; or scores and features by
        name, such as `Segmenter.outputs`.
    dataset
        The images and true labels.
    """

    def __init__(self, network: Callable[[Tensor], Any], dataset: Dataset) -> None:
        self._network, self._dataset = network, dataset
        self.classes, self.ids = dataset.classes, dataset.ids

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> ScoredImage:
        sample = self._dataset[index]
        image = torch.from_numpy(np.ascontiguousarray(sample.image.transpose(2, 0, 1)))
        with torch.inference_mode():
            found, features = outputs_of(self._network(image[None]))
            scores = found[0].float()
        if len(scores) != len(self.classes):
            raise InputError(f"the network scores {len(scores)} classes, but the dataset has {len(self.classes)}.")
        of_image = {name: each[0].float().clone() for name, each in (features or {}).items()}
        return replace(_scored(sample, scores.clone()), features=of_image)


class Shrunk:
    """A source at 1/factor of its size: scores and colours are averaged, labels are those of the centre pixel."""

    def __init__(self, source: ScoreSource, factor: int) -> None:
        if factor < 1:
            raise InputError(f"the factor is {factor}, expected 1 or more.")
        self._source, self._factor = source, factor
        self.classes, self.ids = source.classes, source.ids

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> ScoredImage:
        scored = self._source[index]
        factor = min(self._factor, *scored.labels.shape)
        if factor == 1:
            return scored
        size = [side // factor for side in scored.labels.shape]
        area: dict[str, Any] = {"size": size, "mode": "area"}
        image = interpolate(scored.image[None].float(), **area)[0].round().to(torch.uint8)
        labels = interpolate(scored.labels[None, None].float(), size, mode="nearest-exact")[0, 0].long()
        features = {name: interpolate(each[None], **area)[0] for name, each in scored.features.items()}
        scores = interpolate(scored.scores[None], **area)[0]
        return replace(scored, scores=scores, image=image, labels=labels, features=features)


class Cached:
    """A source whose images are cached in memory after their first use, up to a number of bytes."""

    def __init__(self, source: ScoreSource, max_bytes: int = CACHE_BYTES) -> None:
        self._source, self._room = source, max_bytes
        self._cache: dict[int, ScoredImage] = {}
        self.classes, self.ids = source.classes, source.ids

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> ScoredImage:
        if index in self._cache:
            return self._cache[index]
        scored = self._source[index]
        tensors = (scored.scores, scored.image, scored.labels, *scored.features.values())
        size = sum(each.nbytes for each in tensors)
        if size <= self._room:
            self._room -= size
            self._cache[index] = scored
        return scored


def _scored(sample: Sample, scores: Tensor) -> ScoredImage:
    if sample.labels is None:
        raise InputError(f"the image {sample.id} has no true labels: use a split that has them, such as val.")
    image = torch.from_numpy(np.ascontiguousarray(sample.image.transpose(2, 0, 1)))
    return ScoredImage(scores, image, torch.from_numpy(sample.labels.astype(np.int64)), sample.id)


def _split_name(dataset: Dataset) -> str:
    return getattr(dataset, "split", None) or "all"


def _about_images(dataset: Dataset, ids: Iterable[str]) -> dict[str, str]:
    """A digest of the files of those images and of their masks; empty for datasets without files."""
    used = set(ids)
    pairs = [(entry.image, entry.mask) for entry in entries_of(dataset) if entry.id in used]
    if not pairs:
        return {}
    return {"images and masks": _digest(path for pair in pairs for path in pair if path is not None)}


def _digest(files: Iterable[Path]) -> str:
    """A digest of names, sizes and modification times: reading all files would take too long."""
    stats = [(path.name, path.stat()) for path in files]
    facts = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
    return blake2b(repr(facts).encode(), digest_size=8).hexdigest()
