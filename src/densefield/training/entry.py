"""Training from settings, and training of Python objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from densefield.crf.crf_tables import crf_to_tables
from densefield.crf.kernels import Custom
from densefield.datasets.adapter import as_dataset, first_image
from densefield.errors import InputError, InputTypeError
from densefield.networks.weights import load_weights
from densefield.nn.crf_objects import CRFLike, as_dense_crf
from densefield.nn.dense_crf import DenseCRF
from densefield.nn.segmenter import Segmenter
from densefield.runs.build import adapt, set_iterations
from densefield.runs.checkpoint import Validation, read_checkpoint
from densefield.runs.config import HELD_OUT, NETWORK_OPTIONS, Config
from densefield.runs.crf_config import EMBEDDING
from densefield.runs.devices import AUTO
from densefield.runs.distributed import gather
from densefield.runs.objects import Objects, type_name
from densefield.runs.references import OBJECT, is_reference, reference_to
from densefield.training.first_scores import count_scores
from densefield.training.loop import run_training
from densefield.training.options import TrainOptions, config_of, to_tables

if TYPE_CHECKING:
    from typing_extensions import Unpack

NetworkLike = nn.Module | Callable[..., nn.Module] | str


@dataclass(frozen=True)
class TrainedRun:
    """A finished run. It can be passed wherever the folder of a run is expected.

    Parameters
    ----------
    folder
        The folder of the run.
    best
        Mean IoU and NLL of the best checkpoint on the validation images.
    segmenter
        Network and CRF with the weights of the best checkpoint, in evaluation mode.
    """

    folder: Path
    best: Validation
    segmenter: Segmenter

    def __fspath__(self) -> str:
        return fspath(self.folder)

    def __repr__(self) -> str:
        parts = "network and CRF" if self.segmenter.crf is not None else "network"
        return (
            f"<run {self.folder}: {parts}, best validation IoU {100 * self.best.iou:.2f}, NLL {self.best.nll:.4f}; "
            "weights of the best checkpoint>"
        )


def train_config(config: Config, run: str | PathLike[str], *, resume: bool = False, device: str = AUTO) -> Validation:
    """Trains as the settings say; returns the metrics of the best checkpoint on the validation images (paper, Eq. 2).

    Stage 1 trains the network alone, q = softmax(f) (paper, Fig. 1); stage 2 trains the network and the CRF together,
    from the weights of stage 1 (Fig. 3), or the CRF alone if ``network.frozen``. All maximise the log-likelihood of the
    true labels under the marginals.

    SIGTERM ends the run after the current step or validation: it writes a checkpoint and raises Terminated. If another
    process of the run does not answer for ``$DENSEFIELD_TIMEOUT`` seconds, LostProcess is raised.

    Parameters
    ----------
    config
        The settings, such as those of `read_config`.
    run
        The folder of the run.
    resume
        Resume from the run's last checkpoint, if it has one. The run ends with the same parameters as without
        interruption.
    device
        "auto" for a CUDA GPU if there is one, else the CPU; or "cpu", "cuda", "cuda:1" or "mps". Under torchrun "auto"
        and "cuda" are the GPU with the number of the process.
    """
    return run_training(config, Path(run), resume=resume, device=device)[1]


def train(
    network: NetworkLike,
    crf: CRFLike | None = None,
    *,
    train: Any = None,
    val: Any = None,
    run: str | PathLike[str],
    num_classes: int | None = None,
    start_from: str | PathLike[str] | None = None,
    resume: bool = False,
    data: Callable[..., Any] | str | None = None,
    device: str = AUTO,
    **options: Unpack[TrainOptions],
) -> TrainedRun:
    """Trains any network alone, or together with a CRF, as `densefield train` does with its own networks.

    Network and CRF are trained in place, and end with the weights of the best checkpoint. The folder `run` is that of
    any run: `densefield report` and, if the network is named by a function, `eval`, `tune` and `predict` use it as it
    is. Errors and signals are those of `train_config`.

    Parameters
    ----------
    network
        A torch module with scores (B, L, h, w) of any resolution for images (B, 3, H, W), normalised: as a tensor, as
        "out" in a dict (torchvision), or as ``.logits`` (transformers); or a pair of scores and features, which a
        ``Custom("embedding", …)`` kernel compares. Or a function that returns one, called with
        ``network_options``, or its name, ``"package.module:function"``; then the files of the run name it too. Or the
        name of a network of densefield.
    crf
        A `DenseCRF`, a `CRF`, or kernels: trained with the network (stage 2). None trains the network alone (stage 1).
    train, val
        The images for training and validation with their labels: a torch ``Dataset``, a list, or a dataset of
        densefield. See `as_dataset` for the forms of samples. Without `val`, ``held_out`` is the number of images of
        `train` that are used for it. With `data`, the names of the splits, by default "train" and "val".
    run
        The folder of the run.
    num_classes
        The number of classes L; by default that of the CRF, of the names ``train.classes``, or of the network's scores.
    start_from
        A run or a checkpoint with the initial weights, such as the run of stage 1.
    resume
        Resume from the run's last checkpoint, if it has one; on a CPU it ends bit for bit as without interruption.
    data
        In place of datasets, a function, or its name ``"package.module:function"``, that returns the dataset of a
        split: called with the name of the split, `train` or `val`, and ``data_options``.
    device
        That of `train_config`.
    options
        Further options: ``steps``, ``batch``, ``lr``, ``lr_crf``, ``optimizer``, ``seed``, ``frozen``, ``crop``,
        ``augment`` and all others of `densefield.training.options.TrainOptions`. They are the keys of settings, with
        the same defaults.

    Examples
    --------
    >>> import tempfile, densefield, torch
    >>> network = torch.nn.Conv2d(3, 2, 9, padding=4)  # your network
    >>> dark, light = (torch.full((3, 40, 50), colour, dtype=torch.uint8) for colour in (30, 220))
    >>> samples = [(dark, torch.zeros(40, 50).long()), (light, torch.ones(40, 50).long())]  # your dataset
    >>> short = dict(steps=2, batch=2, crop=(32, 32), workers=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     alone = densefield.train(network, train=samples, val=samples, run=f"{folder}/network", **short)
    ...     kernels = [densefield.Spatial(3), densefield.Bilateral(20, 10)]
    ...     joint = densefield.train(
    ...         network, kernels, train=samples, val=samples, run=f"{folder}/joint", start_from=alone, **short
    ...     )
    >>> sorted(joint.segmenter.crf.values())
    ['bilateral.sigma', 'bilateral.weight', 'spatial.sigma', 'spatial.weight']
    """
    if crf is None and options.get("frozen"):
        raise InputError("frozen is True, but there is no CRF, so that nothing would be learnt: pass crf.")
    if not isinstance(run, str | PathLike):
        raise InputTypeError(f"run is {run!r}, expected the name of a folder, such as 'runs/joint'.")
    tables = to_tables(options)
    module, tables["network"] = _network(network, tables.get("network", {}))
    sources = _sources(train, val, data, tables.setdefault("data", {}))
    classes = _num_classes(num_classes, crf, sources, module, tables["network"])
    if classes == 1:
        raise InputError(
            "there is 1 class, expected 2 or more: a network with one score, that of the foreground, needs another one "
            "for the background. Give its last layer 2 outputs."
        )
    tables["network"]["num_classes"] = classes
    module_crf = None if crf is None else as_dense_crf(crf, classes)
    tables["crf"] = _crf_tables(module_crf, tables.get("crf", {}))
    tables["network"]["embedding"] = 0 if module_crf is None else _embedding(module_crf)
    tables.setdefault("training", {})["stage"] = 1 if module_crf is None else 2
    if start_from is not None:
        tables["training"]["start_from"] = fspath(start_from)
    config = config_of(tables, has_lr="lr" in options)
    datasets = {name: as_dataset(each, classes, name=name) for name, each in sources.items()}
    objects = Objects(module, module_crf, datasets.get("train"), datasets.get("val"))
    with _restored(module):
        segmenter, best = run_training(config, Path(run), resume=resume, objects=objects, device=device)
    gather(None)  # until the first process has written all checkpoints
    load_weights(segmenter, read_checkpoint(run)["model"])
    set_iterations(segmenter.crf, config.crf.test_iterations)
    return TrainedRun(Path(run), best, segmenter.eval())


def _network(network: NetworkLike, table: dict[str, Any]) -> tuple[nn.Module | None, dict[str, Any]]:
    """The module, unless settings describe it, and the table of settings."""
    if isinstance(network, nn.Module):
        if table.get("options"):
            raise InputError("network_options are given, but network is a module: they are for a function.")
        return network, {**table, "name": OBJECT, "options": {"class": type_name(network)}}
    if isinstance(network, str):
        if network in NETWORK_OPTIONS or is_reference(network):
            return None, {**table, "name": network}
    elif callable(network):
        name = reference_to(network)
        if name is not None:
            return None, {**table, "name": name}
        module = network(**table.get("options", {}))
        if isinstance(module, nn.Module):
            return module, {**table, "name": OBJECT, "options": {"class": type_name(network)}}
        raise InputTypeError(f"network returned an object of type {type(module).__name__}, expected a torch.nn.Module.")
    raise InputTypeError(
        f"network is {network!r}, expected a torch.nn.Module, a function that returns one, its name "
        f"package.module:function, or one of {', '.join(NETWORK_OPTIONS)}."
    )


def _sources(train: Any, val: Any, data: Callable[..., Any] | str | None, table: dict[str, Any]) -> dict[str, Any]:
    """The datasets that settings do not describe, as they were given; the table is completed."""
    if data is None:
        table["kind"] = OBJECT
        if train is None:
            raise InputError("train is missing: pass the training images, or data=, a function that returns them.")
        if val is not None:
            if table.get("held_out"):
                raise InputError("val and held_out are both given: held_out= uses images of train in place of val=.")
            return {"train": train, "val": val}
        if not table.get("held_out"):
            raise InputError(
                "val is missing: pass the validation images, or held_out=, the number of images of train to use."
            )
        table["val"] = HELD_OUT
        return {"train": train}
    splits = {"train": "train" if train is None else train, "val": "val" if val is None else val}
    if not all(isinstance(split, str) for split in splits.values()):
        raise InputTypeError("data is given, so that train and val are names of splits, expected text.")
    name = data if isinstance(data, str) else reference_to(data)
    if name is not None:
        table |= {"kind": name, **splits}
        return {}
    assert callable(data)
    table["kind"] = OBJECT
    return {name: data(split, **table.pop("options", {})) for name, split in splits.items()}


def _num_classes(
    given: int | None, crf: CRFLike | None, sources: dict[str, Any], module: nn.Module | None, table: dict[str, Any]
) -> int:
    """The number of classes: as given, or that of the CRF, of the names of classes, or of the network's scores."""
    if isinstance(crf, DenseCRF):
        if given not in (None, crf.num_classes):
            raise InputError(f"the CRF has {crf.num_classes} classes, but num_classes is {given}: use equal numbers.")
        return crf.num_classes
    if given is not None:
        return given
    names = getattr(sources.get("train"), "classes", None)
    if isinstance(names, Sequence) and not isinstance(names, str):
        return len(names)
    if module is None or not sources:
        what = "network" if module is None else "data"
        raise InputError(
            f"the number of classes is unknown, since {what} is a function or a name, which is called later: pass "
            "num_classes=, the number of classes that the network scores."
        )
    network = adapt(module, config_of({"network": table}).network)
    return count_scores(Segmenter(network), first_image(sources["train"], "train"))


def _crf_tables(crf: DenseCRF | None, table: dict[str, Any]) -> dict[str, Any]:
    """The table of settings of a CRF; frozen parameters are named in `freeze`."""
    if crf is None:
        if table:
            raise InputError(f"{' and '.join(table)} given without a CRF: pass crf, or leave it out.")
        return {}
    if table.get("freeze"):
        crf.freeze(*table["freeze"])
    frozen = [name for name, parameter in crf.named_parameters() if not parameter.requires_grad]
    return {**crf_to_tables(crf.to_numpy()), **table, "freeze": frozen}


def _embedding(crf: DenseCRF) -> int:
    """The number of channels of the embedding that the CRF compares."""
    custom = [kernel for kernel in crf.to_numpy().kernels if isinstance(kernel, Custom) and kernel.feature == EMBEDDING]
    return max((np.size(kernel.sigma) for kernel in custom), default=0)


@contextmanager
def _restored(module: nn.Module | None) -> Iterator[None]:
    """Whether parameters of the user's network require gradients is afterwards as before."""
    before = {} if module is None else {each: each.requires_grad for each in module.parameters()}
    try:
        yield
    finally:
        for parameter, required in before.items():
            parameter.requires_grad_(required)
