"""Invalid arguments are rejected before torch is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="the verbs need it")
pytest.importorskip("rich", reason="the verbs need it")
pytest.importorskip("pydantic", reason="settings need it")
Image = pytest.importorskip("PIL.Image", reason="data need Pillow")

CONFIG = Path(__file__).parents[2] / "configs" / "scenes.toml"

# Run the command line in a process where torch cannot be imported.
WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from densefield.cli.app import app
app(sys.argv[1:], prog_name="densefield")
"""


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Files and folders that no verb can use."""
    root = tmp_path_factory.mktemp("places")
    for folder in ("data/images", "data/masks", "empty", "logits", "softmax", "both", "elsewhere", "run/checkpoints"):
        (root / folder).mkdir(parents=True)
    random = np.random.default_rng(71993)
    for name in "abcd":
        Image.fromarray(random.integers(0, 256, (6, 7, 3)).astype(np.uint8)).save(
            root / "data" / "images" / f"{name}.png"
        )
        Image.fromarray(random.integers(0, 3, (6, 7)).astype(np.uint8)).save(root / "data" / "masks" / f"{name}.png")
        logits = random.normal(size=(3, 6, 7))
        np.save(root / "logits" / f"{name}.npy", logits)
        np.save(root / "softmax" / f"{name}.npy", np.exp(logits) / np.exp(logits).sum(0))
        np.save(root / "both" / f"{name}.npy", logits)
        np.savez(root / "both" / f"{name}.npz", logits=logits)
        np.save(root / "elsewhere" / f"other_{name}.npy", logits)
    (root / "run" / "checkpoints" / "last.pt").touch()
    (root / "file").write_text("a file where a folder is expected")
    (root / "crf.toml").write_text("[[kernels]]\nkind = 'spatial'\nsigm = 3\n")
    (root / "depth.toml").write_text("[[kernels]]\nkind = 'custom'\nfeature = 'depth'\n")
    (root / "broken.toml").write_text("[[kernels")
    return root


def ends_with(places: Path, command: str) -> str:
    """The output of a command that exits with status 2."""
    arguments = [part.format(p=places, config=CONFIG) for part in command.split()]
    answer = subprocess.run([sys.executable, "-c", WITHOUT_TORCH, *arguments], capture_output=True, text=True)
    assert answer.returncode == 2 and "Traceback" not in answer.stderr, answer.stderr
    return " ".join(answer.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("eval {p}/none -o {p}/out", "there is no {p}/none, expected the folder of a run, or a checkpoint"),
        ("eval {p}/empty -o {p}/out", "is neither a run with a checkpoint nor a folder of scores"),
        ("eval {p}/run {p}/none -o {p}/out", "there is no folder {p}/none"),
        ("eval {p}/run --probabilities -o {p}/out", "whose network gives logits: leave out --probabilities."),
        ("eval {p}/logits -o {p}/out", "holds scores without images: name the folder of the data too"),
        ("eval {p}/logits {p}/data --split val -o {p}/out", "has no split lists. Write"),
        ("eval {p}/logits {p}/data --split val -o {p}/out", "or pass no --split to take all images"),
        ("eval {p}/logits {p}/data -o {p}/file", "{p}/file is a file, expected a folder for the results"),
        ("eval {p}/logits {p}/data -o {p}/file/more", "{p}/file is a file, expected a folder for the results"),
        ("eval {p}/logits {p}/data -o {p}/out --crf {p}/none.toml", "there is no file {p}/none.toml"),
        ("eval {p}/logits {p}/data -o {p}/out --crf {p}/crf.toml", "kernels.0.sigm: unknown key; did you mean sigma?"),
        ("eval {p}/logits {p}/data -o {p}/out --crf {p}/broken.toml", "{p}/broken.toml is not TOML"),
        ("eval {p}/logits {p}/data -o {p}/out --crf {p}/depth.toml", "kernels.0: compares 'depth', but photos have"),
        ("eval {p}/logits {p}/data -o {p}/out --method crf", "a CRF: pass --crf, or --method network."),
        ("eval {p}/logits {p}/data -o {p}/out --method all", "'all' is not one of"),
        ("eval {p}/logits {p}/data -o {p}/out --cases -1", "Invalid value for '--cases'"),
        ("eval {p}/softmax {p}/data -o {p}/out", "but logits are expected. Pass --probabilities."),
        ("eval {p}/logits {p}/data -o {p}/out --probabilities", "For logits leave out --probabilities."),
        ("eval {p}/both {p}/data -o {p}/out", "are scores of the same image: remove one of them"),
        ("eval {p}/elsewhere {p}/data -o {p}/out", "none of the 4 files in {p}/elsewhere has the name of one of the 4"),
        ("eval {p}/logits {p}/data -o {p}/out --device gpu", "device is 'gpu', expected auto, cpu, cuda, cuda:N"),
        ("tune {p}/logits {p}/data -o {p}/out --device cuda:x", "device is 'cuda:x', expected auto, cpu"),
        ("predict {p}/run {p}/data/images -o {p}/out --device 0", "device is '0', expected auto, cpu"),
        ("tune {p}/none -o {p}/out", "there is no {p}/none"),
        ("tune {p}/softmax {p}/data -o {p}/out", "but logits are expected. Pass --probabilities."),
        ("tune {p}/logits {p}/data -o {p}/file", "{p}/file is a file"),
        ("tune {p}/logits {p}/data -o {p}/out --spatial-sigma 1,x", "'1,x' is not a list of numbers"),
        ("tune {p}/logits {p}/data -o {p}/out --spatial-sigma 0", "spatial_sigma is [0.0], expected finite numbers"),
        ("tune {p}/logits {p}/data -o {p}/out --search best", "'best' is not one of"),
        ("predict {p}/none {p}/data/images -o {p}/out", "there is no {p}/none"),
        ("predict {p}/run {p}/none.png -o {p}/out", "there is no file or folder {p}/none.png"),
        ("predict {p}/run {p}/data -o {p}/out", "{p}/data has no images in it. {p}/data/images is a subfolder"),
        ("predict {p}/run {p}/data/images -o {p}/file", "{p}/file is a file"),
        ("predict {p}/run {p}/data/images -o {p}/out --crf {p}/crf.toml", "kernels.0.sigm: unknown key"),
        ("train {p}/none.toml --run {p}/out", "there is no file {p}/none.toml, expected a file of settings"),
        ("train {p}/broken.toml --run {p}/out", "{p}/broken.toml is not TOML"),
        (
            "train {config} --run {p}/out --set training.stepz=3",
            "--set training.stepz=3: unknown key; did you mean steps?",
        ),
        (
            "train {config} --run {p}/out --set training.steps=no",
            '--set training.steps=no: is "no"; should be a valid integer',
        ),
        ("train {config} --run {p}/out --set crf.file={p}/crf.toml", "kernels.0.sigm: unknown key"),
        ("train {config} --run {p}/out --set data.root={p}/none", "there is no folder {p}/none"),
        ("train {config} --run {p}/out --set data.root={p}/data", "has no split lists, so validation would use"),
        ("train {config} --run {p}/file", "{p}/file is a file, expected a folder for the run"),
        (
            "train {config} --run {p}/run",
            "{p}/run holds a run already. Resume it with --resume, or name another folder",
        ),
        (
            "train {config} --run {p}/out --stage 2",
            "stage 2 starts from the weights of stage 1: name its run with --from.",
        ),
        (
            "train {config} --run {p}/out --stage 2 --from {p}/none",
            "there is no {p}/none, expected the folder of a run",
        ),
        (
            "train {config} --run {p}/out --set network.pretrained=no.pth",
            "network.pretrained is 'no.pth', but there is no",
        ),
    ],
)
def test_wrong_arguments_are_rejected_without_torch(places, command, message):
    assert message.format(p=places) in ends_with(places, command)
    assert not (places / "out").exists()


def test_a_command_that_needs_torch_names_the_install_command(places):
    for verb in ("eval", "tune"):
        told = ends_with(places, f"{verb} {{p}}/logits {{p}}/data -o {{p}}/out")
        assert "needs torch. Install with: pip install 'densefield[train]'" in told
