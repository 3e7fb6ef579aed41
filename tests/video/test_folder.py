"""`refine_folder` and `densefield refine --video`: order, gaps, forms of masks, resuming, errors before any result."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("rich", reason="the command line needs rich")
Image = pytest.importorskip("PIL.Image", reason="the command line needs Pillow")

from typer.testing import CliRunner  # noqa: E402

from densefield import InputError, InputWarning  # noqa: E402
from densefield.cli.app import app  # noqa: E402
from densefield.images import RefineSettings, voc_palette  # noqa: E402
from densefield.video import refine_clip, refine_folder, refine_stream  # noqa: E402
from densefield.video.sequence import check_gaps, natural_key  # noqa: E402
from tests.support.moving_disc import moving_disc  # noqa: E402

CLIP = moving_disc(11)


def write_clip(folder, masks=CLIP.rough, suffix=".png"):
    """Frames f0.png to f10.png, and masks of the same names."""
    for name in ("frames", "masks"):
        (folder / name).mkdir(exist_ok=True)
    for t, (frame, mask) in enumerate(zip(CLIP.frames, masks, strict=True)):
        Image.fromarray(frame).save(folder / "frames" / f"f{t}.png")
        if suffix == ".npy":
            np.save(folder / "masks" / f"f{t}.npy", mask)
        else:
            Image.fromarray(mask).save(folder / "masks" / f"f{t}{suffix}")


@pytest.fixture
def here(tmp_path, monkeypatch):
    write_clip(tmp_path, CLIP.rough * np.uint8(255))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*options: str):
    return CliRunner().invoke(app, ["refine", "frames", "masks", "-o", "out", "--video", *options])


def read(path) -> np.ndarray:
    with Image.open(path) as picture:
        return np.array(picture)


def results(folder) -> np.ndarray:
    paths = sorted(folder.iterdir(), key=lambda path: natural_key(path.stem))
    assert [path.stem for path in paths] == [f"f{t}" for t in range(11)]
    return np.array([np.load(path) if path.suffix == ".npy" else read(path) for path in paths])


def test_the_command_does_what_refine_clip_does(here):
    answer = command("--frames-per-window", "8", "--frame-step", "3", "--iterations", "4")
    assert (answer.exit_code, answer.output) == (0, "densefield: refined: 11 frames\n")
    options = {"window": 8, "frame_step": 3.0, "iterations": 4, "data_range": 255}
    expected = [q.argmax(axis=0) for q in refine_clip(CLIP.frames, labels=CLIP.rough, **options)]
    assert np.array_equal(results(here / "out"), np.array(expected) * 255)  # binary as the masks


def test_frames_of_12_bits_in_16_have_one_scale(here):
    grey = [frame[..., 0].astype(np.uint16) * 16 for frame in CLIP.frames]
    grey[3] //= 2  # a darker frame stays darker
    for t, frame in enumerate(grey):
        Image.fromarray(frame).save(here / "frames" / f"f{t}.png")
    with pytest.warns(InputWarning, match="the percentiles 0.5 and 99.5 of all frames become 0 and 255"):
        refine_folder("frames", "masks", "out", threads=1)
    ends = [np.percentile(frame, (0.5, 99.5)) for frame in grey]
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    levels = [np.clip((frame - low) / (high - low), 0, 1) * 255 for frame in grey]
    expected = [q.argmax(0) for q in refine_clip(levels, labels=CLIP.rough, data_range=255)]
    assert np.mean(results(here / "out") != np.array(expected) * 255) < 1e-3  # levels are rounded to float32


@pytest.mark.parametrize(("deep", "message"), [(0, "has 8 bits, but .*f0.png has 16"), (5, "f5.png has 16 bits, but")])
def test_frames_of_8_and_16_bits_are_an_error(here, deep, message):
    for t, frame in enumerate(CLIP.frames):
        grey = frame[..., 0]
        Image.fromarray(grey.astype(np.uint16) * 257 if t == deep else grey).save(here / "frames" / f"f{t}.png")
    with pytest.raises(InputError, match=message):
        refine_folder("frames", "masks", "out", threads=1)


def test_causal_does_what_refine_stream_does(here):
    assert command("--causal", "--format", "npy").exit_code == 0
    expected = refine_stream(zip(CLIP.frames, CLIP.rough, strict=True), data_range=255)
    assert np.array_equal(results(here / "out"), np.array(list(expected)))


def test_an_interrupted_run_is_resumed_with_the_same_results(here):
    assert command("--frames-per-window", "8").exit_code == 0
    whole = results(here / "out")
    stamps = {path.name: path.stat().st_mtime_ns for path in (here / "out").iterdir()}
    for t in (9, 10):
        (here / "out" / f"f{t}.png").unlink()
    answer = command("--frames-per-window", "8", "--skip-existing")
    assert answer.output == "densefield: refined: 2 frames; skipped, since the result exists: 9\n"
    assert np.array_equal(results(here / "out"), whole)
    assert all((here / "out" / f"f{t}.png").stat().st_mtime_ns == stamps[f"f{t}.png"] for t in range(9))
    assert "refined: 0 frames" in command("--skip-existing").output


def test_ctrl_c_keeps_what_is_written(here, monkeypatch):
    from densefield.video import folder

    original = folder.write_result

    def interrupted(path, *arguments):
        if path.name == "f3.png":
            signal.raise_signal(signal.SIGINT)
        original(path, *arguments)

    monkeypatch.setattr(folder, "write_result", interrupted)
    answer = command()
    assert answer.exit_code == 130
    assert "interrupted after 3 of 11 frames. To resume, add --skip-existing." in answer.output
    assert sorted(path.name for path in (here / "out").iterdir()) == ["f0.png", "f1.png", "f2.png"]


def test_a_palette_is_kept(tmp_path, monkeypatch):
    write_clip(tmp_path, CLIP.rough * np.uint8(5))
    for path in (tmp_path / "masks").iterdir():
        picture = Image.fromarray(read(path))
        picture.putpalette(voc_palette().tobytes())
        picture.save(path)
    monkeypatch.chdir(tmp_path)
    assert command("--decode", "iou").exit_code == 0
    with Image.open(tmp_path / "out" / "f4.png") as picture:
        assert picture.mode == "P" and np.array_equal(
            np.array(picture.getpalette()[:768]).reshape(-1, 3), voc_palette()
        )
        assert set(np.unique(picture)) == {0, 5}


def test_colours_are_numbered_alike_in_all_frames(tmp_path, monkeypatch):
    colours = np.array([[20, 30, 40], [200, 10, 10], [10, 200, 10]], np.uint8)
    labels = CLIP.rough * np.arange(1, 3).repeat(6)[:11, None, None]  # red first, then green
    write_clip(tmp_path, colours[labels])
    monkeypatch.chdir(tmp_path)
    assert command("--causal").exit_code == 0
    for t in (1, 9):
        with Image.open(tmp_path / "out" / f"f{t}.png") as picture:
            found = np.unique(np.array(picture.convert("RGB")).reshape(-1, 3), axis=0)
        assert found.tolist() == sorted(colours[[0, 1 if t < 6 else 2]].tolist())


@pytest.mark.parametrize("values", [(0, 15), (0, 1), (0, 128), (0, 255), (0, 300)])
def test_a_frame_in_which_the_object_is_missed_has_the_values_of_the_others(tmp_path, monkeypatch, values):
    masks = np.array(values, np.uint16 if max(values) > 255 else np.uint8)[CLIP.rough]
    masks[5] = 0
    write_clip(tmp_path, masks)
    monkeypatch.chdir(tmp_path)
    assert command().exit_code == 0
    found = results(tmp_path / "out")
    assert set(np.unique(found)) == set(values) and (found[5] == values[1]).any()


@pytest.mark.parametrize("foreground, unknown, options", [(1, 255, ()), (3, 255, ()), (255, 128, ("--void", "128"))])
def test_frames_of_unknown_pixels_take_labels_from_the_frames_around_them(
    tmp_path, monkeypatch, foreground, unknown, options
):
    masks = CLIP.rough * np.uint8(foreground)
    masks[6] = unknown
    write_clip(tmp_path, masks)
    monkeypatch.chdir(tmp_path)
    assert command(*options).exit_code == 0
    found = results(tmp_path / "out")[6]
    assert set(np.unique(found)) == {0, foreground}
    assert ((found > 0) != CLIP.truth[6]).mean() < 0.02


def test_unknown_pixels_of_palette_masks_are_no_label(tmp_path, monkeypatch):
    from densefield.images.palette import voc_palette

    write_clip(tmp_path, CLIP.rough * np.uint8(15))
    for t in range(4):
        picture = Image.fromarray(np.where(CLIP.rough[t] > 0, 255, 0).astype(np.uint8))
        picture.putpalette(voc_palette().tobytes())
        picture.save(tmp_path / "masks" / f"f{t}.png")
    for t in range(4, len(CLIP.rough)):
        picture = Image.open(tmp_path / "masks" / f"f{t}.png")
        picture.putpalette(voc_palette().tobytes())
        picture.save(tmp_path / "masks" / f"f{t}.png")
    monkeypatch.chdir(tmp_path)
    for name in (["--causal"], []):
        assert command(*name).exit_code == 0
        assert set(np.unique(results(tmp_path / "out"))) <= {0, 15}


def test_a_frame_of_a_coloured_clip_may_hold_greys_alone(tmp_path, monkeypatch):
    colours = np.array([[0, 0, 0], [250, 10, 10], [250, 250, 250]], np.uint8)
    masks = colours[np.where(CLIP.rough > 0, np.where(np.arange(len(CLIP.rough)) == 3, 2, 1)[:, None, None], 0)]
    write_clip(tmp_path, masks)
    monkeypatch.chdir(tmp_path)
    assert command().exit_code == 0
    grey = np.where(CLIP.rough[..., None] > 0, colours[2], colours[0])
    write_clip(tmp_path, grey)
    answer = command()
    assert answer.exit_code == 2 and "three channels are equal" in " ".join(answer.output.split())


def test_errors_name_the_frame_by_its_file(tmp_path, monkeypatch):
    logits = np.stack([1.0 - CLIP.rough, CLIP.rough], axis=1).astype(np.float32) * 3
    logits[7, 0, 2, 2] = np.nan
    write_clip(tmp_path, logits, ".npy")
    monkeypatch.chdir(tmp_path)
    answer = command("--logits", "--format", "npy")
    assert answer.exit_code == 2 and "frame f7: " in answer.output, answer.output


def test_scores_in_arrays_are_refined(tmp_path, monkeypatch):
    logits = np.stack([1.0 - CLIP.rough, CLIP.rough], axis=1).astype(np.float32) * 3
    write_clip(tmp_path, logits, ".npy")
    monkeypatch.chdir(tmp_path)
    assert command("--logits", "--format", "npy", "--temperature", "1.5").exit_code == 0
    expected = np.array(list(refine_clip(CLIP.frames, logits=logits, temperature=1.5, data_range=255)))
    assert np.array_equal(results(tmp_path / "out"), expected)


def test_soft_masks_give_soft_results(tmp_path, monkeypatch):
    write_clip(tmp_path, CLIP.rough * np.uint8(150) + np.uint8(50))
    monkeypatch.chdir(tmp_path)
    assert command("--soft").exit_code == 0
    assert len(np.unique(results(tmp_path / "out"))) > 10


def remove(*paths: str):
    return lambda folder: [(folder / path).unlink() for path in paths]


def resize(path: str):
    return lambda folder: Image.fromarray(read(folder / path)[1:]).save(folder / path)


def of_labels(folder):
    Image.fromarray(CLIP.rough[4] * np.uint8(3)).save(folder / "masks" / "f4.png")


@pytest.mark.parametrize(
    "change, message",
    [
        (remove("masks/f2.png", "masks/f10.png"), r"frames without a mask in frames: 2 (f2.png, f10.png). For frames"),
        (remove("frames/f3.png"), "masks without a frame in masks: 1 (f3.png)"),
        (remove("frames/f3.png", "masks/f3.png"), "frames are missing between f2.png and f4.png"),
        (resize("frames/f7.png"), "frames/f7.png has 46 × 33 pixels (width × height), but frames/f0.png has 46 × 34"),
        (resize("masks/f7.png"), "masks/f7.png has 46 × 33 pixels"),
        (of_labels, "f0.png is a binary mask such as 0/255, but masks/f4.png holds other labels. If 255 is unknown, "
         "pass --void 255; if it is a label"),
        (lambda folder: shutil.copy(folder / "frames" / "f1.png", folder / "frames" / "f1.bmp"), "have the same name"),
        (lambda folder: (folder / "frames" / "f5.png").write_bytes(b"none"), "f5.png is not an image"),
    ],
)  # fmt: skip
def test_wrong_folders_are_errors_before_any_result(here, change, message):
    change(here)
    answer = command()
    assert answer.exit_code == 2 and message in answer.output.replace("\\", "/"), answer.output
    assert not (here / "out").exists()


def test_frames_may_be_numbered_in_steps_or_not_at_all():
    times = ["f0", "f33", "f67", "f100"]
    for names in (["a000_x", "a005_x", "a010_x"], ["first", "second"], ["take1", "cut3", "cut9"], ["0001"], times):
        check_gaps([Path(f"{name}.png") for name in names])
    with pytest.raises(InputError, match=r"between 10\.png and 20\.png: other numbers rise by 5"):
        check_gaps([Path(f"{number}.png") for number in (5, 10, 20, 25)])


@pytest.mark.parametrize(
    "names",
    [
        ["s1", "s01"],
        ["s1", "s2", "s02", "s3"],
        ["a5_x", "a05_x"],
        ["7", "0007", "8"],
        ["cut1_take2", "cut01_take2", "end"],
    ],
)
def test_two_frames_of_one_number_are_an_error_that_names_both(names):
    one, other = [name for name in names if sum(natural_key(name) == natural_key(each) for each in names) > 1]
    with pytest.raises(InputError, match=f"{one}.png and {other}.png have the same number.*rename or remove one"):
        check_gaps([Path(f"{name}.png") for name in names])


def test_two_frames_of_one_number_are_an_error_before_any_result(here):
    for name in ("frames", "masks"):
        shutil.copy(here / name / "f1.png", here / name / "f01.png")
    answer = command()
    assert answer.exit_code == 2 and "f01.png and f1.png have the same number" in answer.output, answer.output
    assert not (here / "out").exists()


@pytest.mark.parametrize("empty", [("frames", "masks"), ("frames",), ("masks",)])
def test_folders_without_pictures_are_named(here, empty):
    for name in empty:
        for path in (here / name).iterdir():
            path.unlink()
    answer = command()
    expected = f"densefield: {empty[0]} is empty: expected {empty[0]} such as f1.png (.bmp, "
    assert answer.exit_code == 2 and answer.output.startswith(expected), answer.output
    assert answer.output.count("\n") == 1 and (".npy" in answer.output) == (empty[0] == "masks")
    (here / empty[0] / "notes.txt").touch()
    (here / empty[0] / "day1").mkdir()
    expected = f"densefield: {empty[0]} has no {empty[0]}, but notes.txt, day1: expected {empty[0]} such as f1.png"
    assert command().output.startswith(expected)


@pytest.mark.parametrize(
    "options, message",
    [
        (["--crf", "crf.toml"], "it is not for video"),
        (["--sigma", "2"], "it is not for video"),
        (["--recursive"], "it is not for video"),
        (["--preview", "p"], "it is not for video"),
        (["--spacing", "1,1,2"], "it is not for video"),
        (["--causal", "--frames-per-window", "8"], "it needs the frame before alone"),
        (["--causal", "--skip-existing"], "the marginals of finished frames are not kept"),
        (["--frame-step", "0"], "not a finite number above 0"),
        (["--frames-per-window", "3"], "Invalid value for '--frames-per-window'"),
    ],
)
def test_options_that_do_not_fit_are_errors(here, options, message):
    (here / "crf.toml").touch()
    answer = command(*options)
    assert answer.exit_code == 2 and message in " ".join(answer.output.replace("│", "").split()), answer.output
    assert not (here / "out").exists()


@pytest.mark.parametrize("options", [["--causal"], ["--frame-step", "3"], ["--frames-per-window", "8"]])
def test_options_of_video_need_video(here, options):
    answer = CliRunner().invoke(app, ["refine", "frames", "masks", "-o", "out", *options])
    assert answer.exit_code == 2 and "add --video" in " ".join(answer.output.replace("│", "").split())


def test_settings_of_photos_and_volumes_are_errors_in_python(here):
    for settings in (RefineSettings(explain=True), RefineSettings(tile=64), RefineSettings(confidence=0.8)):
        with pytest.raises(InputError, match="is not for video: leave it out"):
            refine_folder("frames", "masks", "out", settings)
    with pytest.raises(InputError, match="expected a folder of frames and a folder of masks"):
        refine_folder("frames/f0.png", "masks/f0.png", "out.png")


@pytest.mark.parametrize("numbers, odd", [((0, 33, 67, 167, 200), "100 from 67.png to 167.png"), ((0, 33, 67), None)])
def test_times_of_very_different_steps_are_a_warning(numbers, odd):
    frames = [Path(f"{number}.png") for number in numbers]
    if odd is None:
        check_gaps(frames)
        return
    with pytest.warns(UserWarning, match=rf"rise by 33.5 \(median\), but by {odd}, and 1 of 4 steps differ"):
        check_gaps(frames)


@pytest.mark.parametrize("options", [(), ("--void", "255"), ("--causal",)])
def test_a_clip_without_a_label_is_an_error(here, options):
    for path in (here / "masks").iterdir():
        Image.fromarray(np.full_like(CLIP.rough[0], 255)).save(path)
    answer = command(*options)
    assert answer.exit_code == 2 and "all pixels of all masks are 255" in answer.output
    assert not (here / "out").exists()


def test_one_frame_that_is_left_is_counted_as_one(here):
    assert command().exit_code == 0
    (here / "out" / "f4.png").unlink()
    assert "refined: 1 frame; skipped, since the result exists: 10" in command("--skip-existing").output
