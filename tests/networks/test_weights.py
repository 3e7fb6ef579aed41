from __future__ import annotations

import pickle
import sys
import traceback

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from densefield.errors import InputError, InputTypeError  # noqa: E402
from densefield.networks.deeplab import DeepLabVGG16  # noqa: E402
from densefield.networks.fcn8s import FCN8sVGG16  # noqa: E402
from densefield.networks.weights import load_weights, read_weights  # noqa: E402
from tests.support.torchvision_weights import FEW, torchvision_weights  # noqa: E402


def line(seed=11213):
    torch.manual_seed(seed)
    return nn.Linear(3, 2)


@pytest.fixture(params=["pth", "safetensors"])
def saved(request, tmp_path):
    """A file of weights, and its content."""
    state = line().state_dict()
    path = tmp_path / f"weights.{request.param}"
    if request.param == "pth":
        torch.save(state, path)
    else:
        pytest.importorskip("safetensors.torch").save_file(state, path)
    return path, state


def test_a_file_round_trips(saved):
    path, state = saved
    assert {name: value.tolist() for name, value in read_weights(path).items()} == {
        name: value.tolist() for name, value in state.items()
    }


@pytest.mark.parametrize("kind", [str, lambda path: path], ids=["name", "path"])
def test_a_file_is_loaded_into_a_network(saved, kind):
    path, state = saved
    other = line(seed=2)
    load_weights(other, kind(path))
    assert torch.equal(other.weight, state["weight"]) and torch.equal(other.bias, state["bias"])


def test_a_truncated_file_raises(saved):
    path, _ = saved
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InputError, match=r"weights\.\w+ .*cut short"):
        read_weights(path)


@pytest.mark.parametrize("name", ["empty.pth", "empty.safetensors"])
def test_an_empty_file_raises(tmp_path, name):
    if name.endswith("safetensors"):
        pytest.importorskip("safetensors")
    (tmp_path / name).touch()
    with pytest.raises(
        InputError, match=rf"{name} (is empty\. Expected the file that torch\.save|cannot be read as safetensors)"
    ):
        read_weights(tmp_path / name)


def test_a_missing_file_raises(tmp_path):
    with pytest.raises(InputError, match=r"no file of weights .*nowhere\.pth"):
        load_weights(line(), tmp_path / "nowhere.pth")


class Burglar:
    """A pickle that writes a file when it is unpickled without restrictions."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("save", [torch.save, lambda thing, path: path.write_bytes(pickle.dumps(thing, protocol=2))])
def test_a_pickle_with_code_raises_and_runs_nothing(tmp_path, save):
    trace = tmp_path / "trace"
    save({"weight": Burglar(trace)}, tmp_path / "bad.pth")
    expected = r"bad\.pth holds io\.open, not only tensors\. It was not read.*save the tensors alone.*torch\.save\("
    with pytest.raises(InputError, match=expected) as caught:
        read_weights(tmp_path / "bad.pth")
    assert not trace.exists() and no_word_of_torch(caught)


def no_word_of_torch(caught):
    """Whether the traceback lacks torch's advice to unpickle files without restrictions."""
    return "weights_only" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("content", [b"", b"no pickle at all", pickle.dumps({"weight": [1, 2]}, protocol=4)])
def test_torchs_warnings_about_foreign_files_are_suppressed(tmp_path, content):
    (tmp_path / "bad.pth").write_bytes(content)
    with pytest.raises(
        InputError, match=r"bad\.pth is (empty|damaged, cut short, or not a file of torch\.save)"
    ) as caught:
        read_weights(tmp_path / "bad.pth")
    assert no_word_of_torch(caught)


def test_a_file_with_a_pickled_network_raises_with_a_hint(tmp_path):
    torch.save(line(), tmp_path / "network.pth")
    with pytest.raises(InputError, match=r"holds torch\.nn\.modules\.linear\.Linear, not only tensors") as caught:
        read_weights(tmp_path / "network.pth")
    assert no_word_of_torch(caught)


