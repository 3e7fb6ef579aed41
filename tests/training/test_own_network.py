"""Own networks and data in training: as Python objects, and as functions that settings name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning_fabric", reason="training needs it")
pytest.importorskip("pydantic", reason="training needs it")
pytest.importorskip("tensorboard", reason="training needs it")
pytest.importorskip("PIL", reason="training needs it")

import torch

import densefield
from densefield import Bilateral, DenseCRF, Spatial
from densefield.errors import InputError, InputTypeError
from densefield.networks.small import small_network
from densefield.runs.checkpoint import load_segmenter, read_checkpoint
from densefield.runs.settings import read_config
from densefield.training.entry import train_config
from densefield.training.log import read_log
from tests.support import own_code
from tests.training.test_resuming import last, same, stopping_at

ROOT = Path(__file__).parents[2]
KERNELS = [Spatial(3, weight=3), Bilateral(60, 10, weight=5)]
# The options of tiny_settings.
OPTIONS = {
    "steps": 6,
    "batch": 4,
    "validate_every": 3,
    "checkpoint_every": 2,
    "seed": 3391,
    "workers": 0,
    "crop": (32, 40),
    "scales": (0.5, 1.0),
}
OWN = ["network.name=tests.support.own_code:dropping", "network.options={width = 12}"]
OWN += ["data.kind=tests.support.own_code:pairs", "data.options={changes = true}"]
OWN += ["optimizer.lr_rest=0.02", "optimizer.lr_top=0.02"]


def train_pairs(run, crf=None, *, changes=True, network=None, **options):
    """The run of the settings OWN, with Python objects."""
    if network is None:
        torch.manual_seed(3391)
        network = own_code.dropping(width=12)
    train, val = own_code.pairs("train", changes), own_code.pairs("val")
    return densefield.train(network, crf, train=train, val=val, run=run, **{**OPTIONS, "lr": 0.02, **options})


def equal_logs(one, two):
    return [{**row, "images_per_second": ""} for row in read_log(one)] == [
        {**row, "images_per_second": ""} for row in read_log(two)
    ]


def without_names(checkpoint):
    """A checkpoint without what says where network and data came from."""
    config = {table: dict(values) for table, values in checkpoint["config"].items()}
    for name in ("kind", "options", "root", "scenes"):
        config["data"].pop(name)
    for name in ("name", "options", "pretrained"):
        config["network"].pop(name)
    config["training"].pop("start_from")
    config["crf"].pop("kernels")  # with one width, or with one for each axis
    return {**checkpoint, "config": config, "sha256": ""}


def test_python_objects_train_bit_for_bit_as_the_settings_that_name_their_functions(tiny, tmp_path):
    """Both stages: dropout, batch statistics, random changes of the dataset, and a CRF."""
    train_config(read_config(tiny, OWN), tmp_path / "one")
    alone = train_pairs(tmp_path / "alone")
    assert same(without_names(last(tmp_path / "one")), without_names(last(tmp_path / "alone")))
    assert equal_logs(tmp_path / "one", tmp_path / "alone")
    settings = [*OWN, "training.stage=2", f"training.start_from={tmp_path / 'one'}", "optimizer.lr_crf=0.5"]
    train_config(read_config(tiny, settings), tmp_path / "two")
    crf = DenseCRF(4, KERNELS)
    network = alone.segmenter.network.module  # in evaluation mode now
    joint = train_pairs(tmp_path / "joint", crf, network=network, start_from=alone, steps=4, lr_crf=0.5)
    assert same(without_names(last(tmp_path / "two")), without_names(last(tmp_path / "joint")))
    assert equal_logs(tmp_path / "two", tmp_path / "joint")
    # Network and CRF are those that were passed, with the weights of the best checkpoint.
    assert joint.segmenter.crf is crf and joint.segmenter.network.module is network
    assert not joint.segmenter.training
    assert same(dict(joint.segmenter.state_dict()), dict(read_checkpoint(joint)["model"]))


def test_a_network_of_densefield_trains_as_by_its_settings(tiny, tmp_path):
    """By name, and as a function, which the settings of the run then name; data as densefield's own dataset."""
    best = train_config(read_config(tiny), tmp_path / "config")
    rates = {"lr_top": 0.02, "lr_rest": 0.005}
    how = {"network_options": {"width": 32, "norm": "group"}, "pretrained": False, **OPTIONS, **rates}
    scenes = {split: own_code.scenes(split) for split in ("train", "val")}
    named = densefield.train("small_network", **scenes, run=tmp_path / "named", **how)
    assert named.best == best
    assert same(without_names(last(tmp_path / "named")), without_names(last(tmp_path / "config")))
    how["network_options"] = {"width": 32, "num_classes": 4}
    densefield.train(small_network, data=own_code.scenes, train="train", run=tmp_path / "f", num_classes=4, **how)
    segmenter, config = load_segmenter(tmp_path / "f")
    assert config.network.name == "densefield.networks.small:small_network" and segmenter.network.num_classes == 4
    assert config.data.kind == "tests.support.own_code:scenes" and config.data.val == "val"


