"""`densefield data scenes`: options, exit codes, and resuming."""

from __future__ import annotations

import pytest

pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("rich", reason="the command line needs rich")
pytest.importorskip("PIL", reason="the command line needs Pillow")

from typer.testing import CliRunner

from densefield.cli.app import app
from densefield.scenes.files import write_scenes


def command(*arguments: object):
    return CliRunner().invoke(app, ["data", "scenes", *(str(argument) for argument in arguments)])


def contents(folder) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_option_is_passed_on(tmp_path):
    options = "--images 4 --size 100 --object-classes 3 --seed 9 --val-share 0.5 --workers 1"
    answer = command(tmp_path / "a", *options.split())
    assert answer.exit_code == 0 and answer.stderr == "densefield: scenes drawn: 4\n" and answer.stdout == ""
    write_scenes(tmp_path / "b", 4, (100, 100), 3, 9, val_share=0.5)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_the_same_command_resumes(tmp_path):
    command(tmp_path, "--images", 2, "--size", 96)
    answer = command(tmp_path, "--images", 3, "--size", 96)
    assert answer.exit_code == 0 and answer.stderr == "densefield: scenes drawn: 1; kept, since they exist: 2\n"


@pytest.mark.parametrize(
    "options, message",
    [
        (["--size", 95], "--size"),
        (["--size", 513], "--size"),
        (["--object-classes", 1], "--object-classes"),
        (["--object-classes", 21], "--object-classes"),
        (["--images", 0], "--images"),
        (["--seed", -1], "--seed"),
        (["--val-share", 1], "--val-share"),
    ],
)
def test_invalid_scenes_end_with_2(tmp_path, options, message):
    answer = command(tmp_path / "new", *options)
    assert answer.exit_code == 2 and message in answer.stderr
    assert not (tmp_path / "new").exists()


def test_another_seed_in_the_same_folder_ends_with_2(tmp_path):
    command(tmp_path, "--images", 1, "--size", 96)
    answer = command(tmp_path, "--images", 1, "--size", 96, "--seed", 5)
    assert answer.exit_code == 2 and "holds other scenes" in answer.stderr