def test_a_checkpoint_that_contains_the_weights_raises_with_a_hint(tmp_path):
    torch.save({"state_dict": line().state_dict(), "epoch": 3}, tmp_path / "checkpoint.pth")
    with pytest.raises(InputTypeError, match=r"not tensors: state_dict; epoch.*is the state dict, pass that"):
        load_weights(line(), tmp_path / "checkpoint.pth")


def test_a_file_with_a_single_tensor_raises(tmp_path):
    torch.save(torch.zeros(2), tmp_path / "tensor.pth")
    with pytest.raises(InputTypeError, match="holds an object of type Tensor, expected a state dict"):
        load_weights(line(), tmp_path / "tensor.pth")


def test_weights_of_another_type_raise():
    with pytest.raises(InputTypeError, match="weights is of type int, expected a state dict or the name of a file"):
        load_weights(line(), 3)


def test_all_mismatched_keys_are_listed_and_nothing_is_loaded():
    network = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2), nn.Linear(2, 1))
    state = {name: torch.zeros_like(value) for name, value in network.state_dict().items()}
    before = {name: value.clone() for name, value in network.state_dict().items()}
    del state["0.bias"], state["2.bias"]
    state |= {"3.weight": torch.zeros(1), "1.weight": torch.zeros(2, 5), "1.bias": torch.tensor([0.0, float("nan")])}
    with pytest.raises(InputError) as caught:
        load_weights(network, state)
    assert str(caught.value).splitlines() == [
        "the weights do not fit the network.",
        "  missing: 0.bias; 2.bias",
        "  unexpected: 3.weight",
        "  of another shape: 1.weight (2, 5), expected (2, 2)",
        "  with NaN or infinity: 1.bias",
    ]
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_a_long_list_of_keys_is_shortened():
    with pytest.raises(InputError, match=r"unexpected: (layer\d+; ){40}and 60 more$"):
        load_weights(nn.ReLU(), {f"layer{number}": torch.zeros(1) for number in range(100)})


def test_without_safetensors_the_error_names_the_command_that_installs_it(tmp_path, monkeypatch):
    (tmp_path / "weights.safetensors").touch()
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ModuleNotFoundError, match="pip install safetensors"):
        read_weights(tmp_path / "weights.safetensors")


VGG = [lambda: DeepLabVGG16(3, "4x4", **FEW), lambda: FCN8sVGG16(3, **FEW)]


@pytest.mark.parametrize("make", VGG)
def test_torchvisions_vgg16_is_read_from_a_file(make, tmp_path):
    weights = torchvision_weights()
    torch.save(weights, tmp_path / "vgg16.pth")
    network = make()
    network.start_from(tmp_path / "vgg16.pth")
    assert torch.equal(network.features[28].bias, weights["features.28.bias"])
    assert torch.equal(network.fc7.weight[:, :, 0, 0], weights["classifier.3.weight"])


@pytest.mark.parametrize("make", VGG)
def test_the_last_layer_of_vgg16_is_not_needed(make):
    weights = torchvision_weights()
    del weights["classifier.6.weight"], weights["classifier.6.bias"]
    make().start_from(weights)


@pytest.mark.parametrize("make", VGG)
def test_mismatched_keys_of_another_network_are_listed(make):
    weights = torchvision_weights()
    weights["features.1.running_mean"] = torch.zeros(2)
    weights["classifier.0.weight"] = weights["classifier.0.weight"][:, :100]
    del weights["features.0.bias"]
    with pytest.raises(InputError) as caught:
        make().start_from(weights)
    assert str(caught.value).splitlines()[1:] == [
        "  missing: features.0.bias",
        "  unexpected: features.1.running_mean",
        "  of another shape: classifier.0.weight (8, 100), expected (8, 196)",
    ]
