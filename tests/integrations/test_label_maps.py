"""Label maps of post-processing follow the edges of images."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch", reason="label maps are tensors")

import torch

from densefield import refine
from densefield.errors import InputError, InputTypeError
from densefield.integrations import refine_label_maps

SIZE = (32, 48)


def image() -> np.ndarray:
    noise = np.random.default_rng(8513).integers(0, 12, (*SIZE, 3))
    noise[:, 20:] += (180, 90, 30)
    return noise.astype(np.uint8)


def rough(*, left: int = 0, right: int = 1, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    labels = torch.full(SIZE, left, dtype=dtype)
    labels[:, 23:] = right
    return labels


def test_labels_of_a_segformer_are_refined_like_by_refine():
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("PIL", reason="image processors need it")
    coarse = torch.zeros(1, 5, 8, 12)
    coarse[:, 4, :, 6:] = 3.0
    coarse[:, 2, :, :6] = 3.0
    outputs = SimpleNamespace(logits=coarse)
    maps = transformers.SegformerImageProcessor().post_process_semantic_segmentation(outputs, target_sizes=[SIZE])
    (refined,) = refine_label_maps([image()], maps)
    assert torch.equal(refined, torch.from_numpy(refine(image(), labels=maps[0].numpy(), num_classes=5).argmax(0)))
    truth = torch.full(SIZE, 2)
    truth[:, 20:] = 4
    assert (refined == truth).float().mean() == 1 > (maps[0] == truth).float().mean()


@pytest.mark.parametrize("kind", ["instance", "panoptic"])
def test_maps_of_segments_are_refined(kind):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("PIL", reason="image processors need it")
    masks = torch.full((1, 2, *SIZE), -9.0)
    masks[0, 0, :, :23] = masks[0, 1, :, 23:] = 9.0
    classes = torch.tensor([[[0.0, 9, 0], [9, 0, 0]]])  # the last one is "nothing"
    outputs = SimpleNamespace(class_queries_logits=classes, masks_queries_logits=masks)
    processor = transformers.MaskFormerImageProcessor()
    results = getattr(processor, f"post_process_{kind}_segmentation")(outputs, target_sizes=[SIZE])
    given = results[0]["segmentation"]
    assert given.unique().numel() == 2 and given[0].diff().nonzero().item() == 22
    (refined,) = refine_label_maps([image()], [given])
    assert refined.dtype == given.dtype and torch.equal(refined.unique(), given.unique())
    assert refined[0].diff().nonzero().item() == 19


@pytest.mark.parametrize(("left", "right"), [(-1, 7), (0, 255), (3, 200_000)])
def test_every_value_is_a_label(left, right):
    (refined,) = refine_label_maps([image()], [rough(left=left, right=right)])
    assert (refined[:, :20] == left).all() and (refined[:, 20:] == right).all()


def test_images_may_be_arrays_pillow_images_or_tensors():
    pillow = pytest.importorskip("PIL.Image")
    given = [image(), pillow.fromarray(image()), torch.from_numpy(image()).movedim(-1, 0)]
    first, *others = refine_label_maps(given, [rough()] * 3)
    assert all(torch.equal(first, each) for each in others)
    batch = torch.from_numpy(image()).movedim(-1, 0)[None].expand(2, -1, -1, -1)
    assert torch.equal(refine_label_maps(batch, [rough()] * 2)[1], first)


def test_the_dtype_is_that_of_the_map_and_one_label_stays():
    (refined,) = refine_label_maps([image()], [rough(dtype=torch.int32)])
    assert refined.dtype == torch.int32
    same = torch.full(SIZE, 9)
    (refined,) = refine_label_maps([image()], [same])
    assert torch.equal(refined, same) and refined is not same


def test_options_are_those_of_refine():
    few, many = (refine_label_maps([image()], [rough()], roughness=each)[0] for each in (0.3, 4))
    assert (few[0] == 1).int().argmax() > (many[0] == 1).int().argmax() == 20


def test_other_input_raises():
    with pytest.raises(InputError, match="there are 1 images and 2 label maps"):
        refine_label_maps([image()], [rough()] * 2)
    with pytest.raises(InputError, match=r"torch\.float32 with values that are not integers"):
        refine_label_maps([image()], [rough() / 2])
    with pytest.raises(InputError, match=r"torch\.float32 with values that are not integers"):
        refine_label_maps([image()], [torch.full(SIZE, torch.nan)])
    with pytest.raises(InputTypeError, match=r"a label map is torch\.int64 \(1, 32, 48\)"):
        refine_label_maps([image()], [rough()[None]])
    with pytest.raises(InputTypeError, match=r'pass each\["segmentation"\]'):
        refine_label_maps([image()], [{"segmentation": rough(), "segments_info": []}])
    with pytest.raises(InputTypeError, match="a label map is of type list"):
        refine_label_maps([image()], [[rough()]])
    for label_map in (rough(), torch.full(SIZE, 9)):
        with pytest.raises(InputError, match=r"labels have shape \(32, 48\), but the image has \(24, 48"):
            refine_label_maps([image()[:24]], [label_map])
    with pytest.raises(InputError, match="roughness is -1"):
        refine_label_maps([image()], [torch.full(SIZE, 9)], roughness=-1)
