"""DenseCRF on the meta device, on another device, with non-finite parameters, and in transformers."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from densefield import Bilateral, InputError, Spatial

torch = pytest.importorskip("torch")
from densefield import DenseCRF  # noqa: E402

KERNELS = (
    Spatial(3.7, weight=3),
    Spatial(covariance=[[9.0, 2.0], [2.0, 6.0]], weight=np.array([[2.0, -0.5], [-0.5, 1.0]])),
    Bilateral(61, 10, weight=[5.0, 4.0]),
)
SCORES = torch.tensor(np.random.default_rng(853).standard_normal((1, 2, 6, 7)), dtype=torch.float32)
IMAGE = torch.tensor(np.random.default_rng(854).integers(0, 256, (1, 3, 6, 7)), dtype=torch.uint8)


def empty() -> Any:
    with torch.device("meta"):
        return DenseCRF(2, KERNELS)


def test_parameters_on_the_meta_device_raise_and_say_what_to_do() -> None:
    crf = empty()
    with pytest.raises(InputError, match=r"spatial\.log_sigma is on the meta device .*to_empty.*reset_parameters"):
        crf(SCORES, IMAGE)
    with pytest.raises(InputError, match=r"no values yet: .*load_state_dict\(state, assign=True\)"):
        crf.values()
    assert "spatial: not initialised, symmetric" in repr(crf)


@pytest.mark.parametrize("cure", ["reset_parameters", "assign"])
def test_the_remedy_of_the_error_works(cure: str) -> None:
    whole, crf = DenseCRF(2, KERNELS), empty()
    if cure == "assign":
        for parameter in whole.parameters():
            parameter.data += 0.1
        crf.load_state_dict(whole.state_dict(), assign=True)
    else:
        crf.to_empty(device="cpu")
        for parameter in crf.parameters():
            parameter.data.fill_(math.nan)  # uninitialised memory
        crf.reset_parameters()
    assert torch.equal(crf(SCORES, IMAGE), whole(SCORES, IMAGE))
    assert not list(crf.buffers())  # buffers would be uninitialised after to_empty()


def test_parameters_on_another_device_than_the_scores_are_named() -> None:
    """The meta device is the only other device that is always available."""
    with pytest.raises(InputError, match=r"spatial\.log_sigma is on cpu, but the scores are on meta: use crf\.to"):
        DenseCRF(2, KERNELS)(SCORES.to("meta"), IMAGE.to("meta"))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("spatial.log_sigma", math.nan, r"spatial\.log_sigma holds nan, which stands for nan"),
        ("spatial.log_sigma", 1e3, r"spatial\.log_sigma holds 1000, which stands for inf"),
        ("bilateral.log_sigma", -1e3, r"bilateral\.log_sigma holds -1000, which stands for 0"),
        ("bilateral.log_weight", 1e3, r"bilateral\.log_weight holds 1000, which stands for inf"),
        ("spatial2.log_diagonal", -math.inf, r"spatial2\.log_diagonal holds -inf, which stands for 0"),
        ("spatial2.lower", math.inf, r"spatial2\.lower holds inf: "),
        ("spatial2.matrix", math.nan, r"spatial2\.matrix holds nan: "),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_parameter_that_is_not_finite_is_named(name: str, value: float, message: str, dtype: Any) -> None:
    crf = DenseCRF(2, KERNELS)
    parameter = crf.get_parameter(name)
    parameter.data.view(-1)[-1] = value
    with pytest.raises(InputError, match=f"the parameter {message}.*expected finite numbers.*learning rate"):
        crf(SCORES.to(dtype), IMAGE)


def test_a_weight_of_zero_is_accepted() -> None:
    crf = DenseCRF(2, [Spatial(3)])
    crf.spatial.log_weight.data.fill_(-1e4)
    assert torch.allclose(crf(SCORES), SCORES.log_softmax(1), atol=1e-6)


def test_checking_the_parameters_takes_less_than_a_millisecond() -> None:
    """About 40 µs of at least 20 ms per image."""
    from densefield.nn.parameter_checks import check_devices, check_parameters

    crf = DenseCRF(2, KERNELS)
    kernels = crf._kernel_parameters()
    shapes, weights = ([getattr(k, name)(torch.float64) for k in kernels.values()] for name in ("shape", "weight"))
    best = math.inf
    for _ in range(20):
        start = time.perf_counter()
        check_devices(kernels, SCORES.device)
        check_parameters(kernels, shapes, weights, torch.float32)
        best = min(best, time.perf_counter() - start)
    assert best < 1e-3


class TestInTransformers:
    """A PreTrainedModel that holds a DenseCRF, through save_pretrained() and from_pretrained()."""

    @pytest.fixture
    def model_class(self) -> Any:
        transformers = pytest.importorskip("transformers")

        class Configuration(transformers.PretrainedConfig):
            model_type = "tiny_segmentation"

        class Model(transformers.PreTrainedModel):
            config_class = Configuration

            def __init__(self, config: Any) -> None:
                super().__init__(config)
                self.network = torch.nn.Conv2d(3, 2, 1)
                self.crf = DenseCRF(2, KERNELS)
                self.post_init()

            def _init_weights(self, module: Any) -> None:
                if hasattr(module, "reset_parameters"):
                    module.reset_parameters()

            def forward(self, image: Any) -> Any:
                return self.crf(self.network(image / 255), image)

        return Model

    @pytest.fixture
    def saved(self, model_class: Any, tmp_path: Path) -> tuple[Any, Path]:
        model = model_class(model_class.config_class())
        assert model.crf.values()["spatial.sigma"].tolist() == [3.7, 3.7]
        for parameter in model.crf.parameters():
            parameter.data += 0.2
        model.save_pretrained(tmp_path)
        return model, tmp_path

    def load_without(self, model_class: Any, folder: Path, start: str) -> tuple[Any, set[str]]:
        """The model loaded without the keys of a prefix, and the keys reported as missing."""
        safetensors = pytest.importorskip("safetensors.torch")
        file = folder / "model.safetensors"
        kept = {name: value for name, value in safetensors.load_file(file).items() if not name.startswith(start)}
        safetensors.save_file(kept, file, metadata={"format": "pt"})
        model, report = model_class.from_pretrained(folder, output_loading_info=True)
        return model, set(report["missing_keys"])

    def test_a_loaded_model_computes_the_same(self, model_class: Any, saved: Any) -> None:
        model, folder = saved
        loaded, missing = self.load_without(model_class, folder, "nothing")
        assert not missing
        assert torch.equal(loaded(IMAGE), model(IMAGE))

    def test_a_file_without_a_crf_keeps_initial_values_and_reports_missing_keys(
        self, model_class: Any, saved: Any
    ) -> None:
        loaded, missing = self.load_without(model_class, saved[1], "crf.")
        assert missing == {f"crf.{name}" for name, _ in loaded.crf.named_parameters()}
        expected = DenseCRF(2, KERNELS).values()
        for name, value in loaded.crf.values().items():
            assert np.array_equal(value, expected[name]), name

    @pytest.mark.parametrize("start", ["crf.bilateral.log_sigma", "network.bias"])
    def test_values_of_a_partial_file_are_loaded(self, model_class: Any, saved: Any, start: str) -> None:
        model, folder = saved
        loaded, missing = self.load_without(model_class, folder, start)
        assert missing == {start}
        for name, parameter in loaded.crf.named_parameters():
            if f"crf.{name}" != start:
                assert torch.equal(parameter, model.crf.get_parameter(name)), name
        if start.startswith("crf."):
            assert loaded.crf.values()["bilateral.sigma"].tolist() == [61, 61, 10, 10, 10]
        loaded.crf.reset_parameters()  # later it sets all parameters
        assert loaded.crf.values()["spatial.weight"] == 3


@pytest.mark.parametrize(("name", "value"), [("log_sigma", 40.0), ("log_weight", 30.0), ("log_sigma", -800.0)])
def test_parameters_too_large_for_gradients_are_rejected_by_name(name: str, value: float) -> None:
    crf = DenseCRF(2)
    with torch.no_grad():
        getattr(crf.bilateral, name).fill_(value)
    with pytest.raises(InputError, match=rf"the parameter bilateral\.{name} holds {value:g}"):
        crf(torch.zeros(1, 2, 4, 5), torch.zeros(1, 3, 4, 5, dtype=torch.uint8))


def test_scores_on_the_meta_device_are_rejected() -> None:
    with pytest.raises(InputError, match="the scores are on the meta device"):
        DenseCRF(2).to("meta")(torch.zeros(1, 2, 4, 5, device="meta"), torch.zeros(1, 3, 4, 5, device="meta"))
