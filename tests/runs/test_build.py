"""Settings select networks, CRFs, optimisers and data."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning_fabric", reason="training needs it")
pytest.importorskip("pydantic", reason="training needs it")
pytest.importorskip("tensorboard", reason="training needs it")
pytest.importorskip("PIL", reason="training needs it")

import torch
from PIL import Image

from densefield.crf.crf_file import write_crf
from densefield.crf.kernels import Bilateral, Spatial
from densefield.datasets.sample import Subset
from densefield.errors import InputError
from densefield.networks.inputs import IMAGENET
from densefield.nn.dense_crf import DenseCRF
from densefield.runs.build import build_crf, build_network, build_segmenter
from densefield.runs.config import CRFConfig, DataConfig, NetworkConfig
from densefield.runs.settings import read_config
from densefield.runs.splits import build_datasets, default_split, open_split
from densefield.training.optimizer import augmentation, build_optimizer
from tests.support.tiny_voc import TRAIN, VAL, write_voc


def photo_kernels(compatibility):
    """The default kernels with weights of another form."""
    return tuple({**kernel, "compatibility": compatibility} for kernel in CRFConfig().kernels)


def test_the_crf_is_used_in_stage_2_only(tiny):
    assert build_segmenter(read_config(tiny)).crf is None
    assert build_segmenter(read_config(tiny, ["training.stage=2"])).crf is not None
    assert build_segmenter(read_config(tiny, ["training.stage=2", "crf.enabled=false"])).crf is None


@pytest.mark.parametrize(
    ("name", "options", "kind"),
    [
        ("deeplab_vgg16", {"fc6": "large-fov"}, "DeepLabVGG16"),
        ("deeplab_efficientnet_lite0", {"output_stride": 8}, "DeepLabEfficientNetLite0"),
        ("small_network", {"width": 32}, "SmallNetwork"),
    ],
)
def test_networks_are_built_by_name(name, options, kind):
    network = build_network(NetworkConfig(name=name, num_classes=5, pretrained=False, options=options))
    assert type(network).__name__ == kind and network.num_classes == 5
    assert augmentation(DataConfig(), network.normalization).fill == network.normalization.fill


def test_the_crf_of_the_paper_has_nine_parameters():
    values = build_crf(CRFConfig(), num_classes=21).values()
    assert {name: np.shape(value) for name, value in values.items()} == {
        "spatial.sigma": (2,),
        "spatial.weight": (),
        "bilateral.sigma": (5,),
        "bilateral.weight": (),
    }


@pytest.mark.parametrize(("compatibility", "shape"), [("potts", ()), ("per_label", (4,)), ("matrix", (4, 4))])
def test_compatibilities_start_as_the_same_potts_model(compatibility, shape):
    scores = torch.randn(1, 4, 6, 7, generator=torch.Generator().manual_seed(631))
    image = torch.randint(256, (1, 3, 6, 7), generator=torch.Generator().manual_seed(632))
    crf = build_crf(CRFConfig(kernels=photo_kernels(compatibility)), num_classes=4)
    assert np.shape(crf.values()["bilateral.weight"]) == shape
    # The same sums in another order, of logarithms up to 10.
    assert torch.allclose(crf(scores, image), build_crf(CRFConfig(), num_classes=4)(scores, image), atol=1e-4)


def test_the_crf_has_the_kernels_and_options_that_are_listed():
    kernels = ({"kind": "spatial", "sigma": 2}, {"kind": "spatial", "sigma": [7, 9], "normalization": "after"})
    crf = build_crf(CRFConfig(kernels=kernels, iterations=3, halo=1, operator="pydensecrf"), num_classes=4)
    assert set(crf.values()) == {"spatial.sigma", "spatial.weight", "spatial2.sigma", "spatial2.weight"}
    assert [kernel.normalization for kernel in crf.to_numpy().kernels] == ["symmetric", "after"]
    assert (crf.options.iterations, crf.options.halo, crf.options.operator) == (3, 1, "pydensecrf")


def test_joint_training_starts_from_a_tuned_crf(tiny, tmp_path):
    tuned = DenseCRF(4, [Spatial([2.5, 3.5], weight=[1, 2, 3, 4]), Bilateral([50, 40], [9, 8, 7], weight=0.7)])
    write_crf(tmp_path / "crf.toml", tuned.to_numpy())
    config = read_config(tiny, ["training.stage=2", f"crf.file={tmp_path / 'crf.toml'}"])
    start = build_segmenter(config).crf
    for name, value in tuned.state_dict().items():
        assert torch.equal(start.state_dict()[name], value)


def test_frozen_parameters_are_not_in_the_optimiser(tiny):
    config = read_config(tiny, ["training.stage=2", "crf.freeze=['*.log_sigma']"])
    (group,) = (
        g for g in build_optimizer(config.optimizer, build_segmenter(config)).param_groups if g["name"] == "crf"
    )
    assert [tuple(each.shape) for each in group["params"]] == [(), ()]


def test_a_pattern_that_freezes_nothing_is_rejected():
    with pytest.raises(ValueError, match=r"matches none of spatial\.log_sigma, spatial\.log_weight, bilateral\.log_s"):
        CRFConfig(freeze=("*.sigma",))


@pytest.mark.parametrize("compatibility", ["potts", "per_label", "matrix"])
def test_the_error_of_a_pattern_lists_the_parameters(compatibility):
    kernels = (*photo_kernels(compatibility), {"kind": "spatial", "covariance": [[9, 1], [1, 4]]})
    names = [name for name, _ in build_crf(CRFConfig(kernels=kernels), num_classes=4).named_parameters()]
    assert "spatial2.lower" in names
    frozen = build_crf(CRFConfig(kernels=kernels, freeze=tuple(names)), num_classes=4)
    assert not any(parameter.requires_grad for parameter in frozen.parameters())


def test_top_rest_and_crf_have_separate_learning_rates_and_the_crf_has_no_weight_decay(tiny):
    config = read_config(tiny, ["training.stage=2"])
    optimizer = build_optimizer(config.optimizer, build_segmenter(config))
    rates = {group["name"]: (group["initial_lr"], group["weight_decay"]) for group in optimizer.param_groups}
    assert rates["top"] == pytest.approx((0.02, 0.0005)) and rates["rest"] == pytest.approx((0.005, 0.0005))
    assert rates["top biases"] == pytest.approx((0.04, 0.0)) and rates["crf"] == (0.5, 0.0)


def test_validation_scenes_are_not_training_scenes(tiny):
    train, val = build_datasets(read_config(tiny))
    assert (len(train), len(val)) == (10, 3) and not set(train.ids) & set(val.ids)


def test_a_limit_on_validation_images_spreads_them_evenly(tiny):
    _, val = build_datasets(read_config(tiny, ["data.scenes.val_images=10", "data.val_images=4"]))
    assert [int(name[-2:]) for name in val.ids] == [10, 12, 15, 17]


def test_a_subset_has_the_named_images(tiny):
    train, _ = build_datasets(read_config(tiny))
    part = Subset(train, [7, 2])
    assert part.ids == (train.ids[7], train.ids[2]) and np.array_equal(part[1].image, train[2].image)


def with_voc(tiny, root, *more):
    """Settings for a copy of VOC 2012 with three training images and two others."""
    return read_config(tiny, ["data.kind=voc2012", f"data.root={root}", "network.num_classes=21", *more])


def test_held_out_images_are_not_trained_on(tiny, tmp_path):
    config = with_voc(tiny, write_voc(tmp_path), "data.held_out=2", "data.val=held_out", "data.longest_side=5")
    train, val = build_datasets(config)
    assert val.ids == (TRAIN[0], TRAIN[1]) and train.ids == (TRAIN[2],)
    assert val[0].image.shape[1] == 5 and val[0].image.shape[:2] == val[0].labels.shape
    assert open_split(config, "val").ids == VAL  # the validation split stays complete


def test_not_all_images_can_be_held_out(tiny, tmp_path):
    root = write_voc(tmp_path)
    with pytest.raises(InputError, match=r"data\.held_out is 9, but train has 3 images"):
        build_datasets(with_voc(tiny, root, "data.held_out=9"))
    with pytest.raises(InputError, match="no images are held out"):
        open_split(with_voc(tiny, root), "held_out")


def write_folder(root, *names):
    """Images and masks of a dataset in files, without split lists."""
    for folder in ("images", "masks"):
        (root / folder).mkdir(parents=True)
        for name in names:
            Image.fromarray(np.zeros((8, 9), np.uint8)).save(root / folder / f"{name}.png")
    (root / "classes.txt").write_text("background\na\nb\nc\n")
    return root


def test_a_folder_without_split_lists_is_trained_on_without_held_out_images(tiny, tmp_path):
    root = write_folder(tmp_path / "data", *"abcdef")
    config = read_config(tiny, ["data.kind=folder", f"data.root={root}", "data.held_out=2"])
    train, val = build_datasets(config)
    assert train.ids == ("b", "c", "e", "f") and val.ids == ("a", "d")
    assert open_split(config, default_split(config.data)).ids == val.ids  # the split of the evaluation
    explicit = read_config(tiny, ["data.kind=folder", f"data.root={root}", "data.held_out=2", "data.val=held_out"])
    assert build_datasets(explicit)[1].ids == val.ids and default_split(explicit.data) == "held_out"


def test_a_folder_without_split_lists_is_not_validated_on_training_images(tiny, tmp_path):
    root = write_folder(tmp_path / "data", *"abcdef")
    with pytest.raises(InputError, match=r"no split lists, so validation would use .*images\. Set data\.held_out"):
        build_datasets(read_config(tiny, ["data.kind=folder", f"data.root={root}"]))


def test_a_split_of_another_name_needs_a_list(tiny, tmp_path):
    root = write_folder(tmp_path / "data", *"abcdef")
    settings = ["data.kind=folder", f"data.root={root}", "data.held_out=2", "data.train=fit"]
    with pytest.raises(InputError, match=r"the split is 'fit', but .*data has no split lists"):
        build_datasets(read_config(tiny, settings))


@pytest.mark.parametrize(
    ("settings", "split"),
    [((), "val"), (("data.val=train",), "train"), (("data.held_out=1", "data.val=held_out"), "val")],
)
def test_a_run_is_evaluated_on_the_split_of_validation_or_on_val(tiny, tmp_path, settings, split):
    assert default_split(with_voc(tiny, write_voc(tmp_path), *settings).data) == split


@pytest.mark.parametrize("split", ["train", "val"])
def test_a_split_without_masks_is_rejected(tiny, tmp_path, split):
    for folder in ("images", "masks", "splits"):
        (tmp_path / folder).mkdir()
    (tmp_path / "classes.txt").write_text("background\na\nb\nc\n")
    for name in ("train", "val", "test"):
        (tmp_path / "splits" / f"{name}.txt").write_text(f"{name}\n")
        for kind in ("images", "masks") if name != "test" else ("images",):
            Image.fromarray(np.zeros((8, 9), np.uint8)).save(tmp_path / kind / f"{name}.png")
    with pytest.raises(InputError, match="the images of 'test' have no masks"):
        build_datasets(read_config(tiny, ["data.kind=folder", f"data.root={tmp_path}", f"data.{split}=test"]))


def test_labels_of_network_and_data_must_agree(tiny):
    with pytest.raises(InputError, match=r"network\.num_classes is 7, but the data have 4 classes"):
        build_datasets(read_config(tiny, ["network.num_classes=7"]))


def test_augmentation_is_that_of_the_settings(tiny):
    how = augmentation(read_config(tiny).data, IMAGENET)
    assert (how.crop, how.scales, how.mirror, how.jitter) == ((32, 40), (0.5, 1.0), True, 0.2)
