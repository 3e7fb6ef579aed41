"""`densefield data`: exit codes and reports."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("rich", reason="the command line needs rich")
Image = pytest.importorskip("PIL.Image", reason="the command line needs Pillow")

from typer.testing import CliRunner  # noqa: E402

from densefield.cli.app import app  # noqa: E402
from densefield.datasets import download as voc_download  # noqa: E402
from densefield.datasets import voc  # noqa: E402
from tests.support.range_server import serve  # noqa: E402
from tests.support.tiny_voc import OFFICIAL, TRAIN, packed, write_sbd, write_voc  # noqa: E402


def command(*arguments: object):
    return CliRunner().invoke(app, ["data", *map(str, arguments)])


@pytest.fixture
def official(monkeypatch):
    """Numbers of images at which the small copy of PASCAL VOC is complete."""
    for split, count in OFFICIAL.items():
        monkeypatch.setitem(voc.OFFICIAL, split, count)


@pytest.fixture
def folder(tmp_path):
    for name in "ab":
        for place, shape in (("images", (6, 5, 3)), ("masks", (6, 5))):
            (tmp_path / place).mkdir(exist_ok=True)
            Image.fromarray(np.full(shape, 1, np.uint8)).save(tmp_path / place / f"{name}.png")
    (tmp_path / "classes.txt").write_text("ground\nsky\n", encoding="utf-8")
    return tmp_path


def test_a_valid_dataset_exits_with_0(folder):
    answer = command("check", folder)
    assert answer.exit_code == 0
    assert answer.stdout.splitlines() == [
        f"{folder.name}, all: 2 images",
        "images per class: ground 0, sky 2",
        "note: classes that occur in no mask: ground.",
        "images checked: 2; problems: 0",
    ]


def test_invalid_files_are_listed_and_exit_with_1(folder):
    Image.fromarray(np.full((6, 5), 2, np.uint8)).save(folder / "masks" / "a.png")
    (folder / "masks" / "b.png").unlink()
    answer = command("check", folder, "--threads", 1)
    assert answer.exit_code == 1
    first, second, last = answer.stdout.splitlines()[-3:]
    assert first.startswith("problem: ") and "b.png has no mask" in first
    assert second.startswith("problem: ") and "a.png has label 2" in second
    assert last == "images checked: 1; problems: 2"


def test_a_folder_without_a_dataset_exits_with_2(tmp_path):
    answer = command("check", tmp_path)
    assert answer.exit_code == 2 and answer.stdout == "" and "neither images/ and masks/" in answer.stderr


def test_sbd_may_be_named(tmp_path, official):
    write_voc(tmp_path / "voc")
    write_sbd(tmp_path / "more")
    answer = command("check", tmp_path / "voc", "--sbd", tmp_path / "more")
    assert answer.exit_code == 0 and "train_aug: 5 of 5 images" in answer.stdout


@pytest.fixture
def mirror(tmp_path, official, monkeypatch):
    """A server with small archives that match the expected checksums."""
    pytest.importorskip("scipy", reason=".mat files need scipy")
    write_voc(tmp_path / "voc")
    write_sbd(tmp_path / "sbd")
    files = {"voc.tar": packed(tmp_path / "voc", "w"), "sbd.tgz": packed(tmp_path / "sbd", "w:gz")}
    for name, file in (("VOC_ARCHIVE", "voc.tar"), ("SBD_ARCHIVE", "sbd.tgz")):
        archive = replace(getattr(voc_download, name), sha256=hashlib.sha256(files[file]).hexdigest())
        monkeypatch.setattr(voc_download, name, archive)
    with serve(files) as server:
        yield server


def test_voc2012_is_downloaded_from_mirrors(mirror, tmp_path):
    options = ("--voc-url", f"{mirror.url}/voc.tar", "--sbd-url", f"{mirror.url}/sbd.tgz")
    answer = command("voc2012", tmp_path / "data", *options)
    assert answer.exit_code == 0, answer.stderr
    assert "PASCAL VOC 2012, train_aug: 5 of 5 images" in answer.stdout
    assert answer.stdout.splitlines()[-1] == "images checked: 7; problems: 0"
    assert [line.removeprefix("densefield: ") for line in answer.stderr.splitlines()] == [
        "download PASCAL VOC 2012",
        "unpack PASCAL VOC 2012",
        "download SBD",
        "unpack SBD",
        "check",
    ]


def test_failed_downloads_are_reported_and_exit_with_1(mirror, tmp_path):
    options = ("--voc-url", f"{mirror.url}/voc.tar", "--sbd-url", f"{mirror.url}/gone")
    answer = command("voc2012", tmp_path / "data", *options)
    assert answer.exit_code == 1
    assert answer.stdout.splitlines()[-1].startswith("missing: SBD: ") and "404" in answer.stdout


def test_an_incomplete_archive_exits_with_1(mirror, tmp_path, monkeypatch):
    folder = tmp_path / "voc" / "VOCdevkit" / "VOC2012"
    for path in (folder / "JPEGImages" / f"{TRAIN[0]}.jpg", folder / "SegmentationClass" / f"{TRAIN[0]}.png"):
        path.unlink()
    mirror.files["voc.tar"] = packed(tmp_path / "voc", "w")
    sha256 = hashlib.sha256(mirror.files["voc.tar"]).hexdigest()
    monkeypatch.setattr(voc_download, "VOC_ARCHIVE", replace(voc_download.VOC_ARCHIVE, sha256=sha256))
    options = ("--voc-url", f"{mirror.url}/voc.tar", "--sbd-url", f"{mirror.url}/sbd.tgz")
    answer = command("voc2012", tmp_path / "data", *options)
    assert answer.exit_code == 1 and "train: 2 of 3 images (a partial copy)" in answer.stdout


def test_if_all_downloads_fail_it_exits_with_2(mirror, tmp_path):
    options = ("--voc-url", f"{mirror.url}/gone", "--sbd-url", f"{mirror.url}/gone")
    answer = command("voc2012", tmp_path / "data", *options)
    assert answer.exit_code == 2 and answer.stdout == "" and "404 Not Found" in answer.stderr


@pytest.mark.parametrize("arguments", [["voc2012"], ["check"], ["scenes"]])
def test_a_file_in_place_of_a_folder_exits_with_2(tmp_path, arguments):
    (tmp_path / "file").touch()
    answer = command(*arguments, tmp_path / "file")
    assert answer.exit_code == 2 and "'DIR'" in answer.stderr and "is a file" in answer.stderr
    below = command(*arguments, tmp_path / "file" / "folder")
    assert below.exit_code == 2 and isinstance(below.exception, SystemExit)  # not an unhandled exception
    assert "Not a directory" in below.stderr or "does not exist" in below.stderr
