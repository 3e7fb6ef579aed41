"""`densefield refine`: options, exit codes and summaries."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("rich", reason="the command line needs rich")
Image = pytest.importorskip("PIL.Image", reason="the command line needs Pillow")

from typer.testing import CliRunner  # noqa: E402

from densefield import CRF, Bilateral, Spatial, explain, refine  # noqa: E402
from densefield.cli.app import app  # noqa: E402
from densefield.crf.model import PHOTO_KERNELS  # noqa: E402
from densefield.images.palette import voc_palette  # noqa: E402
from densefield.metrics import decode  # noqa: E402

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
    """Run the command; names in the folder become paths."""
    paths = [str(folder / a) if a.endswith((".png", ".tif", ".npy", ".jpg", ".toml", "/")) else a for a in arguments]
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


def test_every_option_is_passed_on(here):
    options = "--iterations 3 --sigma 2 --weight 1.5 --sigma-xy 9 --sigma-rgb 30 --bilateral-weight 2.5"
    more = "--confidence 0.8 --num-classes 3 --threads 1"
    answer = command(here, "photo.png", "labels.png", "-o", "out.npy", *options.split(), *more.split())
    assert answer.exit_code == 0
    kernels = [Spatial(2, weight=1.5), Bilateral(9, 30, weight=2.5)]
    expected = refine(PHOTO, labels=MASK, num_classes=3, confidence=0.8, kernels=kernels, iterations=3)
    assert np.array_equal(np.load(here / "out.npy"), expected)


def test_roughness_temperature_and_decoding_are_passed_on(here):
    options = ["--roughness", "1.5", "--iterations", "2"]
    assert command(here, "photo.png", "labels.png", "-o", "out.npy", *options).exit_code == 0
    assert np.array_equal(np.load(here / "out.npy"), refine(PHOTO, labels=MASK, roughness=1.5, iterations=2))
    logits = np.stack([np.zeros(MASK.shape), 4.0 * MASK - 2.2]).astype(np.float32)
    np.save(here / "logits.npy", logits)
    options = ["--logits", "--temperature", "3", "--decode", "dice"]
    assert command(here, "photo.png", "logits.npy", "-o", "out.png", *options).exit_code == 0
    expected = decode(refine(PHOTO, logits=logits, temperature=3), "dice")
    assert np.array_equal(read(here / "out.png"), expected)


@pytest.mark.parametrize(
    "options, message",
    [
        ("--roughness 2 --sigma 3", "--sigma replaces"),
        ("--roughness 2 --confidence 0.8", "--confidence replaces"),
        ("--roughness 0", "0.0 is not a finite number above 0"),
        ("--temperature inf", "inf is not a finite number above 0"),
    ],
)
def test_options_that_replace_each_other_are_refused(here, options, message):
    answer = command(here, "photo.png", "labels.png", "-o", "out.npy", *options.split())
    assert answer.exit_code == 2 and message in answer.output and not (here / "out.npy").exists()


def test_options_for_another_form_of_mask_are_refused(here):
    answer = command(here, "photo.png", "labels.png", "-o", "out.png", "--temperature", "2")
    assert answer.exit_code == 1 and "got --temperature with a mask of labels" in answer.output
    np.save(here / "soft.npy", MASK.astype(np.float32))
    answer = command(here, "photo.png", "soft.npy", "-o", "out.png", "--roughness", "2")
    assert answer.exit_code == 1 and "got --roughness without a mask of labels" in answer.output


def test_a_weight_of_0_removes_the_kernel(here):
    command(here, "photo.png", "labels.png", "-o", "out.npy", "--weight", "0")
    assert np.array_equal(np.load(here / "out.npy"), refine(PHOTO, labels=MASK, kernels=PHOTO_KERNELS[1:]))


def test_logits_and_soft_masks_are_selected_by_options(here):
    logits = np.stack([np.zeros(MASK.shape), 4.0 * MASK - 2]).astype(np.float32)
    np.save(here / "logits.npy", logits)
    assert command(here, "photo.png", "logits.npy", "-o", "out.npy", "--logits").exit_code == 0
    assert np.array_equal(np.load(here / "out.npy"), refine(PHOTO, logits=logits))
    assert command(here, "photo.png", "object.png", "-o", "soft.npy", "--soft").exit_code == 0
    one = MASK.astype(np.float32)
    assert np.array_equal(np.load(here / "soft.npy"), refine(PHOTO, probabilities=np.stack([1 - one, one])))


def test_a_binary_mask_stays_binary_and_has_a_preview(here):
    answer = command(here, "photo.png", "object.png", "-o", "out.png", "--preview", "preview.png")
    assert answer.exit_code == 0
    assert np.array_equal(read(here / "out.png"), 255 * refine(PHOTO, labels=MASK).argmax(0))
    assert read(here / "preview.png").shape[2] == 3


def test_explain_prints_findings_on_stdout(here):
    good = command(here, "photo.png", "labels.png", "-o", "out.png", "--explain")
    assert good.exit_code == 0 and good.stdout.endswith("of the pixels changed their label.\n")
    none = command(here, "photo.png", "labels.png", "-o", "out.png", "--explain", "--iterations", "0")
    assert none.stdout.startswith("problem: Inference makes no iteration.\n  seen: iterations = 0\n")


def test_folders_are_refined_and_counted(here):
    answer = command(here, "images/", "masks/", "-o", "out/", "--threads", "2", "--format", "npy", "--explain")
    assert answer.exit_code == 0
    assert answer.stderr == "densefield: refined: 3; failed: 0\n"
    headings = [line for line in answer.stdout.splitlines() if line.endswith(".png:")]
    assert headings == [f"{here / 'images' / name}.png:" for name in "abc"]
    for name in "abc":
        assert np.array_equal(np.load(here / "out" / f"{name}.npy"), refine(PHOTO, labels=MASK))


def test_failures_are_summarised_and_the_exit_code_is_1(here):
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


def test_a_folder_of_binary_and_label_masks_gives_a_note(here):
    Image.fromarray(MASK * np.uint8(2)).save(here / "masks" / "b.png")
    answer = command(here, "images/", "masks/", "-o", "out/")
    assert answer.exit_code == 0 and "such as 0/255: 2; masks of labels: 1. If all" in answer.stderr
    told = command(here, "images/", "masks/", "-o", "out/", "--num-classes", "3")
    assert told.exit_code == 0 and "binary" not in told.stderr


def test_colour_numbering_is_reported_and_results_keep_the_colours(here):
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
        (["images/", "masks/", "-o", "out/", "--mask-suffix", "_m"], "is paired with cat_m.png"),
        (["photo.png", "labels.png", "-o", "out.png", "--crf", "photo.png"], "photo.png is not TOML"),
        (["photo.png", "labels.png", "-o", "out.png", "--log", "images/"], "is a directory"),
        (["photo.png", "labels.png", "-o", "out.png", "--iterations", "-1"], "--iterations"),
        (["photo.png", "labels.png"], "--out"),
    ],
)
def test_invalid_arguments_end_with_2(here, arguments, message):
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


def test_a_crf_file_replaces_the_kernel_options(here):
    crf = CRF([Spatial(2, weight=1.5), Bilateral(9, 30, weight=2.5)], iterations=3)
    crf.save(here / "crf.toml")
    answer = command(here, "photo.png", "labels.png", "-o", "out.npy", "--crf", "crf.toml")
    assert answer.exit_code == 0 and answer.output == ""
    assert np.array_equal(np.load(here / "out.npy"), refine(PHOTO, labels=MASK, crf=crf))
    explained = command(here, "photo.png", "labels.png", "-o", "out.npy", "--crf", "crf.toml", "--explain")
    assert explained.exit_code == 0 and explained.stdout == "".join(
        f"{finding}\n" for finding in explain(PHOTO, labels=MASK, crf=crf)
    )


@pytest.mark.parametrize("option", ["--iterations", "--sigma", "--weight", "--sigma-xy", "--bilateral-weight"])
def test_a_crf_file_and_kernel_options_are_rejected_together(here, option):
    CRF().save(here / "crf.toml")
    options = ["--crf", "crf.toml", "--sigma-rgb", "9", option, "5"]
    answer = command(here, "photo.png", "labels.png", "-o", "out.png", *options)
    assert answer.exit_code == 2 and not (here / "out.png").exists()
    said = " ".join(answer.stderr.split())
    assert "crf.toml has its own kernels and iterations" in said
    assert "--sigma-rgb" in said and option in said.partition("leave out")[2]


def test_the_void_value_is_passed_on(here):
    Image.fromarray(np.where(PHOTO[..., 0] % 5 == 0, 9, MASK).astype(np.uint8)).save(here / "nine.png")
    assert command(here, "photo.png", "nine.png", "-o", "out.npy", "--void", "9").exit_code == 0
    expected = refine(PHOTO, labels=read(here / "nine.png"), void=9)
    assert np.array_equal(np.load(here / "out.npy"), expected) and len(expected) == 2


def test_tiff_masks_give_tiff_results(here):
    for path in (here / "masks").iterdir():
        Image.fromarray(MASK).save(path.with_suffix(".tif"))
        path.unlink()
    assert command(here, "images/", "masks/", "-o", "out/").exit_code == 0
    assert sorted(path.name for path in (here / "out").iterdir()) == ["a.tif", "b.tif", "c.tif"]
    assert np.array_equal(read(here / "out" / "a.tif"), refine(PHOTO, labels=MASK).argmax(0))
    assert command(here, "photo.png", "labels.png", "-o", "one.tif").exit_code == 0
    assert np.array_equal(read(here / "one.tif"), read(here / "out" / "a.tif"))
    assert command(here, "images/", "masks/", "-o", "again/", "--format", "png").exit_code == 0
    assert sorted(path.name for path in (here / "again").iterdir()) == ["a.png", "b.png", "c.png"]


def test_nested_folders_and_suffixed_names_are_refined(here):
    (here / "images" / "in").mkdir()
    (here / "images" / "a.png").rename(here / "images" / "in" / "a.png")
    (here / "masks" / "a.png").rename(here / "images" / "in" / "a_seg.png")
    for name in "bc":
        (here / "masks" / f"{name}.png").rename(here / "images" / f"{name}_seg.png")
    answer = command(here, "images/", "images/", "-o", "out/", "--recursive", "--mask-suffix", "_seg")
    assert answer.exit_code == 0 and answer.stderr == "densefield: refined: 3; failed: 0\n"
    found = {path.relative_to(here / "out").as_posix() for path in (here / "out").rglob("*.png")}
    assert found == {"in/a_seg.png", "b_seg.png", "c_seg.png"}


def test_skipped_files_are_reported(here):
    (here / "images" / "in").mkdir()
    (here / "images" / "notes.txt").touch()
    answer = command(here, "images/", "masks/", "-o", "out/")
    assert answer.exit_code == 0
    assert answer.stderr.splitlines()[:2] == [
        f"densefield: {here / 'images'}: skipped subfolders (in). Search them with --recursive.",
        f"densefield: {here / 'images'}: skipped files that are not images by their suffix (notes.txt).",
    ]


def test_failures_are_logged_one_per_line_with_options_instead_of_arguments(here):
    (here / "images" / "b.png").write_bytes(b"broken")
    Image.fromarray(np.arange(192, dtype=np.uint8).reshape(12, 16)).save(here / "masks" / "c.png")
    Image.fromarray(MASK).save(here / "masks" / "d.png")
    answer = command(here, "images/", "masks/", "-o", "out/", "--log", str(here / "logs" / "failures.log"))
    lines = (here / "logs" / "failures.log").read_text(encoding="utf-8").splitlines()
    assert answer.exit_code == 1 and len(lines) == 3
    assert "d.png: no image" in lines[0] and "b.png is not an image" in lines[1]
    assert "pass --soft; if they are labels pass their number: --num-classes." in lines[2]
    assert all(f"densefield: {line}" in answer.stderr for line in lines)
    command(
        here, "images/", "masks/", "-o", "out/", "--log", str(here / "logs" / "failures.log"), "--num-classes", "192"
    )
    assert len((here / "logs" / "failures.log").read_text(encoding="utf-8").splitlines()) == 2  # the log is overwritten


def test_many_failures_are_only_counted_on_the_terminal(here):
    for number in range(30):
        (here / "images" / f"{number}.png").write_bytes(b"broken")
        Image.fromarray(MASK).save(here / "masks" / f"{number}.png")
    answer = command(here, "images/", "masks/", "-o", "out/", "--log", str(here / "failures.log"))
    assert answer.stderr.count("is not an image") == 20
    assert f"densefield: and 10 more failures, see {here / 'failures.log'}\n" in answer.stderr
    assert answer.stderr.endswith("densefield: refined: 3; failed: 30\n")


@pytest.mark.parametrize(
    "array, options, message",
    [
        (np.full((2, 12, 16), 3.0), [], "For raw scores use --logits."),
        (np.full((2, 12, 16), np.nan), [], "Replace them in the array."),
        (MASK, ["--num-classes", "2", "--confidence", "0.4"], "--confidence is 0.4, expected a number above 0.5"),
        (np.full((2, 12, 16), 0.5), ["--num-classes", "3"], "2 classes, but --num-classes 3 was given"),
        (MASK, ["--logits"], "but --logits expects floating point"),
        (MASK, ["--soft"], "leave out --soft"),
        (MASK, ["--soft", "--logits"], "got --logits and --soft"),
    ],
)
def test_errors_name_options_instead_of_python_arguments(here, array, options, message):
    np.save(here / "mask.npy", array)
    answer = command(here, "photo.png", "mask.npy", "-o", "out.png", *options)
    assert answer.exit_code == 1 and message in answer.stderr
    assert not re.search(r"\w=|\bignore\b", answer.stderr.replace(str(here), ""))


@pytest.mark.filterwarnings("ignore:the scores are probabilities")
def test_findings_name_options_instead_of_python_arguments(here):
    np.save(here / "p.npy", np.stack([1.0 - MASK, MASK]))
    answers = [
        command(
            here, "photo.png", "labels.png", "-o", "o.png", "--explain", "--weight", "0", "--bilateral-weight", "0"
        ),
        command(here, "photo.png", "p.npy", "-o", "o.png", "--explain", "--logits"),
        command(here, "photo.png", "object.png", "-o", "o.png", "--explain", "--void", "255"),
    ]
    for answer in answers:
        assert answer.exit_code == 0 and "problem:" in answer.stdout
        assert not re.search(r"\w=", answer.stdout), answer.stdout
    assert "Raise --weight or --bilateral-weight." in answers[0].stdout


def test_warnings_are_one_line_each(here):
    logits = np.stack([1.0 - MASK, MASK]).astype(np.float32)  # these look like probabilities
    np.save(here / "logits.npy", logits)
    answer = subprocess.run(
        [sys.executable, "-m", "densefield", "refine", "photo.png", "logits.npy", "-o", "out.png", "--logits"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        cwd=here,
    )
    assert answer.returncode == 0
    (line,) = answer.stderr.splitlines()
    assert line.startswith("densefield: warning: ") and "probabilities" in line
    assert line.endswith("Leave out --logits.")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends Ctrl-C in another way")
def test_after_ctrl_c_finished_results_are_kept_and_the_rest_is_resumed(here):
    photo = np.tile(PHOTO, (30, 30, 1))
    for number in range(40):
        Image.fromarray(photo).save(here / "images" / f"{number}.png", compress_level=0)
        Image.fromarray(np.tile(MASK, (30, 30))).save(here / "masks" / f"{number}.png")
    arguments = [sys.executable, "-m", "densefield", "refine", "images", "masks", "-o", "out", "--threads", "1"]
    process = subprocess.Popen(
        arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, cwd=here
    )
    deadline = time.monotonic() + 60
    while not list((here / "out").glob("*.png")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=60)[1]
    done = {path.name: path.stat().st_mtime_ns for path in (here / "out").iterdir()}
    assert process.returncode == 130 and 0 < len(done) < 43
    assert re.fullmatch(r"densefield: interrupted after \d+ of 43 pairs. To resume, add --skip-existing.\n", told)
    assert all(name.endswith(".png") and not name.startswith(".") for name in done)  # no partial file
    again = command(here, "images/", "masks/", "-o", "out/", "--skip-existing")
    assert again.exit_code == 0 and f"refined: {43 - len(done)}; failed: 0; skipped" in again.stderr
    assert len(list((here / "out").iterdir())) == 43
    assert all((here / "out" / name).stat().st_mtime_ns == written for name, written in done.items())


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
