"""Log-linear models: the objective, learning, predictions, and files."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("torch", reason="learning needs torch")

import torch

from densefield.crf.kernels import Bilateral, Spatial
from densefield.datasets.sample import Sample
from densefield.errors import InputError, InputTypeError
from densefield.evaluation.evaluation import evaluate_images
from densefield.nn.dense_crf import DenseCRF
from densefield.tuning import FitOptions, LogLinearModel, PixelFeatures, learn_log_linear
from densefield.tuning.feature_images import FeatureImages, UnaryScores, mean_and_scale
from densefield.tuning.fit_log_linear import L2, feature_images, fit_log_linear, l2_penalty
from densefield.tuning.lbfgs import SCALE, _accumulate, learn

SIZE = 24


class Discs:
    """Discs with their own mean colour; the colour of a pixel is mostly noise, so that a CRF helps."""

    classes = ("ground", "disc")
    entries = ()

    def __init__(self, images: int, noise: float = 60.0, seed: int = 2203, void: bool = False) -> None:
        self.ids = tuple(f"disc_{number}" for number in range(images))
        self._noise, self._seed, self._void = noise, seed, void

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Sample:
        random = np.random.default_rng([self._seed, index])
        rows, columns = np.indices((SIZE, SIZE))
        row, column, radius = random.uniform([7, 7, 4], [17, 17, 8])
        labels = ((rows - row) ** 2 + (columns - column) ** 2 < radius**2).astype(np.uint8)
        mean = np.array([[90.0, 110.0, 120.0], [150.0, 140.0, 120.0]])[labels]
        image = np.clip(mean + random.normal(0, self._noise, (SIZE, SIZE, 3)), 0, 255).astype(np.uint8)
        return Sample(image, np.full_like(labels, 255) if self._void else labels, self.ids[index])


class Doubles(FeatureImages):
    """Features in float64, of a part small enough for the exact sum."""

    def __getitem__(self, index):
        from dataclasses import replace

        found = super().__getitem__(index)
        image, labels = found.image[:, 5:13, 4:13], found.labels[5:13, 4:13].clone()
        labels[0, :3] = 255
        return replace(found, scores=found.scores[:, 5:13, 4:13].double(), image=image, labels=labels)


@pytest.mark.parametrize("weight", [1.5, np.array([[1.2, -0.3], [-0.3, 0.8]])])
def test_the_gradient_of_the_objective_matches_finite_differences(weight):
    """The loss of all images and the penalty, by all parameters: unary, compatibility, widths and weights."""
    features = PixelFeatures(("colour", "position"))
    source = Doubles(Discs(2), features)
    crf = DenseCRF(2, [Spatial(1.5, weight=weight), Bilateral(4, 60, weight=weight)], method="exact").double()
    mean, scale = mean_and_scale(source)
    model = LogLinearModel(source.classes, features, crf, mean=mean, scale=scale).double()
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for parameter in (model.weight, model.bias):
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 2)
    free, penalty, pixels = dict(model.named_parameters()), l2_penalty(0.3), 138
    assert pixels == sum(int((source[index].labels != 255).sum()) for index in range(2))

    def objective() -> float:
        detached = {name: value.detach().clone() for name, value in free.items()}
        leaves = {name: value.requires_grad_() for name, value in detached.items()}
        return _accumulate(model, source, leaves, pixels) + float(penalty(leaves).detach())

    _accumulate(model, source, {name: value.clone() for name, value in free.items()}, pixels)
    (SCALE * penalty(free)).backward()
    step, checked = 1e-5, 0
    for parameter in free.values():
        for place in range(parameter.numel()):
            values = []
            for sign in (1, -2):
                with torch.no_grad():
                    parameter.view(-1)[place] += sign * step
                values.append(objective())
            with torch.no_grad():
                parameter.view(-1)[place] += step
            slope = SCALE * (values[0] - values[1]) / (2 * step)
            # The error of central differences is step² plus rounding divided by the step.
            assert float(parameter.grad.view(-1)[place]) == pytest.approx(slope, rel=1e-5, abs=1e-6)
            checked += 1
    assert checked == 2 * 14 + 2 + 2 + 5 + 2 * np.size(weight)


def test_learning_lowers_the_objective_and_never_ends_above_the_start():
    source = FeatureImages(Discs(4), PixelFeatures(("colour",)))
    mean, scale = mean_and_scale(source)
    model = LogLinearModel(source.classes, PixelFeatures(("colour",)), DenseCRF(2), mean=mean, scale=scale)
    losses = []
    lowest = learn(model, source, evaluations=12, penalty=l2_penalty(0.01), watch=lambda each: losses.append(each.loss))
    assert lowest == min(losses) < losses[0] - 0.1
    nll = evaluate_images(UnaryScores(model, source), model.crf).negative_log_likelihood
    penalty = 0.005 * float(model.weight.detach().square().sum())
    assert nll + penalty == pytest.approx(lowest, rel=1e-5)  # sums in float32


def test_logistic_regression_finds_the_weights_that_drew_the_labels():
    """Labels drawn by a known logistic model: its weights are found, up to the error of sampling."""
    random = np.random.default_rng(7013)
    truth = np.array([1.5, -1.0, 0.5])

    class Drawn(Discs):
        def __getitem__(self, index):
            image = random_images[index]
            margin = (image.astype(np.float64) / 255 - 0.5) @ truth * 4 + 0.3
            return Sample(image, (draws[index] < 1 / (1 + np.exp(-margin))).astype(np.uint8), self.ids[index])

    random_images = random.integers(0, 256, (6, 60, 60, 3), np.uint8)
    draws = random.uniform(size=(6, 60, 60))
    fit = fit_log_linear(feature_images(Drawn(6), FitOptions(("colour",))), FitOptions(("colour",), l2=0.0))
    model = fit.logistic
    slope = ((model.weight[1] - model.weight[0]) / model.scale).detach().numpy()
    # 21,600 pixels: the standard error of a coefficient is about 1 / sqrt(21600 · ¼ · 1/12) = 0.05 without the squares,
    # which are nearly uncorrelated with the colours.
    assert slope[:3] == pytest.approx(4 * truth, abs=0.25)
    assert np.abs(slope[3:]).max() < 1.0


def test_the_joint_model_recovers_the_discs_better_than_its_parts():
    """Noisy colours: neighbours decide, and learning finds it."""
    options = FitOptions(("colour",), l2=1e-3, evaluations=25, compatibility="potts")
    learning, other = (feature_images(Discs(8, seed=seed), options) for seed in (2203, 9001))
    fit = fit_log_linear(learning, options)
    alone = evaluate_images(UnaryScores(fit.logistic, other), None)
    joint = evaluate_images(UnaryScores(fit.joint, other), fit.joint.crf)
    assert joint.mean_iou > alone.mean_iou + 0.1
    assert joint.negative_log_likelihood < alone.negative_log_likelihood - 0.05


def test_l2_is_chosen_by_the_loss_on_held_out_images():
    options = FitOptions(("colour",), evaluations=6)
    fit = fit_log_linear(feature_images(Discs(4), options), options)
    for losses, chosen in ((fit.logistic_losses, fit.logistic_l2), (fit.joint_losses, fit.joint_l2)):
        assert set(losses) == set(L2) and losses[chosen] == min(losses.values()) < max(losses.values())
    assert fit.logistic_losses != fit.joint_losses
    given = fit_log_linear(feature_images(Discs(2), options), FitOptions(("colour",), l2=10.0, evaluations=6))
    assert given.logistic_l2 == given.joint_l2 == 10.0 and not given.logistic_losses and not given.joint_losses
    assert float(given.logistic.weight.detach().abs().max()) < 0.05  # the penalty is strong


def test_arrays_of_the_user_are_features():
    discs = Discs(4)
    options = FitOptions((), l2=1e-3, evaluations=10)

    def hint(id):  # the truth at half the size
        labels = discs[discs.ids.index(id)].labels
        return labels[None, ::2, ::2].astype(np.float64) - 0.5

    model = learn_log_linear(discs, options, arrays=hint)
    found = model.predict(discs[0].image, hint("disc_0"))
    assert (found == discs[0].labels).mean() > 0.95
    with pytest.raises(InputError, match="the model uses 1 channels of arrays, but there is none"):
        model.predict(discs[0].image)
    with pytest.raises(InputError, match=r"the array has shape \(2, 3, 3\), expected \(1, rows, columns\)"):
        model.predict(discs[0].image, np.zeros((2, 3, 3)))


def test_marginals_have_the_size_of_the_image_also_if_it_is_shrunk():
    model = learn_log_linear(Discs(2), FitOptions(l2=0.01, evaluations=2, longest_side=16))
    q = model.marginals(Discs(2)[1].image)
    assert q.shape == (2, SIZE, SIZE) and np.allclose(q.sum(0), 1, atol=1e-5)
    assert (model.predict(Discs(2)[1].image) == q.argmax(0)).all()


@pytest.mark.parametrize("compatibility", ["potts", "per_label", "matrix"])
def test_a_saved_model_is_loaded_unchanged(tmp_path, compatibility):
    options = FitOptions(("colour", "texture"), l2=0.01, evaluations=4, compatibility=compatibility)
    model = learn_log_linear(Discs(2), options)
    model.save(tmp_path / "model")
    again = LogLinearModel.load(tmp_path / "model")
    assert again.classes == model.classes and again.features == model.features
    image = Discs(3)[2].image
    # Widths are stored in their own units and learnt as logarithms.
    np.testing.assert_allclose(again.marginals(image), model.marginals(image), rtol=1e-5, atol=1e-6)
    alone = LogLinearModel(model.classes, model.features)
    alone.save(tmp_path / "alone")
    assert LogLinearModel.load(tmp_path / "alone").crf is None


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"weight": None}, "weight"),
        ({"weight": [[0.0]]}, r"weight has shape \(1, 1\)"),
        ({"scale": [0.0] * 9}, "scale has numbers that are not above 0"),
        ({"features": ["smell"]}, "features= has unknown 'smell'"),
        ({"classes": ["one"]}, "expected two names"),
        ({"bias": [float("nan")] * 2}, "expected finite numbers"),
        ({"longest_side": -1}, "longest_side is -1"),
    ],
)
def test_damaged_files_are_rejected(tmp_path, change, says):
    LogLinearModel(("a", "b"), PixelFeatures(("colour",))).save(tmp_path)
    content = json.loads((tmp_path / "unary.json").read_text(encoding="utf-8"))
    (tmp_path / "unary.json").write_text(json.dumps({**content, **change}), encoding="utf-8")
    with pytest.raises(InputError, match=says):
        LogLinearModel.load(tmp_path)
    for key in content:
        (tmp_path / "unary.json").write_text(
            json.dumps({name: value for name, value in content.items() if name != key}), encoding="utf-8"
        )
        with pytest.raises(InputError, match=f"'{key}' is missing"):
            LogLinearModel.load(tmp_path)


def test_a_folder_without_a_model_is_rejected(tmp_path):
    with pytest.raises(InputError, match=r"there is no .*unary\.json, expected the folder of a log-linear model"):
        LogLinearModel.load(tmp_path)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"l2": -1.0}, "l2 is -1.0"),
        ({"l2": float("nan")}, "l2 is nan"),
        ({"compatibility": "any"}, "compatibility is 'any'"),
        ({"evaluations": 0}, "evaluations is 0"),
    ],
)
def test_wrong_options_are_rejected(options, says):
    with pytest.raises(InputError, match=says):
        FitOptions(**options)


def test_wrong_data_are_rejected():
    with pytest.raises(InputError, match="there are no images"):
        learn_log_linear(Discs(0))
    with pytest.raises(InputError, match="there are 3 images, expected 4 or more to choose l2"):
        learn_log_linear(Discs(3), FitOptions(("colour",)))
    with pytest.raises(InputError, match="nothing to learn from"):
        learn_log_linear(Discs(2, void=True), FitOptions(("colour",), l2=1.0))
    with pytest.raises(InputError, match=r"array of disc_0 has shape \(3,\)"):
        learn_log_linear(Discs(2), FitOptions(l2=1.0), arrays=lambda id: np.zeros(3))
    with pytest.raises(InputError, match="there are no features"):
        learn_log_linear(Discs(2), FitOptions((), l2=1.0))
    model = LogLinearModel(("a", "b"), PixelFeatures(("colour",)))
    for image in (np.zeros((4, 5, 3)), np.zeros((4, 5), np.uint8), "photo.jpg"):
        with pytest.raises(InputTypeError, match=r"expected an array of uint8 \(rows, columns, 3\)"):
            model.marginals(image)
    with pytest.raises(InputError, match="2 classes, but the CRF has 3"):
        LogLinearModel(("a", "b"), PixelFeatures(), DenseCRF(3))
