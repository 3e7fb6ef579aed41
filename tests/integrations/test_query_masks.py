"""Scores from outputs of transformers' models: equal to their own semantic inference."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="the scores are tensors")

import torch

from densefield.errors import InputError, InputTypeError
from densefield.integrations import semantic_scores

SIZE = (20, 28)


def queries(seed: int = 41903, masks: tuple[int, int] = (10, 14), classes: int = 3, count: int = 7) -> SimpleNamespace:
    generator = torch.Generator().manual_seed(seed)
    return SimpleNamespace(
        class_queries_logits=3 * torch.randn(2, count, classes + 1, generator=generator),
        masks_queries_logits=4 * torch.randn(2, count, *masks, generator=generator),
    )


def test_sums_over_queries_are_those_of_the_formula_at_every_pixel():
    outputs = queries()
    scores = semantic_scores(outputs, floor=1e-3)
    for b, label, y, x in [(0, 0, 0, 0), (1, 2, 9, 13), (0, 1, 4, 5)]:
        total = 0.0
        for q in range(7):
            logits = outputs.class_queries_logits[b, q].double()
            mask = outputs.masks_queries_logits[b, q, y, x].double()
            total += float(logits.exp()[label] / logits.exp().sum() / (1 + (-mask).exp()))
        # Seven products in float32, of numbers up to 1.
        assert float(scores[b, label, y, x].exp()) == pytest.approx(total + 1e-3, rel=2e-6)


def test_a_query_that_shows_nothing_contributes_nothing():
    outputs = queries(count=1)
    outputs.class_queries_logits[:] = torch.tensor([0.0, 0.0, 0.0, 60.0])
    assert torch.allclose(semantic_scores(outputs, floor=1e-3).exp(), torch.tensor(1e-3), rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", ["MaskFormerImageProcessor", "Mask2FormerImageProcessor"])
def test_labels_are_those_of_the_image_processor_of_transformers(name):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("PIL", reason="image processors need it")
    # Mask2Former's processor resizes masks to 384×384 first, which leaves masks of that size as they are.
    outputs = queries(masks=(384, 384))
    expected = getattr(transformers, name)().post_process_semantic_segmentation(outputs, target_sizes=[SIZE] * 2)
    scores = semantic_scores(outputs, SIZE)
    top = scores.topk(2, dim=1).values
    clear = top[:, 0] - top[:, 1] > 1e-4  # rounding differs by the order of sums
    assert clear.float().mean() > 0.99
    assert torch.equal(scores.argmax(1)[clear], torch.stack(expected)[clear])


def test_logits_of_pixels_are_resized_as_by_segformers_processor():
    logits = torch.randn(2, 5, 5, 7, generator=torch.Generator().manual_seed(7151))
    expected = torch.nn.functional.interpolate(logits, SIZE, mode="bilinear", align_corners=False)
    assert torch.equal(semantic_scores(SimpleNamespace(logits=logits), SIZE), expected)
    assert torch.equal(semantic_scores({"logits": logits}), logits)


def test_gradients_reach_class_and_mask_logits_also_below_the_floor():
    outputs = queries()
    outputs.masks_queries_logits -= 20  # probabilities of 1e-9, far below the floor
    for tensor in vars(outputs).values():
        tensor.requires_grad_()
    semantic_scores(outputs, SIZE)[:, 0].sum().backward()
    for tensor in vars(outputs).values():
        assert tensor.grad.isfinite().all() and (tensor.grad != 0).any()


def test_half_precision_is_combined_in_single_precision():
    outputs = queries()
    half = SimpleNamespace(**{name: tensor.bfloat16() for name, tensor in vars(outputs).items()})
    same = SimpleNamespace(**{name: tensor.bfloat16().float() for name, tensor in vars(outputs).items()})
    assert torch.equal(semantic_scores(half), semantic_scores(same))


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ((torch.zeros(1, 2, 4, 4),), "is of type tuple, .* call the model with return_dict=True"),
        (SimpleNamespace(logits=torch.zeros(1, 100, 92)), r"SimpleNamespace with logits of shape \(1, 100, 92\)"),
        (SimpleNamespace(logits=torch.zeros(1, 2, 4, 4).long()), "expected the output of a model"),
        (SimpleNamespace(pred_masks=torch.zeros(1, 2, 4, 4)), "is of type SimpleNamespace, expected"),
    ],
)
def test_other_outputs_raise(outputs, message):
    with pytest.raises(InputTypeError, match=message):
        semantic_scores(outputs)


def test_queries_of_different_number_and_an_invalid_floor_raise():
    outputs = queries()
    for floor in (0, "a"):
        with pytest.raises(InputError, match=f"floor is {floor!r}, expected a number above 0"):
            semantic_scores(outputs, floor=floor)
    outputs.class_queries_logits = outputs.class_queries_logits[:, 1:]
    with pytest.raises(InputError, match=r"class logits have shape \(2, 6, 4\) and the mask logits \(2, 7, 10, 14\)"):
        semantic_scores(outputs)
