"""The device of a network: names, what is there, and the number of the process."""

from __future__ import annotations

import pytest

from densefield.errors import InputError

torch = pytest.importorskip("torch", reason="devices are torch's")
from densefield.nn.segmenter import Segmenter  # noqa: E402
from densefield.runs.devices import check_device_name, choose_device, network_on  # noqa: E402
from tests.support.pretend_device import DEVICE, PretendDevice, PretendTensor  # noqa: E402


@pytest.fixture
def _two_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.fixture
def _no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.xpu, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


@pytest.mark.usefixtures("_no_gpu")
def test_without_a_gpu_the_cpu_is_chosen():
    assert choose_device() == choose_device("cpu") == torch.device("cpu")


@pytest.mark.usefixtures("_two_gpus")
@pytest.mark.parametrize(("name", "expected"), [("auto", "cuda:0"), ("cuda", "cuda:0"), ("cuda:1", "cuda:1")])
def test_a_gpu_is_chosen_if_there_is_one(name, expected):
    assert choose_device(name) == torch.device(expected)
    assert choose_device("cpu") == torch.device("cpu")


@pytest.mark.usefixtures("_two_gpus")
def test_each_process_of_torchrun_has_its_own_gpu(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert choose_device() == choose_device("cuda") == torch.device("cuda:1")
    assert choose_device("cuda:0") == torch.device("cuda:0")
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(InputError, match=r"device is cuda:2, but torch .* finds cpu, cuda:0, cuda:1"):
        choose_device()


@pytest.mark.usefixtures("_no_gpu")
@pytest.mark.parametrize("name", ["cuda", "cuda:1", "xpu", "mps"])
def test_a_device_that_is_not_there_is_an_error_that_lists_the_others(name):
    with pytest.raises(InputError, match=rf"device is {name}.*, but torch .* finds cpu: pass one of these as device="):
        choose_device(name)


@pytest.mark.parametrize("name", ["gpu", "", "cuda:", "cuda:-1", "meta", "cpu:0", None])
def test_unknown_names_are_errors(name):
    with pytest.raises(InputError, match="expected auto, cpu, cuda, cuda:N, xpu, xpu:N or mps"):
        check_device_name(name)


def test_the_network_computes_on_the_device_between_images_and_scores_on_the_cpu():
    seen = []

    class Network(torch.nn.Conv2d):
        def forward(self, image):
            seen.append(type(image))
            return super().forward(image)

    segmenter, image = Segmenter(Network(3, 2, 1)), torch.arange(48, dtype=torch.uint8).reshape(1, 3, 4, 4)
    expected = segmenter.scores(image).detach()
    with PretendDevice(), torch.no_grad():
        scores, _ = network_on(segmenter, DEVICE)(image)
    assert seen == [torch.Tensor, PretendTensor]
    assert all(isinstance(each.data, PretendTensor) for each in segmenter.network.parameters())
    assert scores.device.type == "cpu" and torch.equal(scores, expected)
