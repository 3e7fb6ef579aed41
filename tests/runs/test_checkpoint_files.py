"""Checkpoints that are damaged, invalid or cannot be written give a one-line error with file and field."""

from __future__ import annotations

import copy
import errno
import io
import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning_fabric", reason="training needs it")
pytest.importorskip("pydantic", reason="training needs it")
pytest.importorskip("tensorboard", reason="training needs it")
pytest.importorskip("PIL", reason="training needs it")

import torch

from densefield.errors import InputError
from densefield.runs.build import build_segmenter
from densefield.runs.checkpoint import TrainingState, load_segmenter, read_checkpoint, start_from, write_checkpoint
from densefield.runs.checkpoint_checks import content_digest
from densefield.runs.settings import read_config
from densefield.training.entry import train_config
from tests.training.test_resuming import same


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The configuration of a small run after two steps, and its last checkpoint."""
    from tests.support.tiny_settings import TINY

    folder = tmp_path_factory.mktemp("made")
    settings = folder / "tiny.toml"
    settings.write_text(TINY, encoding="utf-8")
    torch.set_num_threads(1)
    train_config(read_config(settings, ["training.steps=4", "training.checkpoint_every=2"]), folder / "run")
    return settings, folder / "run" / "checkpoints" / "previous.pt"


def test_a_flipped_bit_is_detected(made, tmp_path):
    _, path = made
    whole, good = path.read_bytes(), read_checkpoint(path)
    random, refused = np.random.default_rng(20611), 0
    for place in random.integers(0, 8 * len(whole), 200):
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << int(place % 8)
        (tmp_path / "flipped.pt").write_bytes(flipped)
        try:
            content = read_checkpoint(tmp_path / "flipped.pt")
        except InputError as error:
            refused += "flipped.pt" in str(error) and "\n" not in str(error)
        else:
            refused += 1  # an unused bit, such as padding
            assert same(content, good)
    assert refused == 200


def changed(content, *place, value):
    """A copy with one changed value."""
    new = copy.deepcopy(content)
    inner = new
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return new


def network_name(content) -> str:
    return next(name for name in content["model"] if name.startswith("network."))


WRONG = {
    "step": [-1, 2.0, "2", None, True, 2**70, torch.tensor(2)],
    "stage": [0, 3, "1", None, 2],
    "best": ["high", 0.5, [1, 2], [0.5], [0.5, float("inf")], [0.5, 0.1, 0.2], torch.tensor([0.5, 0.1])],
    "position": [[0], [0, -1], [0.0, 1], (0, 1, 2), None, "01", [[0], 1], {"epoch": 0}],
    "rng": [
        None,
        {},
        [None],
        [{}],
        [{"cpu": torch.zeros(7)}],
        [{"cpu": "state"}],
        [{"cpu": torch.zeros(9, dtype=torch.uint8)}],
    ],
    "config": [None, [], "settings", {"training": {"steps": -1}}, {"unknown": 1}, {"network": {"num_classes": 4}}],
    "optimizer": [None, [], "sgd", 5],
    "model": [None, [], {}, {"network.x": 1.0}, {1: torch.zeros(1)}, {"other.weight": torch.zeros(1)}],
    "sha256": [None, 5, "", "0" * 64],
}


@pytest.mark.parametrize(
    ("field", "number"), [(field, n) for field, values in WRONG.items() for n in range(len(values))]
)
def test_a_wrong_field_is_rejected_in_one_line_with_its_name(made, tmp_path, field, number):
    content = changed(read_checkpoint(made[1]), field, value=WRONG[field][number])
    if field != "sha256":
        content["sha256"] = content_digest(content)
    torch.save(content, tmp_path / "wrong.pt")
    with pytest.raises(InputError) as caught:
        load_segmenter(tmp_path / "wrong.pt")
    said = str(caught.value)
    assert said.startswith(str(tmp_path / "wrong.pt")) and "\n" not in said
    assert f"{field}: " in said or (field == "sha256" and "checksum" in said) or "model: " in said


@pytest.mark.parametrize(
    "value",
    [
        torch.zeros(2, 2),
        torch.full((1,), torch.nan),
        torch.zeros(1, dtype=torch.complex64),
        torch.zeros(4, 4).to_sparse(),
        torch.zeros(1).expand(1 << 40),
    ],
    ids=["shape", "nan", "complex", "sparse", "expanded"],
)
@pytest.mark.filterwarnings("ignore")  # torch warns of sparse tensors
def test_invalid_weights_are_rejected_in_one_line(made, tmp_path, value):
    good = read_checkpoint(made[1])
    content = changed(good, "model", network_name(good), value=value)
    if value.dtype == torch.float32 and value.layout == torch.strided and value.numel() < 1000:
        content["sha256"] = content_digest(content)
    torch.save(content, tmp_path / "odd.pt")
    with pytest.raises(InputError, match=r"odd\.pt: model: ") as caught:
        load_segmenter(tmp_path / "odd.pt")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("drop", ["model", "optimizer", "rng", "sha256"])
def test_a_missing_and_an_unknown_field_are_named(made, tmp_path, drop):
    content = read_checkpoint(made[1])
    kept = {name: value for name, value in content.items() if name != drop}
    torch.save(kept, tmp_path / "less.pt")
    with pytest.raises(InputError, match=rf"less\.pt is not the checkpoint of a run: it lacks {drop}"):
        read_checkpoint(tmp_path / "less.pt")
    torch.save(content | {"sha257": ""}, tmp_path / "more.pt")
    with pytest.raises(InputError, match=r"more\.pt .* unknown field 'sha257'"):
        read_checkpoint(tmp_path / "more.pt")


def test_a_run_does_not_start_from_a_checkpoint_without_a_network(made, tmp_path):
    settings, path = made
    content = read_checkpoint(path)
    content["model"] = {"crf.spatial.log_weight": torch.zeros(())}
    torch.save(content | {"sha256": content_digest(content)}, tmp_path / "bare.pt")
    with pytest.raises(InputError, match=r"bare\.pt: model: holds no weights of a network"):
        start_from(build_segmenter(read_config(settings)), tmp_path / "bare.pt")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("state",), None),
        (("param_groups",), []),
        (("param_groups", 0, "params"), [5]),
        (("param_groups", 0), "group"),
        (("state", 0), {"momentum_buffer": torch.zeros(2, 9)}),
        (("state", 0), {"momentum_buffer": torch.tensor([torch.inf])}),
        (("state", 0), {"momentum_buffer": "none"}),
        (("state", 99), {}),
    ],
)
def test_the_state_of_another_optimiser_is_rejected_when_a_run_is_resumed(made, tmp_path, place, value):
    settings, path = made
    content = changed(read_checkpoint(path), "optimizer", *place, value=value)
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    last = tmp_path / "run" / "checkpoints" / "last.pt"
    torch.save(content | {"sha256": content_digest(content)}, last)
    config = read_config(settings, ["training.steps=4", "training.checkpoint_every=2"])
    with pytest.raises(InputError, match=r"last\.pt: optimizer: ") as caught:
        train_config(config, tmp_path / "run", resume=True)
    assert "\n" not in str(caught.value)


def test_learning_rates_of_a_checkpoint_do_not_replace_the_settings(made, tmp_path):
    settings, path = made
    config = read_config(settings, ["training.steps=4", "training.checkpoint_every=2"])
    content = changed(read_checkpoint(path), "optimizer", "param_groups", 0, "rate", value="fast")
    for name, each in (("good", read_checkpoint(path)), ("odd", content)):
        (tmp_path / name / "checkpoints").mkdir(parents=True)
        torch.save(each | {"sha256": content_digest(each)}, tmp_path / name / "checkpoints" / "last.pt")
        train_config(config, tmp_path / name, resume=True)
    ends = [read_checkpoint(tmp_path / name / "checkpoints" / "last.pt") for name in ("good", "odd")]
    assert same(ends[0], ends[1])


def test_the_checksum_depends_on_every_part():
    base = {"a": [1, 2.0, "x", None, True], "b": {"t": torch.arange(6.0).reshape(2, 3)}}
    others = [
        {"a": [1, 2.0, "x", None, 1], "b": base["b"]},
        {"a": [1, 2, "x", None, True], "b": base["b"]},
        {"a": [1, -2.0, "x", None, True], "b": base["b"]},
        {"a": base["a"], "c": base["b"]},
        {"a": base["a"], "b": {"t": torch.arange(6.0).reshape(3, 2)}},
        {"a": base["a"], "b": {"t": torch.arange(6.0).reshape(2, 3).double()}},
        {"a": base["a"], "b": {"t": torch.arange(6.0).reshape(2, 3)}, "d": []},
        {"a": [[1, 2.0, "x", None, True]], "b": base["b"]},
    ]
    assert len({content_digest(each) for each in [base, *others]}) == 1 + len(others)
    strided = {"a": base["a"], "b": {"t": base["b"]["t"].t().contiguous().t()}}
    assert content_digest(strided) == content_digest(base)


def test_a_full_disk_raises_and_leaves_no_file(tmp_path, tiny, monkeypatch):
    config = read_config(tiny)
    state = TrainingState()
    path = tmp_path / "run" / "last.pt"
    arguments = (path, config, build_segmenter(config), {}, state, [])
    write_checkpoint(*arguments)
    before = path.read_bytes()

    def full(number):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)  # delayed write errors appear here
    with pytest.raises(OSError, match=r"No space left on device: .*last\.pt"):
        write_checkpoint(*arguments)
    assert [each.name for each in path.parent.iterdir()] == ["last.pt"] and path.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limits on the size of files")
def test_a_failed_checkpoint_is_explained_and_leaves_no_partial_file(tmp_path, tiny):
    # A file size limit simulates a full disk: both are errors of write().
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000)); "
        "sys.argv = ['densefield', *sys.argv[1:]]; from densefield.cli.main import main; main()"
    )
    command = [sys.executable, "-c", code, "train", str(tiny), "--run", str(tmp_path / "run")]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert answer.returncode == 2 and "Traceback" not in answer.stderr
    assert "last.pt: File too large." in answer.stderr or "best.pt: File too large." in answer.stderr
    assert list((tmp_path / "run" / "checkpoints").iterdir()) == []


def test_a_compressed_archive_is_not_unpacked(tmp_path):
    import zipfile

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(10_000_000))
    (tmp_path / "bomb.pt").write_bytes(buffer.getvalue())
    with pytest.raises(InputError, match=r"bomb\.pt is compressed"):
        read_checkpoint(tmp_path / "bomb.pt")
