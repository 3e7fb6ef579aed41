"""Models of transformers with a CRF: results, gradients, files and wrong input."""

from __future__ import annotations

import inspect
import json
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="the models need it")
pytest.importorskip("transformers", reason="the models are its")

import torch

from densefield import CRF, Bilateral, Custom, DenseCRF, Spatial
from densefield.errors import InputError, InputTypeError, InputWarning
from densefield.integrations import DenseCRFConfig, DenseCRFForSemanticSegmentation, PixelValues, semantic_scores
from densefield.nn import log_likelihood_loss
from tests.support.tiny_transformers import CLASSES, MODELS, SIZE, tiny_model

PROCESSOR = SimpleNamespace(
    do_rescale=True,
    rescale_factor=1 / 255,
    do_normalize=True,
    image_mean=[0.485, 0.456, 0.406],
    image_std=[0.229, 0.224, 0.225],
)
KERNELS = [Spatial(2, weight=0.7), Bilateral(20, 15, weight=2)]


def crf(**options: Any) -> DenseCRF:
    module = DenseCRF(CLASSES, KERNELS, iterations=3, **options)
    with torch.no_grad():
        for parameter in module.parameters():  # as after training
            parameter += 0.2
    return module


def model(name: str = "segformer", *, image_processor: Any = PROCESSOR, **options: Any) -> Any:
    made = DenseCRFForSemanticSegmentation.from_network(
        tiny_model(name), crf(**options), image_processor=image_processor
    )
    return made.eval()


def batch(seed: int = 18803) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Pixel values, images 0…255, and labels."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(256, (2, 3, *SIZE), generator=generator, dtype=torch.uint8)
    mean, std = (torch.tensor(each).view(3, 1, 1) for each in (PROCESSOR.image_mean, PROCESSOR.image_std))
    labels = torch.randint(CLASSES, (2, *SIZE), generator=generator)
    labels[:, :5] = 255
    return (images / 255 - mean) / std, images, labels


@pytest.mark.parametrize("name", MODELS)
def test_results_gradients_and_files_of_every_kind_of_model(name, tmp_path):
    both, (pixel_values, images, labels) = model(name), batch()
    network, own = tiny_model(name), crf()
    outputs = both(pixel_values, labels=labels, images=images)
    expected = own(semantic_scores(network(pixel_values=pixel_values), SIZE), images)
    assert torch.equal(outputs.logits, expected)
    assert torch.equal(outputs.loss, log_likelihood_loss(expected, labels))
    outputs.loss.backward()
    gradients = {key: parameter.grad for key, parameter in both.named_parameters()}
    assert all(bool(gradients[key].any()) for key in gradients if key.startswith("crf."))
    reached = [grad is not None and bool(grad.any()) for key, grad in gradients.items() if key.startswith("network.")]
    assert sum(reached) > 0.9 * len(reached)  # transformers' models have parameters that their outputs do not depend on

    both.save_pretrained(tmp_path)
    loaded, report = DenseCRFForSemanticSegmentation.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert type(loaded.network) is type(network) and loaded.network.config.num_labels == CLASSES
    with torch.no_grad():
        assert torch.equal(loaded(pixel_values).logits, both(pixel_values).logits)


def test_making_the_model_changes_neither_network_nor_crf():
    network, own = tiny_model("upernet"), crf()
    DenseCRFForSemanticSegmentation.from_network(network, own)
    for module, same in ((network, tiny_model("upernet")), (own, crf())):
        assert all(torch.equal(value, same.state_dict()[key]) for key, value in module.state_dict().items())


def test_colours_are_those_of_the_image_without_images_too():
    both, (pixel_values, images, _) = model(), batch()
    with torch.no_grad():
        # Colours differ by 1e-4 levels of 255, of widths of 15.
        assert torch.allclose(both(pixel_values).logits, both(pixel_values, images=images).logits, atol=1e-4)


def test_images_of_another_size_give_results_of_that_size():
    both, (pixel_values, images, labels) = model(), batch()
    larger = images.repeat_interleave(2, 2).repeat_interleave(2, 3)
    outputs = both(pixel_values, images=larger, labels=labels.repeat_interleave(2, 1).repeat_interleave(2, 2))
    assert outputs.logits.shape == (2, CLASSES, 2 * SIZE[0], 2 * SIZE[1]) and outputs.loss.isfinite()


def test_padding_is_ignored():
    both, (pixel_values, images, _) = model("mask2former"), batch()
    pixel_mask = torch.ones(2, *SIZE, dtype=torch.long)
    pixel_mask[:, 48:] = 0
    with torch.no_grad():
        first = both(pixel_values, images=images, pixel_mask=pixel_mask).logits
        images[:, :, 48:] = 0
        assert torch.equal(both(pixel_values, images=images, pixel_mask=pixel_mask).logits, first)
        assert not torch.allclose(both(pixel_values, images=images).logits, first, atol=1e-3)
    with pytest.raises(InputError, match="expected images of the same size, with the same padding"):
        both(pixel_values, images=images[..., :50], pixel_mask=pixel_mask)