@pytest.mark.parametrize("step", [2, 4])
def test_a_stopped_run_resumes_to_the_same_result(tmp_path, monkeypatch, step):
    whole = train_pairs(tmp_path / "whole", KERNELS)
    with stopping_at(monkeypatch, step):
        train_pairs(tmp_path / "stopped", KERNELS)
    torch.rand(step)  # another random state
    resumed = train_pairs(tmp_path / "stopped", KERNELS, resume=True, workers=1)
    assert resumed.best == whole.best
    assert same(without_workers(last(tmp_path / "stopped")), without_workers(last(tmp_path / "whole")))
    with pytest.raises(InputError, match=r"network\.options\.class: .*Dropping, torch\.nn\.modules\.conv\.Conv2d"):
        train_pairs(tmp_path / "whole", KERNELS, network=torch.nn.Conv2d(3, 4, 1), resume=True)


def without_workers(checkpoint):
    checkpoint["config"]["training"].pop("workers")
    return {**checkpoint, "sha256": ""}


def test_two_processes_compute_what_one_computes(tmp_path):
    """A program under torchrun; the network has a layer without gradients and no batch statistics."""
    program = tmp_path / "program.py"
    program.write_text(f"""
import sys, torch, densefield
from tests.support import own_code
torch.manual_seed(5)
network = own_code.dropping()
network.body[1], network.body[3] = torch.nn.Identity(), torch.nn.Identity()
data = {{split: own_code.pairs(split, True) for split in ("train", "val")}}
run = densefield.train(network, [densefield.Spatial(3)], **data, run=sys.argv[1], lr=0.02, **{OPTIONS!r})
print(f"trained {{run.best.nll:.3f}}")
""")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT)}
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    for start, run in (([], "one"), (torchrun, "two")):
        command = [sys.executable, *start, str(program), str(tmp_path / run)]
        answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
        assert answer.returncode == 0, answer.stderr
        assert answer.stdout.count("trained") == (2 if start else 1)
    one, two = (last(tmp_path / run) for run in ("one", "two"))
    assert len(two["rng"]) == 2 and one["position"] == two["position"]
    for name, value in one["model"].items():  # float32 sums in another order
        assert torch.allclose(value, two["model"][name], rtol=1e-5, atol=1e-6), name


def test_the_network_alone_keeps_every_bit_if_it_is_frozen_and_can_be_trained_again(tmp_path):
    network = own_code.dropping(width=12)
    network.head.bias.requires_grad_(False)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    run = train_pairs(tmp_path / "frozen", KERNELS, network=network, frozen=True, lr_crf=0.5)
    assert same(dict(network.state_dict()), before)
    assert run.segmenter.crf.values()["spatial.weight"] != pytest.approx(3, rel=1e-3)
    assert [name for name, each in network.named_parameters() if not each.requires_grad] == ["head.bias"]
    with pytest.raises(InputError, match="frozen is True, but there is no CRF"):
        train_pairs(tmp_path / "nothing", network=network, frozen=True)


def test_frozen_parameters_of_the_crf_and_of_the_network_stay(tmp_path):
    network, crf = own_code.dropping(), DenseCRF(4, KERNELS).freeze("*.log_sigma")
    for parameter in network.body.parameters():
        parameter.requires_grad_(False)
    body, widths = network.body[0].weight.clone(), crf.values()["spatial.sigma"]
    run = train_pairs(tmp_path / "run", crf, network=network, lr_crf=0.5)
    assert torch.equal(network.body[0].weight, body) and crf.values()["spatial.sigma"].tolist() == widths.tolist()
    assert load_segmenter(run, own_code.dropping)[1].crf.freeze == ("spatial.log_sigma", "bilateral.log_sigma")


