"""The device of training."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
fabric = pytest.importorskip("lightning_fabric", reason="training needs it")
pytest.importorskip("pydantic", reason="training needs it")

from densefield.errors import InputError  # noqa: E402
from densefield.runs.checkpoint import random_states  # noqa: E402
from densefield.runs.config import Config  # noqa: E402
from densefield.runs.distributed import start_fabric  # noqa: E402


class Recorded:
    """Stands in for Fabric, since no GPU is there."""

    def __init__(self, **arguments):
        self.arguments = arguments

    def launch(self):
        pass


@pytest.fixture
def _pretends_two_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.xpu, "is_available", lambda: True)
    monkeypatch.setattr(torch.xpu, "device_count", lambda: 1)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(fabric, "Fabric", Recorded)


@pytest.mark.usefixtures("_pretends_two_gpus")
@pytest.mark.parametrize(
    ("device", "accelerator", "devices"),
    [("auto", "cuda", 1), ("cpu", "cpu", 1), ("cuda", "cuda", 1), ("cuda:1", "cuda", [1]), ("mps", "mps", 1)],
)
def test_training_is_on_the_device_that_is_named(device, accelerator, devices):
    arguments = start_fabric(Config(), device).arguments
    assert (arguments["accelerator"], arguments["devices"]) == (accelerator, devices)


@pytest.mark.usefixtures("_pretends_two_gpus")
def test_devices_that_training_cannot_use_are_errors(monkeypatch):
    with pytest.raises(InputError, match="device is xpu, but training is on auto, cpu, cuda, cuda:N or mps"):
        start_fabric(Config(), "xpu")
    with pytest.raises(InputError, match=r"device is cuda:2, but torch .* finds"):
        start_fabric(Config(), "cuda:2")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="device is cuda:1 for 2 processes: use cuda"):
        start_fabric(Config(), "cuda:1")


def test_the_cpu_can_be_chosen_where_there_is_a_gpu():
    assert start_fabric(Config(), "cpu").device == torch.device("cpu")


def test_random_states_are_those_of_the_chosen_device(monkeypatch):
    states = {torch.device("cuda", 1): torch.tensor([3], dtype=torch.uint8)}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state", states.__getitem__)  # raises for others
    assert [list(each) for each in random_states(torch.device("cpu"))] == [["cpu"]]
    (own,) = random_states(torch.device("cuda", 1))
    assert own["cuda"].tolist() == [3]
