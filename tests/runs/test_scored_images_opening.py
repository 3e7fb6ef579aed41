"""Opening score sources, and recognising them again."""

from __future__ import annotations

import os

import numpy as np
import pytest

pytest.importorskip("torch", reason="scores are tensors")
pytest.importorskip("lightning_fabric", reason="training needs it")
pytest.importorskip("pydantic", reason="training needs it")
pytest.importorskip("PIL", reason="images are read by Pillow")

import torch

from densefield.errors import InputError
from densefield.evaluation.evaluation import evaluate
from densefield.runs.build import build_segmenter
from densefield.runs.checkpoint import TrainingState, write_checkpoint
from densefield.runs.run_folder import BEST
from densefield.runs.scored_images import identity, open_scores
from densefield.runs.settings import config_from
from densefield.scenes.files import write_scenes
from densefield.tuning.search import TuningOptions
from densefield.tuning.tune import tune_crf
from tests.support.tiny_voc import TRAIN, VAL, write_voc


def write_logits(folder, ids, shape=(3, 12, 12), seed=59):
    folder.mkdir(exist_ok=True)
    random = np.random.default_rng(seed)
    for id in ids:
        np.savez(folder / f"{id}.npz", logits=random.normal(size=shape).astype(np.float16))
    return folder


def touch(path):
    """Replace a file by another of the same size, a second later."""
    stat = path.stat()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 10**9))


def a_run(folder, data, num_classes):
    """An untrained run on disk."""
    network = {"name": "small_network", "num_classes": num_classes, "pretrained": False, "options": {"width": 32}}
    config = config_from({"data": data, "network": network})
    torch.manual_seed(83)
    state = TrainingState()
    write_checkpoint(folder / BEST, config, build_segmenter(config), {}, state, [])
    return folder


def known_by(scores, data=None, split="val"):
    return identity(open_scores(scores, data, split).about)


def changed(before, after):
    assert before.keys() == after.keys()
    return {name for name in before if before[name] != after[name]}


@pytest.fixture
def scenes(tmp_path):
    """Five scenes in files; 1 to 4 are the split val."""
    write_scenes(tmp_path / "data", 5, (96, 96), 2, 3, val_share=0.8)
    return tmp_path / "data"


@pytest.fixture
def logits(scenes, tmp_path):
    return write_logits(tmp_path / "logits", [path.stem for path in (scenes / "SegmentationClass").iterdir()])


def ids_of(data, split):
    return (data / "ImageSets" / "Segmentation" / f"{split}.txt").read_text().split()


def test_logits_images_and_masks_are_recognised(scenes, logits):
    assert known_by(logits, scenes) == known_by(logits, scenes)
    assert set(known_by(logits, scenes)) == {"scores", "split", "data", "logits", "images and masks"}


@pytest.mark.parametrize(
    ("folder", "what"),
    [("logits", "logits"), ("data/JPEGImages", "images and masks"), ("data/SegmentationClass", "images and masks")],
)
def test_a_replaced_file_is_detected(scenes, logits, tmp_path, folder, what):
    before = known_by(logits, scenes)
    (path,) = (tmp_path / folder).glob(f"{ids_of(scenes, 'val')[2]}.*")
    touch(path)
    assert changed(before, known_by(logits, scenes)) == {what}


def test_a_file_of_another_size_and_the_same_time_is_detected(scenes, logits):
    before, path = known_by(logits, scenes), logits / f"{ids_of(scenes, 'val')[0]}.npz"
    time = path.stat().st_mtime_ns
    np.savez(path, logits=np.zeros((3, 9, 9)))
    os.utime(path, ns=(time, time))
    assert changed(before, known_by(logits, scenes)) == {"logits"}


def test_unused_files_have_no_effect(scenes, logits):
    (logits / f"{ids_of(scenes, 'val')[0]}.npz").unlink()
    before = known_by(logits, scenes)
    unused = [ids_of(scenes, "train")[0], ids_of(scenes, "val")[0]]
    for path in [*scenes.glob("*/*"), *logits.iterdir()]:
        if path.stem in unused:
            touch(path)
    write_logits(logits, ["of_no_image"])
    assert known_by(logits, scenes) == before