def test_a_run_of_objects_is_loaded_with_the_object_a_function_or_its_name(tmp_path):
    run = train_pairs(tmp_path / "run", steps=1)
    expected = dict(run.segmenter.state_dict())
    makers = (lambda: own_code.dropping(12), "tests.support.own_code:wide")
    own_code.wide = makers[0]
    try:
        for network in (own_code.dropping(12), *makers):
            assert same(dict(load_segmenter(run, network)[0].state_dict()), expected)
    finally:
        del own_code.wide
    with pytest.raises(InputError, match=r"a Python object \(tests\.support\.own_code\.Dropping\).*module:funct"):
        load_segmenter(run)
    with pytest.raises(InputError, match=r"best\.pt: model: .*shape"):
        load_segmenter(run, own_code.dropping)  # of another width


def test_images_of_any_size_train_without_augmentation_and_with_padding_to_multiples(tmp_path):
    class Pooled(torch.nn.Conv2d):
        def forward(self, image):
            assert image.shape[2] % 8 == image.shape[3] % 8 == 0
            return super().forward(image)

    sizes = [(20, 30), (33, 17), (20, 30), (24, 40)]
    samples = [{"image": torch.zeros(3, *size).byte(), "mask": torch.ones(size).long()} for size in sizes]
    with pytest.raises(InputError, match=r"fails on the image train_000000 of 20×30 .*network\.multiple \(multiple=\)"):
        densefield.train(Pooled(3, 2, 8, 8), train=samples, val=samples, run=tmp_path / "no", steps=1)
    how = {"steps": 2, "batch": 2, "workers": 0, "multiple": 8, "augment": False}
    run = densefield.train(Pooled(3, 2, 8, 8), train=samples, held_out=1, run=tmp_path / "run", **how)
    assert run.segmenter(torch.zeros(1, 3, 21, 23)).shape == (1, 2, 21, 23)
    assert 'val = "held_out"' in (tmp_path / "run" / "config.toml").read_text()


IMAGE, LABELS = torch.zeros(3, 20, 30).byte(), torch.zeros(20, 30).long()
BINARY, BROKEN = torch.nn.Conv2d(3, 1, 1), torch.nn.Conv2d(3, 4, 1)
torch.nn.init.constant_(BROKEN.bias, torch.nan)


