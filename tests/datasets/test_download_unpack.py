"""Archives are unpacked inside their folder only."""

from __future__ import annotations

import io
import tarfile

import numpy as np
import pytest

pytest.importorskip("PIL", reason="datasets need Pillow")
from densefield.datasets.download import unpack
from densefield.errors import InputError

FILES = {"top.txt": b"top", "a/b/deep.bin": np.random.default_rng(881).bytes(50_000), "a/empty": b""}


def write_tar(path, entries, mode="w"):
    with tarfile.open(path, mode) as tar:
        for entry in entries:
            member, content = entry if isinstance(entry, tuple) else (entry, b"")
            if isinstance(member, str):
                member = tarfile.TarInfo(member)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def link(name: str, target: str, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def tree(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_files_are_unpacked_unchanged(tmp_path, mode):
    archive = write_tar(tmp_path / "archive.tgz", FILES.items(), mode)
    steps = []
    unpack(archive, tmp_path / "out", lambda done, total: steps.append((done, total)))
    assert tree(tmp_path / "out") == FILES
    assert len(steps) == 3 and all(0 < done <= total == archive.stat().st_size for done, total in steps)


def test_folders_of_an_archive_are_created(tmp_path):
    folder = tarfile.TarInfo("a/b")
    folder.type = tarfile.DIRTYPE
    unpack(write_tar(tmp_path / "a.tar", [folder]), tmp_path / "out")
    assert (tmp_path / "out" / "a" / "b").is_dir()


def test_existing_files_are_replaced_and_others_stay(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "top.txt").write_bytes(b"older and longer")
    (tmp_path / "out" / "mine").write_bytes(b"mine")
    unpack(write_tar(tmp_path / "a.tar", FILES.items()), tmp_path / "out")
    assert tree(tmp_path / "out") == {**FILES, "mine": b"mine"}


@pytest.mark.parametrize(
    "name",
    ["../evil", "a/../../evil", "/tmp/evil-of-densefield", "..\\evil", "C:\\evil", "C:evil", "\\\\host\\share\\evil"],
)
def test_members_that_lead_out_of_the_folder_raise(tmp_path, name):
    archive = write_tar(tmp_path / "evil.tar", [("fine", b"fine"), (name, b"evil")])
    with pytest.raises(InputError, match=r"evil\.tar has an entry .* which leads out of .*out: do not trust it"):
        unpack(archive, tmp_path / "out")
    assert {path.name for path in tmp_path.rglob("*")} == {"evil.tar", "out", "fine"}


@pytest.mark.parametrize(
    "member",
    [
        link("a", "../secret", tarfile.SYMTYPE),
        link("a", "/etc", tarfile.SYMTYPE),
        link("a", "fine", tarfile.SYMTYPE),
        link("a", "../secret", tarfile.LNKTYPE),
        link("a", "", tarfile.CHRTYPE),
        link("a", "", tarfile.BLKTYPE),
        link("a", "", tarfile.FIFOTYPE),
    ],
)
def test_links_and_devices_raise(tmp_path, member):
    (tmp_path / "secret").write_bytes(b"secret")
    archive = write_tar(tmp_path / "evil.tar", [("fine", b"fine"), member, ("a", b"evil"), ("a/x", b"evil")])
    with pytest.raises(InputError, match=r"entry 'a' that is a link or a device: do not trust it"):
        unpack(archive, tmp_path / "out")
    assert tree(tmp_path / "out") == {"fine": b"fine"} and (tmp_path / "secret").read_bytes() == b"secret"


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_truncated_archive_leaves_no_partial_file(tmp_path, mode):
    archive = write_tar(tmp_path / "a.tar", FILES.items(), mode)
    archive.write_bytes(archive.read_bytes()[:20_000])
    with pytest.raises(InputError, match=r"a\.tar cannot be unpacked into .*out"):
        unpack(archive, tmp_path / "out")
    assert tree(tmp_path / "out").items() <= FILES.items() and "a/b/deep.bin" not in tree(tmp_path / "out")


def test_a_file_that_is_not_an_archive_raises(tmp_path):
    (tmp_path / "page.tar").write_text("<html>" * 500, encoding="utf-8")
    with pytest.raises(InputError, match=r"page\.tar cannot be unpacked"):
        unpack(tmp_path / "page.tar", tmp_path / "out")
    with pytest.raises(InputError, match=r"no file .*gone\.tar"):
        unpack(tmp_path / "gone.tar", tmp_path / "out")


def test_an_invalid_file_name_raises_an_input_error(tmp_path):
    with pytest.raises(InputError, match="cannot be unpacked"):
        unpack(write_tar(tmp_path / "a.tar", [("x" * 300, b"x")]), tmp_path / "out")
