"""Post transforms of MONAI: layouts, metadata, spacing, inversion, lazy pipelines, workers, and wrong input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="MONAI needs torch")
pytest.importorskip("monai", reason="needs MONAI")

from monai.data import DataLoader, Dataset, MetaTensor, decollate_batch, set_track_meta  # noqa: E402
from monai.transforms import (  # noqa: E402
    Activationsd,
    AsDiscrete,
    AsDiscreted,
    Compose,
    EnsureTyped,
    Flip,
    Flipd,
    Invertd,
    KeepLargestConnectedComponentd,
    Spacingd,
)

from densefield import CRF, Bilateral, Spatial, refine  # noqa: E402
from densefield.errors import InputError, InputTypeError, InputWarning  # noqa: E402
from densefield.integrations.monai import CRFRefine, CRFRefined  # noqa: E402
from densefield.nn.dense_crf import DenseCRF  # noqa: E402

SHAPE = (12, 20, 24)  # planes, rows, columns
WIDE = CRF([Spatial(2, weight=1), Bilateral(4, 20, weight=4)], data_range=1.0)


def ball(shape: tuple[int, ...] = SHAPE) -> Any:
    """A noisy image (1, …) of a bright ball in 0…1, the ball (…), and the ball two voxels too wide."""
    centre = np.array(shape).reshape(-1, *[1] * len(shape)) / 2
    distance = np.sqrt((np.square(np.indices(shape) - centre)).sum(axis=0))
    inside, wide = distance < min(shape) / 3, distance < min(shape) / 3 + 2
    noise = np.random.default_rng(40427).normal(0, 0.03, shape)
    return np.float32(np.clip(0.2 + 0.5 * inside + noise, 0, 1))[None], inside, wide


def two_classes(labels: Any, certain: float = 0.8) -> Any:
    """Probabilities (2, …) of a mask."""
    foreground = np.where(labels, certain, 1 - certain).astype(np.float32)
    return np.stack([1 - foreground, foreground])


def dice(found: Any, truth: Any) -> float:
    return float(2 * (found & truth).sum() / (found.sum() + truth.sum()))


@pytest.mark.parametrize("shape", [SHAPE, (40, 50)])
@pytest.mark.parametrize("crf", [None, WIDE], ids=["learnt", "crf"])
def test_every_kind_follows_the_edges_and_keeps_its_layout(shape: tuple[int, ...], crf: CRF | None) -> None:
    image, inside, wide = ball(shape)
    p, options = two_classes(wide), {} if crf is None else {"crf": crf}
    probabilities = CRFRefine(**options)(torch.from_numpy(p), image)
    logits = CRFRefine("logits", **options)(torch.from_numpy(np.log(p)), image)
    foreground = CRFRefine(**options)(torch.from_numpy(p[1:]), image)
    one_logit = CRFRefine("logits", **options)(torch.from_numpy(np.log(p[1:] / p[:1])), image)
    for q in (probabilities, logits):
        assert q.shape == (2, *shape) and q.dtype == torch.float32
        assert torch.allclose(q.sum(0), torch.ones(shape), atol=1e-5)  # softmax in single precision
    # The four inputs are the same scores up to a constant; rounding of logarithms.
    for q in (logits[1:], foreground, one_logit):
        assert torch.allclose(q, probabilities[1:], atol=1e-4)
    index = CRFRefine("labels", **options)(torch.from_numpy(np.float32(wide))[None], image)
    onehot = CRFRefine("labels", **options)(torch.from_numpy(np.float32(np.stack([~wide, wide]))), image)
    assert index.shape == (1, *shape) and onehot.shape == (2, *shape) and index.dtype == onehot.dtype == torch.float32
    assert torch.equal(onehot[1], index[0]) and torch.equal(onehot[0], 1 - index[0])
    before = dice(wide, inside)
    assert before < 0.87
    assert dice(probabilities.numpy()[1] > 0.5, inside) > before + 0.1
    assert dice(index.numpy()[0] > 0, inside) > before + 0.1


def test_the_result_is_that_of_refine_with_axes_and_spacing_in_its_order() -> None:
    image, _, wide = ball()
    p = two_classes(wide)
    found = CRFRefine(crf=WIDE, spacing=(4.0, 1.0, 0.5))(p, image)
    expected = refine(np.moveaxis(image, 0, -1), probabilities=p, crf=WIDE, spacing=(0.5, 1.0, 4.0))
    assert np.array_equal(np.asarray(found), expected)


@pytest.mark.parametrize("where", ["image", "segmentation", "both"])
def test_spacing_comes_from_the_affine(where: str) -> None:
    """A rotated affine: the spacing is the length of its columns."""
    image, _, wide = ball()
    p, turn = two_classes(wide), np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1.0]])
    affine = np.eye(4)
    affine[:3, :3] = turn @ np.diag([4.0, 1.0, 0.5])
    img = MetaTensor(p, affine=affine) if where != "image" else torch.from_numpy(p)
    guide = MetaTensor(image, affine=affine) if where != "segmentation" else torch.from_numpy(image)
    refined = CRFRefine(crf=WIDE)
    expected = CRFRefine(crf=WIDE, spacing=(4.0, 1.0, 0.5))(p, image)
    assert np.array_equal(np.asarray(refined(img, guide)), np.asarray(expected))
    assert not np.allclose(np.asarray(refined(p, image)), np.asarray(expected), atol=1e-2)
    # Given spacing wins.
    assert np.array_equal(np.asarray(CRFRefine(crf=WIDE, spacing=(1, 1, 1))(img, guide)), np.asarray(refined(p, image)))


def test_spacing_of_an_image_comes_from_an_affine_of_a_volume() -> None:
    image, _, wide = ball((30, 40))
    p = two_classes(wide)
    guide = MetaTensor(image, affine=np.diag([2.0, 0.5, 9.0, 1.0]))
    expected = CRFRefine(crf=WIDE, spacing=(2.0, 0.5))(p, image)
    assert np.array_equal(np.asarray(CRFRefine(crf=WIDE)(p, guide)), np.asarray(expected))


def test_metadata_and_recorded_operations_stay() -> None:
    image, _, wide = ball()
    affine = np.diag([2.0, 1, 1, 1])
    img = Flip(0)(MetaTensor(two_classes(wide), affine=affine, meta={"filename_or_obj": "a.nii"}))
    guide = Flip(0)(MetaTensor(image, affine=affine))
    out = CRFRefine(crf=WIDE)(img, guide)
    assert isinstance(out, MetaTensor) and out.meta["filename_or_obj"] == "a.nii"
    assert torch.equal(out.affine, img.affine) and out.applied_operations == img.applied_operations
    assert len(out.applied_operations) == 1
    assert torch.equal(img, Flip(0)(MetaTensor(two_classes(wide))))  # the input is not overwritten


def test_without_tracking_results_are_plain_tensors() -> None:
    image, _, wide = ball()
    set_track_meta(False)
    try:
        out = CRFRefine(crf=WIDE)(MetaTensor(two_classes(wide)), image)
    finally:
        set_track_meta(True)
    assert type(out) is torch.Tensor
    assert isinstance(CRFRefine(crf=WIDE)(two_classes(wide), image), MetaTensor)  # as AsDiscrete does with arrays
    assert isinstance(AsDiscrete(argmax=True)(two_classes(wide)), MetaTensor)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.uint8])
def test_types_of_segmentations_stay(dtype: torch.dtype) -> None:
    image, _, wide = ball()
    kind = "labels" if dtype == torch.uint8 else "probabilities"
    given = torch.from_numpy(wide[None] if kind == "labels" else two_classes(wide)).to(dtype)
    assert CRFRefine(kind, crf=WIDE)(given, image).dtype == dtype


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", ["probabilities", "logits", "labels"])
def test_half_precision_is_refined_as_the_same_numbers_in_single(dtype: torch.dtype, kind: Any) -> None:
    """As from autocast: segmentation and image, as tensors with and without metadata."""
    image, _, wide = ball()
    values = {"probabilities": two_classes(wide), "logits": np.log(two_classes(wide)), "labels": np.float32(wide)[None]}
    given, guide = (torch.from_numpy(each).to(dtype) for each in (values[kind], image))
    expected = CRFRefine(kind, crf=WIDE)(given.float(), guide.float()).to(dtype)
    for track in (torch.Tensor, MetaTensor):
        found = CRFRefined("pred", "image", kind, crf=WIDE)({"pred": track(given), "image": track(guide)})["pred"]
        assert found.dtype == dtype and torch.equal(found.as_tensor(), expected.as_tensor())


def test_several_keys_and_kinds_of_a_dictionary() -> None:
    image, _, wide = ball()
    data = {"image": image, "soft": two_classes(wide), "hard": np.uint8(wide)[None], "other": "kept"}
    transform = CRFRefined(["soft", "hard", "absent"], "image", ["probabilities", "labels", "logits"], True, crf=WIDE)
    out = transform(data)
    assert list(out) == list(data) and out["other"] == "kept" and out["image"] is data["image"]
    assert torch.equal(out["soft"], CRFRefine(crf=WIDE)(data["soft"], image))
    assert torch.equal(out["hard"], CRFRefine("labels", crf=WIDE)(data["hard"], image))
    assert isinstance(data["soft"], np.ndarray)  # the given dictionary is not changed


def test_inverse_passes_over_it_and_invertd_undoes_what_came_before() -> None:
    image, _, wide = ball()
    before = Compose([EnsureTyped(["image"]), Flipd(["image"], spatial_axis=0)])
    item = before({"image": MetaTensor(image, affine=np.diag([2.0, 1, 1, 1]))})
    flipped = np.ascontiguousarray(two_classes(wide)[:, ::-1])
    item["pred"] = MetaTensor(flipped).copy_meta_from(item["image"])
    after = Compose(
        [CRFRefined("pred", "image", crf=WIDE), Invertd("pred", before, orig_keys="image", nearest_interp=False)]
    )
    expected = CRFRefine(crf=WIDE, spacing=(2, 1, 1))(flipped, np.ascontiguousarray(image[:, ::-1]))
    assert torch.allclose(after(item)["pred"].as_tensor(), expected.as_tensor().flip(1))
    chain = Compose([Flipd(["image", "pred"], spatial_axis=1), CRFRefined("pred", "image", crf=WIDE)])
    data = {"image": MetaTensor(image), "pred": MetaTensor(two_classes(wide))}
    done = chain(data)
    back = chain.inverse(done)
    assert torch.equal(back["image"], data["image"])
    assert torch.equal(back["pred"], done["pred"].flip(2))  # flipped back, not unrefined


def test_pending_operations_of_a_lazy_pipeline_are_applied_first() -> None:
    image, _, wide = ball()
    data = {"image": MetaTensor(image), "pred": MetaTensor(two_classes(wide))}
    steps = [
        Spacingd(["image", "pred"], pixdim=(1.0, 1.0, 2.0)),
        Flipd(["image", "pred"], spatial_axis=0),
        CRFRefined("pred", "image", crf=WIDE),
    ]
    eager, lazy = Compose(steps)(dict(data)), Compose(steps, lazy=True)(dict(data))
    assert lazy["pred"].shape == eager["pred"].shape == (2, 12, 20, 12)
    assert not lazy["pred"].pending_operations and not lazy["image"].pending_operations
    assert torch.equal(lazy["pred"].affine, eager["pred"].affine)
    # One resampling instead of two: at this spacing both take the same voxels.
    assert torch.allclose(lazy["pred"], eager["pred"], atol=1e-3)


def test_workers_of_a_loader_give_the_same() -> None:
    image, _, wide = ball()
    shifts = [0, 1, 2, 3]
    items = [{"image": np.roll(image, k, 3), "pred": np.roll(two_classes(wide), k, 3)} for k in shifts]
    transform = CRFRefined("pred", "image", crf=WIDE)
    loader = DataLoader(Dataset(items, transform), batch_size=2, num_workers=2)
    found = [item["pred"] for batch in loader for item in decollate_batch(batch)]
    assert len(found) == len(items)
    for refined, item in zip(found, items, strict=True):
        assert torch.equal(refined.as_tensor(), transform(item)["pred"].as_tensor())


def test_it_stands_between_other_post_transforms() -> None:
    image, inside, wide = ball()
    post = Compose(
        [
            Activationsd("pred", softmax=True),
            CRFRefined("pred", image_key="image"),
            AsDiscreted("pred", argmax=True),
            KeepLargestConnectedComponentd("pred", applied_labels=[1]),
        ]
    )
    out = post({"image": MetaTensor(image), "pred": MetaTensor(np.log(two_classes(wide)))})["pred"]
    assert out.shape == (1, *SHAPE) and dice(out.numpy()[0] > 0, inside) > 0.9


P = np.full((2, 6, 8), 0.5, np.float32)
IMAGE = np.zeros((1, 6, 8), np.float32)
CT = np.linspace(-1000, 1000, 48, dtype=np.float32).reshape(1, 6, 8)


@pytest.mark.parametrize(
    ("arguments", "img", "image", "message"),
    [
        ({}, P, IMAGE[:, :5], "Resample one of them to the other"),
        ({}, P, IMAGE[0], "no channel axis: use EnsureChannelFirst"),
        ({}, P[0], IMAGE, "no channel axis"),
        ({}, P[None, :, None], IMAGE[None, :, None], "use decollate_batch"),
        ({}, P[:, 0], IMAGE[:, 0], "two or three spatial axes"),
        ({}, 3 * P, IMAGE, "range from 1.5 to 1.5, expected 0 to 1: .* pass kind='logits'"),
        ({}, 0.9 * P, IMAGE, "sum to 0.9 … 0.9 .* refine each channel by itself"),
        ({}, np.nan * P, IMAGE, "the probabilities hold NaN at 48 of 48 voxels"),
        ({"kind": "logits"}, np.nan * P, IMAGE, "the logits hold NaN at 48 of 48 voxels"),
        ({"roughness": 3}, P, IMAGE, "roughness is given, but kind is 'probabilities': it is for kind='labels'"),
        ({"confidence": 0.9, "kind": "logits"}, P, IMAGE, "confidence is given, but kind is 'logits'"),
        ({"temperature": 2, "kind": "labels"}, P[:1], IMAGE, "it is for kind='probabilities' or 'logits'"),
        ({}, P[:, :0], IMAGE[:, :0], r"shape \(2, 0, 8\) and the image \(1, 0, 8\): one of them is empty"),
        ({"kind": "labels"}, P[:1], IMAGE, "not all integers"),
        ({"kind": "labels"}, np.ones_like(P), IMAGE, "not one-hot"),
        ({"kind": "labels"}, -np.ones_like(P[:1]), IMAGE, "labels range from -1"),
        ({"spacing": (1, 2, 3)}, P, IMAGE, "expected 2 numbers above 0, one for each axis"),
        ({"spacing": (1, -2)}, P, IMAGE, "expected 2 numbers above 0"),
        ({"crf": CRF([Spatial(2, weight=[1, 2, 3])])}, P, IMAGE, "3"),
    ],
)
def test_wrong_input_raises(arguments: dict[str, Any], img: Any, image: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        CRFRefine(**arguments)(img, image)


@pytest.mark.parametrize(
    ("kind", "img", "image", "message"),
    [
        ("probabilities", None, IMAGE, "the segmentation is of type NoneType, expected a tensor or an array"),
        ("probabilities", P, None, "the image is of type NoneType"),
        ("probabilities", P.astype(int), IMAGE, "the probabilities are int64, .* pass kind='labels'"),
        ("logits", P.astype(int), IMAGE, "the logits are int64, expected floating point numbers"),
    ],
)
def test_input_of_another_type_raises(kind: Any, img: Any, image: Any, message: str) -> None:
    with pytest.raises(InputTypeError, match=message):
        CRFRefine(kind)(img, image)


def test_logits_that_are_probabilities_warn_once_and_are_taken_as_logits() -> None:
    image, _, wide = ball((20, 24))
    p = two_classes(wide)
    with pytest.warns(InputWarning, match="the logits are probabilities: .* Pass kind='probabilities'") as caught:
        found = CRFRefine("logits")(p, image)
    assert len(caught) == 1
    # The same logits up to a constant; rounding.
    assert np.allclose(found, refine(np.moveaxis(image, 0, -1), logits=p + 3, data_range=1), atol=1e-5)


def test_a_wrong_affine_raises() -> None:
    broken = MetaTensor(IMAGE)
    broken.affine = np.full((3, 3), np.nan)
    with pytest.raises(InputError, match="the spacing of the affine is"):
        CRFRefine()(P, broken)
    image, pred = MetaTensor(IMAGE, affine=np.diag([1.0, 2, 1])), MetaTensor(P, affine=np.diag([1.0, 1, 1]))
    with pytest.raises(InputError, match="lie differently in space"):
        CRFRefine()(pred, image)


def test_a_missing_image_or_key_raises() -> None:
    with pytest.raises(InputError, match="no item 'image', which image_key names, but 'pred', 'img'"):
        CRFRefined("pred", "image")({"pred": P, "img": IMAGE})
    with pytest.raises(KeyError, match="pred"):
        CRFRefined("pred", "image")({"image": IMAGE})
    assert CRFRefined("pred", "image", allow_missing_keys=True)({}) == {}


def test_unknown_arguments_raise() -> None:
    with pytest.raises(InputTypeError, match="crf is of type int, expected a CRF"):
        CRFRefine(crf=5)
    with pytest.raises(InputError, match="there are 1 kinds for 2 keys"):
        CRFRefined(["pred", "seg"], "image", kind=["probabilities"])
    with pytest.raises(InputTypeError, match="data_range is 'a', expected a number"):
        CRFRefine(data_range="a")(P, IMAGE)  # type: ignore[arg-type]
    with pytest.raises(InputTypeError, match="unknown option 'sigma', expected one of crf"):
        CRFRefine(sigma=3)
    with pytest.raises(InputError, match="kind is 'onehot', expected one of"):
        CRFRefined("pred", "image", kind="onehot")  # type: ignore[arg-type]


def test_an_image_far_beyond_the_data_range_warns() -> None:
    with pytest.warns(InputWarning, match=r"from -1000 to 1000, but data_range is 1.*data_range=2000"):
        CRFRefine()(P, CT)
    CRFRefine(data_range=2000)(P, CT)  # and no warning
    CRFRefine(data_range=505)(P, CT)
    with pytest.warns(InputWarning, match=r"data_range is 495: the CRF sees an edge between any two voxels"):
        CRFRefine(data_range=495)(P, CT)


def test_kernels_that_compare_positions_alone_allow_any_range() -> None:
    spatial = CRF([Spatial(2)])
    for options in ({"crf": spatial}, {"crf": DenseCRF.from_numpy(spatial, 2)}, {"kernels": [Spatial(2)]}):
        CRFRefine(**options)(P, CT)  # and no warning
    with pytest.raises(InputError, match="kernel"):
        CRFRefine(kernels=["spatial"])


def test_an_image_that_fills_a_small_part_of_the_data_range_warns() -> None:
    image, inside, wide = ball((30, 40))
    dark = np.float32(0.05 * image)
    with pytest.warns(InputWarning, match=r"data_range is 1: the CRF sees hardly any edge.*pass data_range=0\.0"):
        lost = CRFRefine()(two_classes(wide), dark)
    found = CRFRefine(data_range=0.05)(two_classes(wide), dark)
    assert dice(found.numpy()[1] > 0.5, inside) > dice(lost.numpy()[1] > 0.5, inside) + 0.05
    CRFRefine()(two_classes(wide), 0 * image)  # a constant image has no edges at any range


def test_ranges_of_channels_are_judged_one_by_one() -> None:
    four = np.concatenate([CT / 2000, 0 * CT, CT / 100, CT / 40000])
    with pytest.warns(InputWarning, match=r"from -10 to 10, but data_range is 1\b"):
        CRFRefine()(P, four)
    CRFRefine(data_range=(1, 1, 20, 1))(P, four)  # one weak channel among others is not warned of
    CRFRefine(crf=CRF([Spatial(2), Bilateral(5, 30)], data_range=255.0))(P, CT)