def test_the_void_of_the_network_is_void():
    both, (pixel_values, _, labels) = model(), batch()
    expected = both(pixel_values, labels=labels).loss
    both.network.config.semantic_loss_ignore_index = -100
    assert torch.equal(both(pixel_values, labels=labels.masked_fill(labels == 255, -100)).loss, expected)


def test_a_loss_of_the_network_itself_is_added():
    both, (pixel_values, _, labels) = model("maskformer"), batch()
    queries = {
        "mask_labels": [torch.stack([each == 0, each == 2]).float() for each in labels],
        "class_labels": [torch.tensor([0, 2])] * 2,
    }
    with torch.no_grad():
        own = both.network(pixel_values=pixel_values, **queries).loss
        alone, together = both(pixel_values, labels=labels).loss, both(pixel_values, labels=labels, **queries).loss
        assert torch.equal(both(pixel_values, **queries).loss, own)
    assert float(together) == pytest.approx(float(own + alone), rel=1e-6)


def test_a_tuple_is_returned_on_request():
    both, (pixel_values, _, labels) = model(), batch()
    loss, logits = both(pixel_values, labels=labels, return_dict=False)
    assert loss.ndim == 0 and logits.shape == (2, CLASSES, *SIZE)
    assert len(both(pixel_values, return_dict=False)) == 1


def test_files_hold_the_crf_as_it_is(tmp_path):
    both = model(adjoint="recompute", exclude_self=True, method="exact")
    both.network.config.id2label[2] = "cat"
    both.config.id2label[2] = "cat"
    both.save_pretrained(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"model.safetensors", "config.json", "crf.toml"}
    assert CRF.load(tmp_path / "crf.toml").kernels[0].weight == both.crf.values()["spatial.weight"]
    loaded = DenseCRFForSemanticSegmentation.from_pretrained(tmp_path)
    assert loaded.crf.options == both.crf.options and loaded.crf.adjoint == "recompute"
    assert loaded.config.id2label[2] == "cat" and loaded.config.pixel_values == both.config.pixel_values
    assert PixelValues.of_config(loaded.config.pixel_values) == PixelValues.of_processor(PROCESSOR)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert config["model_type"] == "dense_crf" and config["network_class"] == "SegformerForSemanticSegmentation"


def test_a_file_keeps_values_of_frozen_parameters_but_not_that_they_are_frozen(tmp_path):
    both = model()
    both.crf.freeze("*")
    both.network.requires_grad_(False)
    both.save_pretrained(tmp_path)
    loaded = DenseCRFForSemanticSegmentation.from_pretrained(tmp_path)
    expected = dict(both.named_parameters())
    for name, parameter in loaded.named_parameters():
        assert torch.equal(parameter, expected[name]) and parameter.requires_grad and not expected[name].requires_grad


def test_auto_classes_do_not_know_the_model(tmp_path):
    """As docs/integrations/transformers.md says."""
    from transformers import AutoModelForSemanticSegmentation

    model().save_pretrained(tmp_path)
    with pytest.raises((ValueError, KeyError), match="dense_crf"):
        AutoModelForSemanticSegmentation.from_pretrained(tmp_path)


