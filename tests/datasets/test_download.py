"""PASCAL VOC 2012 and SBD are downloaded, unpacked, counted and read."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

pytest.importorskip("PIL", reason="data need Pillow")
pytest.importorskip("scipy", reason=".mat files need scipy")

from densefield.datasets import VOC2012
from densefield.datasets.download import SBD_ARCHIVE, VOC_ARCHIVE, download_voc2012
from densefield.errors import DensefieldError
from densefield.io import download as download_module
from tests.support.range_server import serve
from tests.support.tiny_voc import EXTRA, TRAIN, packed, write_sbd, write_voc


@pytest.fixture
def archives(tmp_path, official, monkeypatch):
    """Small archives on a local server, with their checksums."""
    monkeypatch.setattr(download_module, "PAUSE", 0.001)
    write_voc(tmp_path / "voc")
    write_sbd(tmp_path / "sbd")
    files = {VOC_ARCHIVE.file: packed(tmp_path / "voc", "w"), SBD_ARCHIVE.file: packed(tmp_path / "sbd", "w:gz")}
    with serve(files) as server:

        def at_server(archive):
            sha256 = hashlib.sha256(files[archive.file]).hexdigest()
            return replace(archive, url=f"{server.url}/{archive.file}", sha256=sha256)

        yield server, (at_server(VOC_ARCHIVE), at_server(SBD_ARCHIVE))


def test_all_splits_but_test_are_complete_and_valid(archives, tmp_path):
    server, both = archives
    downloaded = download_voc2012(tmp_path / "data", archives=both)
    assert downloaded.failures == () and downloaded.report.problems == () and downloaded.report.complete
    assert downloaded.report.checked == 7 and downloaded.report.notes[0] == "test (1 images): does not exist."
    assert VOC2012(tmp_path / "data", "train_aug").ids == (*TRAIN, *EXTRA)
    assert len(server.asked) == 2


def test_complete_splits_are_not_downloaded_again(archives, tmp_path):
    server, both = archives
    download_voc2012(tmp_path / "data", archives=both)
    (tmp_path / "data" / "archives" / "benchmark.tgz").unlink()
    download_voc2012(tmp_path / "data", archives=both)
    assert len(server.asked) == 2


def test_a_removed_file_is_restored_from_the_archive(archives, tmp_path):
    server, both = archives
    download_voc2012(tmp_path / "data", archives=both)
    mask = tmp_path / "data" / "VOCdevkit" / "VOC2012" / "SegmentationClass" / f"{TRAIN[1]}.png"
    mask.unlink()
    downloaded = download_voc2012(tmp_path / "data", archives=both)
    assert mask.exists() and downloaded.report.complete and len(server.asked) == 2


def test_an_interrupted_download_is_resumed(archives, tmp_path):
    server, both = archives
    part = tmp_path / "data" / "archives" / f"{VOC_ARCHIVE.file}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(server.files[VOC_ARCHIVE.file][:5000])
    assert download_voc2012(tmp_path / "data", archives=both).report.complete
    assert server.asked == ["bytes=5000-", None]


def test_if_one_archive_fails_the_other_is_still_downloaded(archives, tmp_path):
    server, both = archives
    del server.files[SBD_ARCHIVE.file]
    downloaded = download_voc2012(tmp_path / "data", archives=both)
    assert len(downloaded.failures) == 1 and "SBD: " in downloaded.failures[0] and "404" in downloaded.failures[0]
    assert downloaded.report.splits[0] == "PASCAL VOC 2012, train: 3 of 3 images"


def test_a_missing_dataset_raises(archives, tmp_path):
    server, both = archives
    server.files.clear()
    with pytest.raises(DensefieldError, match=r"PASCAL VOC 2012: .*404"):
        download_voc2012(tmp_path / "data", archives=both)


def test_a_changed_archive_is_rejected(archives, tmp_path):
    server, both = archives
    server.files[VOC_ARCHIVE.file] += b"\0"
    with pytest.raises(DensefieldError, match="SHA-256"):
        download_voc2012(tmp_path / "data", archives=both)


def test_each_stage_reports_progress(archives, tmp_path):
    stages = {}
    download_voc2012(tmp_path / "data", archives=archives[1], progress=lambda what, *step: stages.update({what: step}))
    names = [f"{verb} {name}" for name in ("PASCAL VOC 2012", "SBD") for verb in ("download", "unpack")]
    assert list(stages) == [*names, "check"]
    assert stages["check"] == (7, 7) and stages[names[0]][0] == stages[names[0]][1]


def test_the_published_archives_are_downloaded():
    assert VOC_ARCHIVE.file == "VOCtrainval_11-May-2012.tar" and SBD_ARCHIVE.file == "benchmark.tgz"
    assert all(len(bytes.fromhex(archive.sha256)) == 32 for archive in (VOC_ARCHIVE, SBD_ARCHIVE))
