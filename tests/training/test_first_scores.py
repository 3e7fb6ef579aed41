"""The user's network on one image: what its scores look like, and whether it can be trained."""

from __future__ import annotations

import warnings

import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning_fabric", reason="training needs it")
pytest.importorskip("pydantic", reason="training needs it")
pytest.importorskip("tensorboard", reason="training needs it")

import torch

import densefield
from densefield.datasets.adapter import as_dataset
from densefield.errors import InputError, InputTypeError
from densefield.networks.adapter import as_network
from densefield.nn.segmenter import Segmenter
from densefield.runs.config import NetworkConfig
from densefield.training.first_scores import check_scores
from tests.training.test_own_network import ONE_STEP


@pytest.mark.parametrize("stride", [1, 4])
@pytest.mark.parametrize("known", [{}, {"num_classes": 3}], ids=["from the scores", "given"])
def test_a_network_that_ends_in_softmax_is_warned_of(tmp_path, stride, known):
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 3, 5, stride, 2), torch.nn.Softmax(1))
    with pytest.warns(densefield.InputWarning, match=r"image val_000000 .* sum to 1 .*remove the softmax") as caught:
        densefield.train(network, **ONE_STEP, **known, run=tmp_path / "run")
    assert len(caught) == 1 and caught[0].filename == __file__


def test_a_number_of_classes_that_was_not_set_is_missing():
    segmenter = Segmenter(as_network(torch.nn.Conv2d(3, 4, 1)))
    sample = as_dataset([(torch.zeros(3, 5, 6).byte(), torch.zeros(5, 6).long())], 4, name="val")[0]
    with pytest.raises(
        InputError, match=r"scores 4 classes, but num_classes is missing \(default 21\): set network\.num"
    ):
        check_scores(segmenter, sample, NetworkConfig(name="object"))
    with pytest.raises(InputError, match="scores 4 classes, but num_classes is 21: change the network's last layer"):
        check_scores(segmenter, sample, NetworkConfig(name="object", num_classes=21))


class Saturating(torch.nn.Module):
    """A sigmoid by a function, after in-place operations on the input, and before others."""

    def __init__(self):
        super().__init__()
        self.scores = torch.nn.Conv2d(3, 2, 3, 2, 1)

    def forward(self, image):
        return self.scores(image.mul_(0.5)).sigmoid().clamp(0.1, 0.9)[:, :, 1:].double()


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize(
    "network",
    [torch.nn.Sequential(torch.nn.Conv2d(3, 2, 1), torch.nn.Sigmoid()), Saturating()],
    ids=["layer", "function"],
)
def test_a_network_that_ends_in_a_sigmoid_is_warned_of(tmp_path, network, frozen):
    crf = [densefield.Spatial(2)] if frozen else None
    with pytest.warns(densefield.InputWarning, match=r"image val_000000 .* ends in a sigmoid.*: remove the") as caught:
        densefield.train(network, crf, **ONE_STEP, run=tmp_path / "run", frozen=frozen)
    assert len(caught) == 1 and caught[0].filename == __file__


def test_other_scores_are_not_warned_of(tmp_path):
    """Also scores that lie between 0 and 1 by chance."""
    torch.manual_seed(2207)
    small = torch.nn.Conv2d(3, 3, 1)
    torch.nn.init.constant_(small.weight, 0.001)
    torch.nn.init.constant_(small.bias, 0.5)
    gated = torch.nn.Sequential(torch.nn.Sigmoid(), small)
    for name, network in {"small": small, "gated": gated, "log": torch.nn.LogSoftmax(1)}.items():
        with warnings.catch_warnings():
            warnings.simplefilter("error", densefield.InputWarning)
            module = torch.nn.Sequential(torch.nn.Conv2d(3, 3, 1), network)
            densefield.train(module, **ONE_STEP, run=tmp_path / name)


def test_an_image_of_one_pixel_is_trained_on_without_a_warning(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pixel = [(torch.zeros(3, 1, 1).byte(), torch.zeros(1, 1).long())]
        how = {**ONE_STEP, "train": pixel, "val": pixel}
        assert densefield.train(torch.nn.Conv2d(3, 2, 1), **how, run=tmp_path / "run").best.nll > 0


def test_batch_normalisation_of_one_value_names_the_cure(tmp_path):
    layers = torch.nn.AdaptiveAvgPool2d(1), torch.nn.Conv2d(3, 3, 1), torch.nn.BatchNorm2d(3)
    with pytest.raises(InputError, match=r"fails in training with batch 1 .*1 value per channel.*: raise batch, or"):
        densefield.train(torch.nn.Sequential(*layers), **ONE_STEP, run=tmp_path / "run")


def test_failures_and_labels_in_place_of_scores_are_named(tmp_path):
    class Labels(torch.nn.Conv2d):
        def forward(self, image):
            return super().forward(image).argmax(1)

    class Failing(torch.nn.Conv2d):
        def forward(self, image):
            raise KeyError("boom")

    with pytest.raises(InputTypeError, match=r"the module returned torch\.int64, expected scores .* not labels"):
        densefield.train(Labels(3, 3, 1), **ONE_STEP, run=tmp_path / "run")
    with pytest.raises(InputError, match=r"KeyError: 'boom'\. If this comes from the image's size: .*\(multiple=\)"):
        densefield.train(Failing(3, 3, 1), **ONE_STEP, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()
