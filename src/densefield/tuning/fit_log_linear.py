"""Log-linear models learnt by L-BFGS: logistic regression, compatibilities and kernels together (KK13)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from torch import Tensor

from densefield.crf.kernels import Bilateral, Kernel, Spatial
from densefield.datasets.sample import Dataset, Subset
from densefield.datasets.transforms import ShrunkDataset
from densefield.errors import InputError
from densefield.evaluation.evaluation import evaluate_images
from densefield.io.progress import StageProgress
from densefield.nn.dense_crf import DenseCRF
from densefield.runs.scored_images import Cached, ScoreSource
from densefield.tuning.feature_images import Arrays, FeatureImages, UnaryScores, mean_and_scale
from densefield.tuning.lbfgs import Evaluation, learn
from densefield.tuning.log_linear import LogLinearModel
from densefield.tuning.pixel_features import KINDS, FeatureKind, PixelFeatures

Compatibility = Literal["potts", "per_label", "matrix"]

L2 = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # of which the best on held-out images is chosen
_HELD_OUT = 4  # one of this many learning images is held out to choose it
_PHOTO = 500.0  # the longest side in pixels that the widths of a hand-set CRF are for
_START_WEIGHT = 1.0  # of both kernels when learning starts


@dataclass(frozen=True)
class FitOptions:
    """Options of `learn_log_linear`.

    Parameters
    ----------
    features
        Features of pixels: some of "colour", "texture" and "position", as in `PixelFeatures`.
    l2
        λ of the penalty ½ λ ‖W‖² that is added to the mean loss of a pixel; None chooses it on held-out images, for
        logistic regression and for the joint model each.
    compatibility
        What is learnt of each kernel: one weight ("potts"), one for each class, or a symmetric matrix of the classes.
    evaluations
        Maximum number of evaluations of the loss, for logistic regression and for the joint model each.
    iterations
        Number of mean-field iterations.
    longest_side
        Larger images are shrunk to this; 0 is no limit.
    """

    features: Sequence[FeatureKind] = KINDS
    l2: float | None = None
    compatibility: Compatibility = "matrix"
    evaluations: int = 30
    iterations: int = 5
    longest_side: int = 0

    def __post_init__(self) -> None:
        """Checks what nothing else checks in time."""
        if self.features:
            PixelFeatures(self.features)
        if self.l2 is not None and not 0 <= self.l2 < float("inf"):
            raise InputError(f"l2 is {self.l2!r}, expected a number that is not negative, or None to choose it.")
        if self.compatibility not in ("potts", "per_label", "matrix"):
            raise InputError(f"compatibility is {self.compatibility!r}, expected potts, per_label or matrix.")
        if self.evaluations < 1:
            raise InputError(f"evaluations is {self.evaluations}, expected 1 or more.")


@dataclass(frozen=True)
class LogLinearFit:
    """The models of a fit, and λ of each.

    Parameters
    ----------
    logistic
        Logistic regression alone.
    joint
        Logistic regression and CRF, learnt together.
    logistic_l2, joint_l2
        λ, given or chosen.
    logistic_losses, joint_losses
        The mean of -log q on held-out images for each λ that was tried; empty if λ was given.
    """

    logistic: LogLinearModel
    joint: LogLinearModel
    logistic_l2: float
    joint_l2: float
    logistic_losses: Mapping[float, float]
    joint_losses: Mapping[float, float]


def learn_log_linear(
    dataset: Dataset,
    options: FitOptions | None = None,
    *,
    arrays: Arrays | None = None,
    progress: StageProgress | None = None,
) -> LogLinearModel:
    """Learns scores W·φ + b, label compatibilities, and widths and weights of the kernels together (KK13).

    The loss is the mean of -log q_i(y_i) over all pixels of all images, plus ½ λ ‖W‖². L-BFGS starts from logistic
    regression and the usual kernels.

    Parameters
    ----------
    dataset
        Images with true labels.
    options
        The options; by default those of FitOptions.
    arrays
        The user's own features by the id of an image: a function that returns (C, h, w) of any size.
    progress
        Called with the name of the stage, the number of evaluations of the loss, and their maximum.

    Examples
    --------
    >>> from densefield.scenes import SceneDataset
    >>> scenes = SceneDataset(3, size=(96, 96), object_classes=2)
    >>> model = learn_log_linear(scenes, FitOptions(l2=0.01, evaluations=3, longest_side=48))
    >>> model.predict(scenes[0].image).shape
    (96, 96)
    """
    options = options or FitOptions()
    return fit_log_linear(Cached(feature_images(dataset, options, arrays)), options, progress).joint


def feature_images(dataset: Dataset, options: FitOptions, arrays: Arrays | None = None) -> ScoreSource:
    """The features of a dataset at the size of the options."""
    if not len(dataset):
        raise InputError("there are no images to learn from, expected one or more.")
    channels = 0
    if arrays is not None:
        first = np.asarray(arrays(dataset.ids[0]))
        if first.ndim != 3:
            raise InputError(
                f"the array of {dataset.ids[0]} has shape {first.shape}, expected (channels, rows, columns)."
            )
        channels = len(first)
    features = PixelFeatures(options.features, channels)
    images = ShrunkDataset(dataset, options.longest_side) if options.longest_side else dataset
    return FeatureImages(images, features, arrays)


def fit_log_linear(source: ScoreSource, options: FitOptions, progress: StageProgress | None = None) -> LogLinearFit:
    """The models of a source of `feature_images`: logistic regression, and the joint model that starts from it."""
    progress = progress or (lambda stage, done, total: None)
    held_out = range(_HELD_OUT - 1, len(source), _HELD_OUT)
    if options.l2 is None and not len(held_out):
        raise InputError(
            f"there are {len(source)} images, expected {_HELD_OUT} or more to choose l2, or a value of l2."
        )
    mean, scale = mean_and_scale(source)
    channels = len(mean) - sum(PixelFeatures([kind]).count for kind in options.features)
    features = PixelFeatures(options.features, channels)

    def new_model(crf: DenseCRF | None = None) -> LogLinearModel:
        longest = options.longest_side
        return LogLinearModel(source.classes, features, crf, mean=mean, scale=scale, longest_side=longest)

    def regress(images: ScoreSource, l2: float, stage: str) -> LogLinearModel:
        model = new_model()
        _learn(model, images, l2, options.evaluations, f"logistic regression{stage}", progress)
        return model

    def join(images: ScoreSource, start: LogLinearModel, l2: float, stage: str) -> LogLinearModel:
        model = new_model(start_crf(source, options, _START_WEIGHT, _START_WEIGHT))
        model.load_state_dict({**model.state_dict(), **start.state_dict()})
        _learn(model, images, l2, options.evaluations, f"logistic regression and CRF together{stage}", progress)
        return model

    if options.l2 is not None:
        logistic = regress(source, options.l2, "")
        return LogLinearFit(logistic, join(source, logistic, options.l2, ""), options.l2, options.l2, {}, {})
    rest, judged = Subset(source, sorted(set(range(len(source))) - set(held_out))), Subset(source, held_out)

    def loss(model: LogLinearModel) -> float:
        return evaluate_images(UnaryScores(model, judged), model.crf).negative_log_likelihood

    alone_losses: dict[float, float] = {}
    joint_losses: dict[float, float] = {}
    for l2 in L2:
        stage = f" on three quarters of the images, l2 {l2:g}"
        alone = regress(rest, l2, stage)
        alone_losses[l2], joint_losses[l2] = loss(alone), loss(join(rest, alone, l2, stage))
    alone_l2, joint_l2 = (min(each, key=each.__getitem__) for each in (alone_losses, joint_losses))
    logistic = regress(source, alone_l2, "")
    joint = join(source, logistic, joint_l2, "")
    return LogLinearFit(logistic, joint, alone_l2, joint_l2, alone_losses, joint_losses)


def start_crf(source: ScoreSource, options: FitOptions, *weights: float) -> DenseCRF:
    """A CRF with the usual widths, for images of this size, and these weights of the two kernels."""
    size = max(source[0].labels.shape) / _PHOTO
    kernels: list[Kernel] = [Spatial(max(3.0 * size, 1.0)), Bilateral(60.0 * size, 10.0)]
    forms = {"potts": np.ones(()), "per_label": np.ones(len(source.classes)), "matrix": np.eye(len(source.classes))}
    form = forms[options.compatibility]
    weighted = [replace(kernel, weight=weight * form) for kernel, weight in zip(kernels, weights, strict=True)]
    return DenseCRF(len(source.classes), weighted, iterations=options.iterations)


def l2_penalty(l2: float) -> Callable[[Mapping[str, Tensor]], Tensor]:
    """½ λ ‖W‖², without the bias and the CRF."""
    return lambda parameters: l2 / 2 * parameters["weight"].square().sum()


def _learn(
    model: LogLinearModel, source: ScoreSource, l2: float, evaluations: int, stage: str, progress: StageProgress
) -> None:
    done = 0

    def watch(_: Evaluation) -> None:
        nonlocal done
        done += 1
        progress(stage, done, evaluations)

    learn(model, source, evaluations=evaluations, penalty=l2_penalty(l2), watch=watch)