def test_the_names_in_a_file_are_those_of_the_model_for_trainers_that_resume(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    both = model("mask2former")
    both.save_pretrained(tmp_path)
    assert set(safetensors.load_file(tmp_path / "model.safetensors")) <= set(both.state_dict())
    both.load_state_dict(safetensors.load_file(tmp_path / "model.safetensors"))


def test_a_file_without_the_crf_leaves_it_at_the_values_of_the_configuration(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    both = model()
    both.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = {key: value for key, value in safetensors.load_file(file).items() if not key.startswith("crf.")}
    safetensors.save_file(tensors, file, metadata={"format": "pt"})
    loaded, report = DenseCRFForSemanticSegmentation.from_pretrained(tmp_path, output_loading_info=True)
    assert set(report["missing_keys"]) == {f"crf.{key}" for key, _ in both.crf.named_parameters()}
    for key, value in both.crf.values().items():
        assert loaded.crf.values()[key] == pytest.approx(value, rel=1e-6)


def test_the_crf_stays_in_single_precision_in_a_model_of_half_precision(tmp_path):
    if not hasattr(__import__("transformers").PreTrainedModel, "_keep_in_fp32_modules_strict"):
        pytest.skip("this version of transformers converts all parameters")
    model().save_pretrained(tmp_path)
    half = DenseCRFForSemanticSegmentation.from_pretrained(tmp_path, torch_dtype=torch.bfloat16)
    assert {parameter.dtype for parameter in half.crf.parameters()} == {torch.float32}
    assert {parameter.dtype for parameter in half.network.parameters()} == {torch.bfloat16}
    pixel_values, images, labels = batch()
    outputs = half(pixel_values.bfloat16(), images=images, labels=labels)
    assert outputs.logits.dtype == torch.float32 and outputs.loss.isfinite()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_converting_a_model_leaves_the_crf_in_single_precision(dtype):
    both = model()
    before = {name: each.clone() for name, each in both.crf.state_dict().items()}
    pixel_values, images, labels = batch()
    both(pixel_values, images=images, labels=labels).loss.backward()
    both.to(dtype)
    for name, parameter in both.crf.named_parameters():
        assert torch.equal(parameter, before[name]) and parameter.dtype == parameter.grad.dtype == torch.float32
    assert {parameter.dtype for parameter in both.network.parameters()} == {dtype}
    assert both(pixel_values.to(dtype), images=images).logits.dtype == torch.float32
    assert {parameter.dtype for parameter in both.double().parameters()} == {torch.float64}


def test_trainer_finds_one_name_of_labels_and_averages_the_loss():
    names = inspect.signature(DenseCRFForSemanticSegmentation.forward).parameters
    assert [name for name in names if "label" in name] == ["labels"]
    assert DenseCRFForSemanticSegmentation.accepts_loss_kwargs is False


def test_wrong_pixel_values_warn_once_and_missing_colours_raise(recwarn):
    both, (pixel_values, images, _) = model(), batch()
    with torch.no_grad():
        with pytest.warns(InputWarning, match="which looks like an image that was not normalised"):
            both(images / 255)
        both(images / 255)
        assert not recwarn
        with pytest.warns(InputWarning, match="looks like a network's normalised input"):
            model()(pixel_values, images=pixel_values)
        with pytest.raises(InputError, match=r"made without an image processor.*pass images="):
            model(image_processor=None)(pixel_values)


def test_wrong_pixel_values_after_good_ones_warn_once_too():
    both, (pixel_values, images, _) = model(), batch()
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for values in (pixel_values, images.float(), images.float()):
            both(values)
    (only,) = [str(each.message) for each in caught]
    assert "stand for colours from" in only and "data_range" not in only


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("pixel_values", {"mean": [1]}, "pixel_values of the configuration is"),
        ("crf_options", [1], r"crf_options of the configuration is \[1\], expected an object"),
        ("crf", [1], r"crf of the configuration is \[1\], expected an object"),
    ],
)
def test_fields_of_a_configuration_that_cannot_be_are_named(tmp_path, name, value, message):
    model().save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    with pytest.raises((InputError, InputTypeError), match=message):
        DenseCRFForSemanticSegmentation.from_pretrained(tmp_path)


@pytest.mark.parametrize("change", [list, lambda images: images.movedim(1, -1), lambda images: images[:1]])
def test_images_of_another_form_are_named(change):
    pixel_values, images, _ = batch()
    with pytest.raises(InputError, match=r"images are .*, expected a tensor of colours 0…255 of shape \(2, 3, rows"):
        model(image_processor=None)(pixel_values, images=change(images))


@pytest.mark.parametrize(
    ("network", "own", "error", "message"),
    [
        (torch.nn.Conv2d(3, CLASSES, 1), None, InputTypeError, "network is of type Conv2d, expected a model"),
        (None, CRF(), InputTypeError, "crf is of type CRF, expected a DenseCRF"),
        (None, DenseCRF(3), InputError, "the network scores 4 classes, but the CRF has 3"),
        (None, DenseCRF(CLASSES, [Custom("depth", sigma=[1.0])]), InputError, "the CRF compares 'depth'"),
        (None, DenseCRF(CLASSES, data_range=1.0), InputError, "data_range=1.0, expected colours 0…255"),
        (None, DenseCRF(CLASSES, axes=3), InputError, "axes=3"),
    ],
)
def test_parts_that_do_not_fit_raise(network, own, error, message):
    with pytest.raises(error, match=message):
        DenseCRFForSemanticSegmentation.from_network(network or tiny_model("segformer"), own or crf())


def test_classes_outside_transformers_are_not_loaded(tmp_path):
    class Own(type(tiny_model("segformer"))):
        pass

    with pytest.raises(InputTypeError, match="the network is of class Own, expected a model class of transformers"):
        DenseCRFForSemanticSegmentation.from_network(Own(tiny_model("segformer").config), crf())
    model().save_pretrained(tmp_path)
    config = Path(tmp_path, "config.json")
    config.write_text(config.read_text().replace('"SegformerForSemanticSegmentation"', '"Trainer"'))
    with pytest.raises(InputTypeError, match="the network is of class Trainer, expected a model class"):
        DenseCRFForSemanticSegmentation.from_pretrained(tmp_path)
    with pytest.raises(InputError, match="the configuration has no network"):
        DenseCRFForSemanticSegmentation(DenseCRFConfig())
