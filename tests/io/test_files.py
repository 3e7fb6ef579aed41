"""Files are written completely or not at all, and synced before they are renamed."""

from __future__ import annotations

import os

import pytest

from densefield.io.files import open_atomically, write_atomically


def test_the_content_is_synced_before_the_rename_and_the_folder_after_it(tmp_path, monkeypatch):
    events = []
    true_sync, true_replace = os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda number: (events.append(("sync", os.fstat(number).st_ino)), true_sync(number))
    )
    monkeypatch.setattr(os, "replace", lambda a, b: (events.append(("rename", b)), true_replace(a, b)))
    write_atomically(tmp_path / "below" / "a.txt", b"content")
    path = tmp_path / "below" / "a.txt"
    assert path.read_bytes() == b"content" and list(path.parent.iterdir()) == [path]
    assert events[:2] == [("sync", path.stat().st_ino), ("rename", path)]
    if os.name == "posix":
        assert events[2:] == [("sync", path.parent.stat().st_ino)]


def test_after_an_error_only_the_old_file_exists(tmp_path):
    write_atomically(tmp_path / "a.txt", b"old")
    with pytest.raises(RuntimeError, match="stopped"), open_atomically(tmp_path / "a.txt") as file:
        raise RuntimeError(f"stopped after {file.write(b'half')} bytes")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_a_full_disk_raises_and_names_the_file(tmp_path):
    with pytest.raises(OSError, match=r"No space left on device: .*a\.txt"), open_atomically(tmp_path / "a.txt"):
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []
