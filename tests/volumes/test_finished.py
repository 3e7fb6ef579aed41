"""Interrupted runs resume with the tiles that are not finished, and give the result of a run without interruption."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from densefield import CRF, InputError, Spatial
from densefield.io.files import remove_left_behind
from densefield.volumes import refine_file, refining
from densefield.volumes.finished import FinishedTiles, fingerprint, input_state, tiles_folder
from densefield.volumes.label_plan import LabelPlan
from tests.support.volume_files import land_raster, read_geotiff, write_geotiff

pytest.importorskip("rasterio", reason="GeoTIFF needs rasterio")
CASE = land_raster(3)
SIDE = 50  # 12 tiles


def kept_tile(folder, number):
    """The file of a finished tile, None if there is none."""
    return next(tiles_folder(folder / "out.tif").glob(f"{number}.*.z"), None)


@pytest.fixture
def here(tmp_path, monkeypatch):
    write_geotiff(tmp_path / "image.tif", CASE.image)
    write_geotiff(tmp_path / "mask.tif", CASE.rough)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Counter:
    """Counts the tiles that are computed, and interrupts the run after some."""

    def __init__(self, monkeypatch):
        self.count, self.most = 0, 99
        real = LabelPlan.labels

        def labels(plan, sample):
            if self.count == self.most:
                raise KeyboardInterrupt
            self.count += 1
            return real(plan, sample)

        monkeypatch.setattr(LabelPlan, "labels", labels)

    def run(self, most=99, out="out.tif", **options):
        self.count, self.most = 0, most
        if most == 99:
            refine_file("image.tif", "mask.tif", out, **{"tile": SIDE} | options)
        else:
            with pytest.raises(KeyboardInterrupt):
                refine_file("image.tif", "mask.tif", out, **{"tile": SIDE} | options)
        return self.count


@pytest.fixture
def counter(monkeypatch):
    return Counter(monkeypatch)


def test_an_interrupted_run_resumes_with_the_same_result(here, counter):
    assert counter.run(out="whole.tif") == 12
    counter.run(5)
    assert tiles_folder(here / "out.tif").is_dir() and not (here / "out.tif").exists()
    seen = []
    assert counter.run(progress=lambda done, total: seen.append((done, total)), threads=1) == 7
    assert seen[-1] == (12, 12)
    assert np.array_equal(read_geotiff("out.tif"), read_geotiff("whole.tif"))
    assert sorted(path.name for path in here.iterdir()) == ["image.tif", "mask.tif", "out.tif", "whole.tif"]


@pytest.mark.parametrize("options", [{"roughness": 3.0}, {"tile": 60}, {"window": (0, 3000)}, {"spacing": (1, 2)}])
def test_other_options_start_anew(here, counter, options):
    counter.run(11)
    assert counter.run(**options) > 8


def test_another_crf_starts_anew():
    one, other = (CRF([Spatial(2, weight=weight)]) for weight in (1, 1.5))
    keys = [fingerprint("state", crf) for crf in (one, other, CRF([Spatial(2, weight=1)]))]
    assert keys[0] == keys[2] != keys[1]


def test_threads_of_a_crf_do_not_start_anew(here):
    def stopping(done, total):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        refine_file("image.tif", "mask.tif", "out.tif", tile=SIDE, crf=CRF(threads=1), progress=stopping)
    first, seen = kept_tile(here, 0), []
    again = {"crf": CRF(threads=2), "progress": lambda done, total: seen.append(first.exists())}
    refine_file("image.tif", "mask.tif", "out.tif", tile=SIDE, **again)
    assert seen and all(seen)


def test_another_input_starts_anew(here, counter):
    counter.run(11)
    write_geotiff(here / "image.tif", CASE.image // 2)
    assert counter.run() == 12


def test_another_input_of_the_same_size_and_time_starts_anew(here, counter):
    before = (here / "image.tif").stat()
    counter.run(11)
    write_geotiff(here / "other.tif", np.ascontiguousarray(CASE.image[::-1]))
    os.utime(here / "other.tif", ns=(before.st_atime_ns, before.st_mtime_ns))
    (here / "other.tif").replace(here / "image.tif")
    after = (here / "image.tif").stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert counter.run() == 12


def test_an_input_that_changes_during_a_run_starts_anew(here, counter, monkeypatch):
    real = refining.make_plan

    def changing(*given):
        plan = real(*given)
        os.utime(here / "mask.tif")
        return plan

    monkeypatch.setattr(refining, "make_plan", changing)
    counter.run(11)
    monkeypatch.setattr(refining, "make_plan", real)
    assert counter.run() == 12


def test_tiles_of_a_run_with_other_options_at_the_same_time_are_not_taken(here, counter):
    counter.run(out="whole.tif", roughness=3.0)
    other = FinishedTiles(here / "out.tif", "0123456789abcdef", np.dtype(np.uint8))

    def meanwhile(done, total):
        other.write(done, np.full((50, 50), 7, np.uint8))

    counter.run(out="out.tif", roughness=3.0, progress=meanwhile)
    assert counter.count == 12
    assert np.array_equal(read_geotiff("out.tif"), read_geotiff("whole.tif"))


def test_a_run_whose_tiles_are_removed_meanwhile_computes_them_again(here, counter):
    counter.run(out="whole.tif")

    def removing(done, total):
        if done == 7:
            shutil.rmtree(tiles_folder(here / "out.tif"))

    assert counter.run(progress=removing) == 12 + 7
    assert np.array_equal(read_geotiff("out.tif"), read_geotiff("whole.tif"))


def test_wrong_input_leaves_no_tiles(here, monkeypatch):
    real, seen = LabelPlan.labels, []

    def labels(plan, sample):
        seen.append(len(list(tiles_folder(here / "out.tif").glob("*"))))
        if len(seen) == 4:
            raise InputError("a damaged block")
        return real(plan, sample)

    monkeypatch.setattr(LabelPlan, "labels", labels)
    with pytest.raises(InputError, match="a damaged block"):
        refine_file("image.tif", "mask.tif", "out.tif", tile=SIDE)
    assert seen == [0, 1, 2, 3]
    assert sorted(path.name for path in here.iterdir()) == ["image.tif", "mask.tif"]


def test_a_full_disk_keeps_the_tiles_and_the_earlier_result(here, counter):
    resource = pytest.importorskip("resource", reason="only Unix limits the size of files")
    write_geotiff(here / "out.tif", CASE.rough)
    earlier = (here / "out.tif").read_bytes()
    counter.run(out="whole.tif")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((here / "whole.tif").stat().st_size - 20, limits[1]))
    try:
        with pytest.raises(OSError, match=r"disk may be full: 'out\.tif'"):
            refine_file("image.tif", "mask.tif", "out.tif", tile=SIDE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (here / "out.tif").read_bytes() == earlier
    names = {path.name for path in here.iterdir()}
    assert names == {".out.tif.tiles", "image.tif", "mask.tif", "out.tif", "whole.tif"}
    assert counter.run() == 0
    assert np.array_equal(read_geotiff("out.tif"), read_geotiff("whole.tif"))


def test_a_damaged_tile_is_computed_again(here, counter):
    counter.run(out="whole.tif")
    counter.run(5)
    kept_tile(here, 2).write_bytes(b"no tile")
    assert counter.run() == 8
    assert np.array_equal(read_geotiff("out.tif"), read_geotiff("whole.tif"))


def test_a_zarr_result_inside_its_image_does_not_change_the_fingerprint(tmp_path):
    image = tmp_path / "image.zarr"
    for folder in ("labels", "0", "labels/1"):
        (image / folder).mkdir(parents=True)
    for name in (".zattrs", "0/0", "labels/.zattrs", "labels/1/0"):
        (image / name).write_bytes(b"chunk")
    out = image / "labels" / "0"  # whose name is that of the finest level too
    before = input_state(out, (image,))
    FinishedTiles(out, "key", np.dtype(np.uint8)).write(0, np.zeros(3, np.uint8))
    (image / "labels" / ".0123abcd.part.0").mkdir()
    for folder in ("0", ".0123abcd.part.0"):
        (image / "labels" / folder).mkdir(exist_ok=True)
        (image / "labels" / folder / "0").write_bytes(b"result")
    assert input_state(out, (image,)) == before
    for name in (".zattrs", "0/0", "labels/.zattrs", "labels/1/0"):
        (image / name).write_bytes(b"another")
        assert input_state(out, (image,)) != before
        before = input_state(out, (image,))


def test_files_that_a_killed_process_left_are_removed(here, counter):
    (here / ".0123abcd.part.out.tif").write_bytes(b"half")
    (here / ".0123abcd.part.other.tif").write_bytes(b"of another run")
    counter.run()
    assert not (here / ".0123abcd.part.out.tif").exists() and (here / ".0123abcd.part.other.tif").exists()
    (here / "out.tif").rename(here / ".0123abcd.before.out.tif")  # killed between two renames
    remove_left_behind(here / "out.tif")
    assert (here / "out.tif").exists()


@pytest.mark.skipif(os.name == "nt", reason="signals differ on Windows")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_command_resumes_after_a_signal(here, number):
    for module in ("typer", "rich", "PIL"):
        pytest.importorskip(module, reason="the command line needs it")
    large = land_raster(1, (900, 900))
    write_geotiff(here / "image.tif", large.image)
    write_geotiff(here / "mask.tif", large.rough)
    command = [sys.executable, "-m", "densefield", "refine", "image.tif", "mask.tif", "--tile", "40", "--threads", "1"]
    run = subprocess.Popen([*command, "-o", "out.tif"], stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while time.monotonic() < end and kept_tile(here, 3) is None:
        time.sleep(0.005)
    run.send_signal(number)
    _, messages = run.communicate(timeout=60)
    assert run.returncode == (130 if number == signal.SIGINT else -number)
    if number == signal.SIGINT:
        assert "of 529 tiles. To resume, run the same command." in messages
    first = kept_tile(here, 0)
    time_of_first = first.stat().st_mtime_ns
    refine_file("image.tif", "mask.tif", "whole.tif", tile=40)
    seen = []

    def progress(done, total):
        seen.append(first.stat().st_mtime_ns)

    refine_file("image.tif", "mask.tif", "out.tif", iterations=5, tile=40, progress=progress)
    assert set(seen) == {time_of_first}
    assert np.array_equal(read_geotiff("out.tif"), read_geotiff("whole.tif"))
    assert {path.name for path in here.iterdir()} == {"image.tif", "mask.tif", "out.tif", "whole.tif"}
