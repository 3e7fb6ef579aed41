"""`densefield refine`: options arrive, exit codes tell, summaries name files."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("rich", reason="the command line needs rich")
Image = pytest.importorskip("PIL.Image", reason="the command line needs Pillow")

from typer.testing import CliRunner  # noqa: E402

from densefield import Bilateral, Spatial, refine  # noqa: E402
from densefield.cli.app import app  # noqa: E402
from densefield.crf.crf import PHOTO_KERNELS  # noqa: E402
from densefield.files.palette import voc_palette  # noqa: E402

PHOTO = np.random.default_rng(50929).integers(0, 60, (12, 16, 3)).astype(np.uint8)
PHOTO[:, 8:] += 150
MASK = np.zeros((12, 16), np.uint8)
MASK[:, 10:] = 1


@pytest.fixture
def here(tmp_path):
    """A folder with a photo and masks of several kinds, and folders images/ and masks/ of three pairs."""
    Image.fromarray(PHOTO).save(tmp_path / "photo.png")
    Image.fromarray(MASK).save(tmp_path / "labels.png")
    Image.fromarray(MASK * np.uint8(255)).save(tmp_path / "object.png")
    for folder, values in (("images", PHOTO), ("masks", MASK * np.uint8(255))):
        (tmp_path / folder).mkdir()
        for name in "abc":
            Image.fromarray(values).save(tmp_path / folder / f"{name}.png")
    return tmp_path


def command(folder, *arguments: str):
    """Runs it; arguments that name something in the folder are given as paths."""
    paths = [str(folder / a) if a.endswith((".png", ".npy", ".jpg", "/")) else a for a in arguments]
    return CliRunner().invoke(app, ["refine", *paths])


def read(path) -> np.ndarray:
    with Image.open(path) as picture:
        return np.asarray(picture)


def test_the_defaults_are_those_of_refine(here):
    answer = command(here, "photo.png", "labels.png", "-o", "out.npy")
    assert answer.exit_code == 0 and answer.output == ""
    assert np.array_equal(np.load(here / "out.npy"), refine(PHOTO, labels=MASK))
    spatial, bilateral = PHOTO_KERNELS
    assert [spatial.sigma, spatial.weight] == [3, 3]
    assert [bilateral.sigma_xy, bilateral.sigma_rgb, bilateral.weight] == [60, 10, 5]


def test_every_option_arrives(here):
    options = "--iterations 3 --sigma 2 --weight 1.5 --sigma-xy 9 --sigma-rgb 30 --bilateral-weight 2.5"
    more = "--confidence 0.8 --labels 3 --threads 1"
    answer = command(here, "photo.png", "labels.png", "-o", "out.npy", *options.split(), *more.split())
    assert answer.exit_code == 0
    kernels = [Spatial(2, weight=1.5), Bilateral(9, 30, weight=2.5)]
    expected = refine(PHOTO, labels=MASK, num_labels=3, confidence=0.8, kernels=kernels, iterations=3)
    assert np.array_equal(np.load(here / "out.npy"), expected)


def test_a_weight_of_0_leaves_the_kernel_out(here):
    command(here, "photo.png", "labels.png", "-o", "out.npy", "--weight", "0")
    assert np.array_equal(np.load(here / "out.npy"), refine(PHOTO, labels=MASK, kernels=PHOTO_KERNELS[1:]))


def test_logits_and_soft_masks_are_told_by_options(here):
    logits = np.stack([np.zeros(MASK.shape), 4.0 * MASK - 2]).astype(np.float32)
    np.save(here / "logits.npy", logits)
    assert command(here, "photo.png", "logits.npy", "-o", "out.npy", "--logits").exit_code == 0
    assert np.array_equal(np.load(here / "out.npy"), refine(PHOTO, logits=logits))
    assert command(here, "photo.png", "object.png", "-o", "soft.npy", "--soft").exit_code == 0
    one = MASK.astype(np.float32)
    assert np.array_equal(np.load(here / "soft.npy"), refine(PHOTO, np.stack([1 - one, one])))


def test_an_object_comes_back_as_an_object_with_a_preview(here):
    answer = command(here, "photo.png", "object.png", "-o", "out.png", "--preview", "preview.png")
    assert answer.exit_code == 0
    assert np.array_equal(read(here / "out.png"), 255 * refine(PHOTO, labels=MASK).argmax(0))
    assert read(here / "preview.png").shape[2] == 3


def test_explain_says_what_was_seen_on_stdout(here):
    good = command(here, "photo.png", "labels.png", "-o", "out.png", "--explain")
    assert good.exit_code == 0 and good.stdout.endswith("of the pixels changed their label.\n")
    none = command(here, "photo.png", "labels.png", "-o", "out.png", "--explain", "--iterations", "0")
    assert none.stdout.startswith("problem: No update is made.\n  seen: iterations = 0\n")


def test_folders_are_refined_and_counted(here):
    answer = command(here, "images/", "masks/", "-o", "out/", "--threads", "2", "--format", "npy", "--explain")
    assert answer.exit_code == 0
    assert answer.stderr == "densefield: refined: 3; failed: 0\n"
    headings = [line for line in answer.stdout.splitlines() if line.endswith(".png:")]
    assert headings == [f"{here / 'images' / name}.png:" for name in "abc"]
    for name in "abc":
        assert np.array_equal(np.load(here / "out" / f"{name}.npy"), refine(PHOTO, labels=MASK))


def test_what_failed_is_summed_up_at_the_end_and_the_exit_code_is_1(here):
    (here / "images" / "b.png").write_bytes(b"broken")
    (here / "masks" / "c.png").rename(here / "masks" / "d.png")
    answer = command(here, "images/", "masks/", "-o", "out/")
    assert answer.exit_code == 1
    lines = answer.stderr.splitlines()
    assert lines[0] == "densefield: images without a mask: 1 (c.png)" and len(lines) == 4
    assert "b.png is not an image" in lines[1] and "d.png: no image has this name" in lines[2]
    assert lines[3] == "densefield: refined: 1; failed: 2"
    assert [path.name for path in (here / "out").iterdir()] == ["a.png"]


def test_an_interrupted_run_is_resumed(here):
    def summary(done: int, kept: int) -> str:
        return f"densefield: refined: {done}; failed: 0; skipped, since the result exists: {kept}\n"

    command(here, "images/", "masks/", "-o", "out/")
    (here / "out" / "b.png").unlink()
    answer = command(here, "images/", "masks/", "-o", "out/", "--skip-existing")
    assert answer.exit_code == 0 and answer.stderr == summary(1, 2)
    again = command(here, "images/", "masks/", "-o", "out/", "--skip-existing")
    assert again.exit_code == 0 and again.stderr == summary(0, 3)


def test_a_folder_of_objects_and_labels_is_remarked_on(here):
    Image.fromarray(MASK * np.uint8(2)).save(here / "masks" / "b.png")
    answer = command(here, "images/", "masks/", "-o", "out/")
    assert answer.exit_code == 0 and "such as 0/255: 2; masks of labels: 1. If all" in answer.stderr
    told = command(here, "images/", "masks/", "-o", "out/", "--labels", "3")
    assert told.exit_code == 0 and "binary" not in told.stderr


def test_how_colours_were_numbered_is_said_and_results_keep_the_colours(here):
    cat = voc_palette()[8 * MASK]
    Image.fromarray(cat).save(here / "cat.png")
    answer = command(here, "photo.png", "cat.png", "-o", "out.png")
    assert answer.exit_code == 0 and "colours of PASCAL VOC, numbered as VOC does: 1" in answer.stderr
    with Image.open(here / "out.png") as picture:
        assert set(np.unique(picture)) == {0, 8}
        assert set(map(tuple, np.asarray(picture.convert("RGB")).reshape(-1, 3))) == {(0, 0, 0), (64, 0, 0)}
    Image.fromarray(np.where(MASK[..., None] == 1, (9, 9, 200), (255, 0, 0)).astype(np.uint8)).save(here / "own.png")
    answer = command(here, "photo.png", "own.png", "-o", "out.png")
    assert answer.exit_code == 0 and "other colours: 1. In each of them, labels are numbered from 0" in answer.stderr
    with Image.open(here / "out.png") as picture:
        assert np.array_equal(np.asarray(picture), refine(PHOTO, labels=1 - MASK).argmax(0))
        assert picture.getpalette()[:6] == [9, 9, 200, 255, 0, 0]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["photo.png", "labels.png", "-o", "out.jpg"], "expected one of .png, .tif, .tiff, .npy, .npz"),
        (["photo.png", "labels.png", "-o", "labels.png"], "for mask and for output"),
        (["gone.png", "labels.png", "-o", "out.png"], "gone.png' does not exist"),
        (["images/", "out/", "-o", "out/"], "out' does not exist"),
        (["photo.png", "labels.png", "-o", "out.png", "--sigma", "0"], "'--sigma': 0.0 is not a finite number above 0"),
        (["photo.png", "labels.png", "-o", "out.png", "--sigma-rgb", "nan"], "'--sigma-rgb': nan is not a finite"),
        (["photo.png", "labels.png", "-o", "out.png", "--weight", "inf"], "'--weight': inf is not a finite number"),
        (
            ["photo.png", "labels.png", "-o", "out.png", "--confidence", "1"],
            "'--confidence': 1.0 is not between 0",
        ),
        (["photo.png", "labels.png", "-o", "out.png", "--recursive"], "--recursive is for folders"),
        (["photo.png", "labels.png", "-o", "out.png", "--mask-suffix", "_m"], "--mask-suffix '_m' is for folders"),
        (["images/", "masks/", "-o", "images/out/", "--recursive"], "which --recursive searches"),
        (["images/", "masks/", "-o", "out/", "--mask-suffix", "_m"], "goes with cat_m.png"),
        (["photo.png", "labels.png", "-o", "out.png", "--crf", "photo.png"], "photo.png is not TOML"),
        (["photo.png", "labels.png", "-o", "out.png", "--log", "images/"], "is a directory"),
        (["photo.png", "labels.png", "-o", "out.png", "--iterations", "-1"], "--iterations"),
        (["photo.png", "labels.png"], "--out"),
    ],
)
def test_what_cannot_be_begun_ends_with_2(here, arguments, message):
    answer = command(here, *arguments)
    assert answer.exit_code == 2 and message in answer.stderr
    assert not (here / "out.png").exists()


def test_folders_without_a_pair_end_with_2(here):
    for path in (here / "masks").iterdir():
        path.unlink()
    answer = command(here, "images/", "masks/", "-o", "out/")
    assert answer.exit_code == 2 and "no image in" in answer.stderr


def test_one_pair_that_fails_ends_with_1_and_names_both_sizes(here):
    Image.fromarray(MASK[:5]).save(here / "short.png")
    answer = command(here, "photo.png", "short.png", "-o", "out.png")
    assert answer.exit_code == 1
    assert "photo.png has 16 × 12" in answer.stderr and "short.png has 16 × 5" in answer.stderr


def test_the_module_runs_as_a_command_and_never_loads_torch(here):
    code = """
import sys
from densefield.cli.main import main
try:
    main()
finally:
    print("torch" in sys.modules)
"""
    paths = [str(here / name) for name in ("photo.png", "labels.png", "out.png")]
    arguments = ["refine", paths[0], paths[1], "-o", paths[2], "--preview", str(here / "p.png"), "--explain"]
    inside = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert inside.returncode == 0 and inside.stdout.splitlines()[-1] == "False"
    (here / "out.png").unlink()
    outside = subprocess.run(
        [sys.executable, "-m", "densefield", *arguments[:5]],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert outside.returncode == 0 and outside.stdout == outside.stderr == ""
    assert np.array_equal(read(here / "out.png"), refine(PHOTO, labels=MASK).argmax(0))