class Raising(list):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        raise ValueError("disk on fire")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": [(IMAGE / 255, LABELS)]}, r"train_000000: the image is float32 .*0 to 0.*look like colours 0…1"),
        ({"val": [(IMAGE, LABELS + 4)]}, r"val_000000 has the label 4 at 600 of 600 pixels, expected 0 to 3"),
        ({"val": None}, "val is missing: pass the validation images, or held_out="),
        ({"num_classes": 5}, "the network scores 4 classes, but num_classes is 5"),
        ({"num_classes": 300}, r"\n  num_classes: is 300"),
        ({"network": BINARY}, "there is 1 class, expected 2 or more: a network with one score"),
        ({"network": BINARY, "num_classes": 1}, "there is 1 class, expected 2 or more"),
        ({"network": BROKEN}, "the network's scores of the image train_000000 hold NaN: check its weights"),
        ({"crf": densefield.DenseCRF(3, KERNELS), "num_classes": 4}, "CRF has 3 classes, but num_classes is 4"),
        ({"stepz": 3}, r"no option 'stepz'; did you mean steps\?"),
        ({"steps": 0, "lr_crf": -1.0}, r"cannot be used:\n  lr_crf: is -1\.0; .*\n  steps: is 0; "),
        ({"val": [(IMAGE, LABELS)], "held_out": 1}, "val and held_out are both given"),
        ({"multiple": 0}, r"^the arguments cannot be used:\n  multiple: is 0"),
        ({"mean": 128}, r"\n  mean: is 128"),
        ({"std": (0, 0, 0)}, r"\n  std\.0: is 0; should be greater than 0"),
        ({"top_layers": "2"}, r'\n  top_layers: is "2"'),
        ({"crf": []}, "crf is an empty list, expected one kernel or more, or None for the network alone"),
        ({"crf": Spatial}, r"crf is the class Spatial, expected .* a list of kernels such as \[Spatial\(3\)\]"),
        ({"lr_top": 0.5}, "lr and lr_top are both given"),
        ({"lr_top": 0.5, "lr": ...}, "the top layers of the network are unknown: name them in network.top_layers"),
        ({"top_layers": ("hat",)}, "top has 'hat', which has no parameters; the layers are"),
        ({"network": "unet"}, "network is 'unet', expected a torch.nn.Module, a function"),
        ({"network": own_code.labels_only, "num_classes": 4}, "own_code:labels_only returned an object of type int"),
        ({"network": own_code.failing, "num_classes": 4}, r"raised OSError: weights\.bin cannot be found anywhere"),
        ({"network": "tests.support.own_code:droping", "num_classes": 4}, r"no droping; did you mean dropping\?"),
        ({"network": "tests.nowhere.code:f", "num_classes": 4}, "there is no module tests.nowhere"),
        ({"network": own_code.dropping}, "classes is unknown, since network is a function .*: pass num_classes="),
        (
            {"crf": densefield.DenseCRF(5, KERNELS)},
            "the network scores 4 classes, but the CRF has 5: .*num_classes of the CRF",
        ),
        ({"train": Raising()}, r"^train_000000: reading it raised ValueError: disk on fire\.$"),
        ({"mean": (0.5,) * 3, "std": (0.5,) * 3}, r"expected those of colours 0…255: pass mean=\(127\.5, 127"),
        ({"train": [(IMAGE, LABELS + 255)] * 6}, "train has no labelled pixel: all labels are 255.*all 6 images"),
        ({"crf": 3}, "crf is of type int, expected a DenseCRF, a CRF, a list of kernels"),
        ({"freeze": ("*",)}, "freeze given without a CRF"),
        ({"network_options": {"width": 3}}, "network_options are given, but network is a module"),
        ({"data": own_code.pairs}, "train and val are names of splits, expected text"),
        ({"start_from": "nowhere"}, "there is no nowhere, expected the folder of a run"),
        ({"crf": KERNELS, "precision": "16"}, r"\n  precision: is \"16\""),
    ],
)
def test_wrong_arguments_are_named_before_anything_is_written(tmp_path, changes, message):
    arguments = {"network": own_code.dropping(), "crf": None, "train": [(IMAGE, LABELS)], "val": [(IMAGE, LABELS)]}
    arguments |= {"lr": 0.1, "workers": 0, **changes}
    arguments = {name: value for name, value in arguments.items() if value is not ...}
    network, crf = arguments.pop("network"), arguments.pop("crf")
    with pytest.raises((InputError, InputTypeError), match=message):
        densefield.train(network, crf, run=tmp_path / "run", **arguments)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (None, "run is None, expected the name of a folder"),
        (__file__ + "/run", r"test_own_network\.py is a file, expec"),
    ],
)
def test_a_run_that_cannot_be_a_folder_is_an_error(run, message):
    with pytest.raises((InputError, InputTypeError), match=message):
        densefield.train(own_code.dropping(), **{**ONE_STEP, "run": run})


def test_the_settings_of_a_run_of_objects_do_not_name_places_and_weights_that_it_does_not_use(tmp_path):
    densefield.train(own_code.dropping(), **ONE_STEP, run=tmp_path / "run")
    text = (tmp_path / "run" / "config.toml").read_text()
    assert 'kind = "object"' in text and "crop" in text
    assert all(each not in text for each in ("root", "scenes", "pretrained"))
    config = read_config(tmp_path / "run" / "config.toml")
    assert config.model_dump(mode="json") == last(tmp_path / "run")["config"]


@pytest.mark.parametrize("classes", [2, 3])
def test_masks_of_0_and_255_are_warned_of(tmp_path, classes):
    masks = [(IMAGE, torch.where(torch.arange(30) < 9, 255, 0).expand(20, 30))] * 2
    how = {"steps": 1, "batch": 1, "workers": 0, "crop": (16, 16)}
    with pytest.warns(densefield.InputWarning, match="labels of train are only 0 and 255 in 2 images, and 255 is void"):
        densefield.train(
            torch.nn.Conv2d(3, classes, 1), train=masks, val=[(IMAGE, LABELS)], run=tmp_path / "run", **how
        )


def test_data_that_are_only_void_where_they_are_looked_at_are_warned_of(tmp_path):
    masks = [(IMAGE, LABELS + 255)] * 9
    masks[8] = (IMAGE, LABELS)
    how = {"steps": 1, "batch": 1, "workers": 0, "crop": (16, 16), "val": [(IMAGE, LABELS)], "run": tmp_path / "run"}
    with pytest.warns(densefield.InputWarning, match="labels of train are only 255 in 4 images"):
        densefield.train(torch.nn.Conv2d(3, 2, 1), train=masks, **how)