def test_results_of_replaced_logits_are_not_resumed(scenes, logits, tmp_path):
    def results():
        opened = open_scores(logits, scenes, "val")
        evaluate(opened.source, None, tmp_path / "eval", ["network"], about=opened.about)

    def trials():
        opened = open_scores(logits, scenes, "val")
        how = TuningOptions(search="none", evaluations=0, iterations=1)
        tune_crf(opened.source, tmp_path / "tune", how, about=opened.about)

    for work in (results, trials, results, trials):
        work()
    write_logits(logits, ids_of(scenes, "val"), seed=60)
    with pytest.raises(InputError, match="holds results of other logits: choose another folder"):
        results()
    with pytest.raises(InputError, match="holds trials on other images or scores"):
        trials()


def test_a_folder_without_recorded_files_is_rejected_with_the_reason(scenes, logits, tmp_path):
    opened = open_scores(logits, scenes, "val")
    old = {name: opened.about[name] for name in ("scores", "split", "data")}
    evaluate(opened.source, None, tmp_path / "eval", ["network"], about=old)
    with pytest.raises(InputError, match="holds results of other logits, images and masks: choose another folder"):
        evaluate(opened.source, None, tmp_path / "eval", ["network"], about=opened.about)


@pytest.mark.parametrize("named", [False, True])
def test_images_and_masks_of_a_run_are_recorded_but_not_its_path(scenes, tmp_path, named):
    run = a_run(tmp_path / "run", {"kind": "folder", "root": str(scenes), "longest_side": 80}, num_classes=3)
    data = scenes if named else None
    before = known_by(run, data)
    run = run.rename(tmp_path / "moved")
    assert known_by(run, data) == known_by(run / BEST, data) == before
    touch(scenes / "SegmentationClass" / f"{ids_of(scenes, 'train')[0]}.png")
    assert known_by(run, data) == before
    touch(scenes / "SegmentationClass" / f"{ids_of(scenes, 'val')[0]}.png")
    assert changed(before, known_by(run, data)) == {"images and masks"}


def test_only_held_out_images_are_recorded(tmp_path):
    voc = write_voc(tmp_path)
    run = a_run(tmp_path / "run", {"kind": "voc2012", "root": str(tmp_path), "held_out": 2}, num_classes=21)
    before = known_by(run, split="held_out")
    for id in (TRAIN[2], VAL[0]):
        touch(voc / "JPEGImages" / f"{id}.jpg")
    assert known_by(run, split="held_out") == before
    touch(voc / "JPEGImages" / f"{TRAIN[1]}.jpg")
    assert changed(before, known_by(run, split="held_out")) == {"images and masks"}


def test_the_folder_of_voc_2012_is_recorded(tmp_path):
    voc, logits = write_voc(tmp_path), write_logits(tmp_path / "logits", VAL, (21, 3, 4))
    before = known_by(logits, tmp_path)
    touch(voc / "SegmentationClass" / f"{VAL[1]}.png")
    assert changed(before, known_by(logits, tmp_path)) == {"images and masks"}


def test_synthetic_scenes_have_no_files(tmp_path):
    run = a_run(tmp_path / "run", {"kind": "scenes", "scenes": {"object_classes": 2}}, num_classes=3)
    assert set(known_by(run)) == {"split", "weights"}


@pytest.mark.parametrize("named", [False, True])
def test_a_folder_without_logits_or_a_checkpoint_is_rejected(scenes, tmp_path, named):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "log.csv").write_text("step\n")
    with pytest.raises(
        InputError, match=r"run is neither a run with a checkpoint nor a folder of scores \(ID\.npz or ID\.npy\)"
    ):
        open_scores(tmp_path / "run", scenes if named else None, "val")


def test_logits_need_the_folder_of_the_data(logits):
    with pytest.raises(InputError, match="holds scores without images: name the folder of the data"):
        open_scores(logits, None, "val")