ONE_STEP = {
    "steps": 1,
    "batch": 1,
    "workers": 0,
    "crop": (16, 16),
    "train": [(IMAGE, LABELS)],
    "val": [(IMAGE, LABELS)],
}


class LastAxis(torch.nn.Conv2d):
    """A network whose class axis is the last one."""

    def forward(self, image):
        return super().forward(image).movedim(1, -1)


@pytest.mark.parametrize(
    ("stride", "options", "shape"),
    [
        (1, {"num_classes": 3}, r"1, 20, 30, 3"),
        (1, {}, r"1, 20, 30, 3"),
        (4, {"num_classes": 3}, r"1, 5, 8, 3"),
        (4, {}, r"1, 5, 8, 3"),
        (1, {"multiple": 32}, r"1, 32, 32, 3"),
    ],
)
def test_scores_whose_class_axis_is_the_last_are_named(tmp_path, stride, options, shape):
    with pytest.raises(
        InputError, match=rf"scores of shape \({shape}\) for .* the class axis must be the second.*movedim\(-1, 1\)"
    ):
        densefield.train(LastAxis(3, 3, 5, stride, 2), **ONE_STEP, **options, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_few_scores_of_many_classes_are_not_taken_for_another_order_of_axes(tmp_path):
    """Scores (1, 20, 1, 3): as many classes as the image has rows, and as many columns as there should be classes."""
    network = torch.nn.Conv2d(3, 20, (20, 10), (20, 10))
    with pytest.raises(InputError, match="the network scores 20 classes, but num_classes is 3"):
        densefield.train(network, **ONE_STEP, num_classes=3, run=tmp_path / "run")


@pytest.mark.parametrize("crf", [None, KERNELS])
def test_a_run_that_diverges_says_what_to_check(tmp_path, crf):
    class Huge(torch.nn.Conv2d):
        def forward(self, image):
            return 1e6 * super().forward(image) - 1e6 * torch.tensor([1.0, 0]).view(2, 1, 1)

    how = {"steps": 1, "batch": 1, "workers": 0, "crop": (16, 16), "run": tmp_path / "run"}
    with pytest.raises(densefield.training.Diverged, match=r"Nothing was learnt yet: .*normalisation.*mean") as caught:
        densefield.train(Huge(3, 2, 1), crf, train=[(IMAGE, LABELS)], val=[(IMAGE, LABELS)], **how)
    assert ("CRF" in str(caught.value)) == (crf is not None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ["network.name=tests.support.own_code:failing", "network.options={}"],
            r"^network\.name: .*own_code\.failing\(\) raised OSError: weights\.bin cannot be found anywhere\.$",
        ),
        (
            ["network.name=tests.support.own_code:labels_only", "network.options={}"],
            "labels_only returned an object of type int, expected a torch.nn.Module",
        ),
        (
            ["network.name=tests.support.own_code:dropping"],
            r"dropping\(width=32, norm='group'\) raised TypeError: .*norm",
        ),
        (["network.name=own_unet:build"], "network.name is 'own_unet:build', but there is no module own_unet"),
        (["network.name=unet"], 'network.name=unet: is "unet", expected deeplab_vgg16, .* package.module:function'),
        (["network.mean=[0, 0, 0]"], "mean is set, but small_network has its own"),
        (["data.kind=tests.support.own_code:endless"], r"endless was called for 'train', and of what .*no length"),
        (["data.options={seed = 3}"], "options are for a kind such as package.module:function, and the kind is scenes"),
        (["data.kind=object"], "the data of the split 'train' were Python objects"),
        (["data.augment=false"], "augment is false, but crop is set"),
        ([*OWN, "network.num_classes=5"], r"pairs|the network scores 4 classes, but num_classes is 5"),
        ([*OWN, "network.embedding=2"], "embedding is 2, but no kernel compares it|has none"),
    ],
)
def test_wrong_settings_are_one_error_before_anything_is_written(tiny, tmp_path, settings, message):
    with pytest.raises((InputError, InputTypeError), match=message):
        train_config(read_config(tiny, settings), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_convergent_inference_with_a_learnt_matrix_is_refused_before_training(tmp_path):
    matrix = DenseCRF(3, [Spatial(3, weight=torch.eye(3).numpy())], inference="convergent", exclude_self=True)
    with pytest.raises(InputError, match=r"spatial\.matrix is learnt .*\"per_label\".* to freeze.*\"parallel\""):
        train_pairs(tmp_path / "run", matrix, num_classes=3)
    assert not (tmp_path / "run").exists()
