"""Messages of the library reach the terminal in the words of the command line."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="the command line needs typer")

import densefield
from densefield.cli.failing import as_flags, stop, told_warnings
from densefield.cli.refine_summary import FLAGS, FLAGS_OF_KERNELS
from densefield.errors import InputError, InputWarning

PACKAGE = Path(densefield.__file__).parent


def test_arguments_become_options_with_or_without_a_value():
    flags = {"soft=True": "--soft", "num_classes=": "--labels ", "labels=": "an array", "sigma": "--sigma"}
    for message, expected in [
        ("pass soft=True.", "pass --soft."),
        ("num_classes=21 was given", "--labels 21 was given"),
        ("pass num_classes=.", "pass --labels."),
        ("pass num_classes= or soft=True", "pass --labels or --soft"),
        ("num_classes='x' is no number", "--labels 'x' is no number"),
        ("use labels=", "use an array"),
        ("my_labels=3 stays", "my_labels=3 stays"),  # only whole words
        ("nothing to do", "nothing to do"),
    ]:
        assert as_flags(message, flags) == expected
    assert as_flags("num_classes=3", {}) == "num_classes=3"


def test_the_error_that_ends_a_command_names_options(capsys):
    ending = stop(InputError("pass recursive=True."), flags=FLAGS)
    assert ending.exit_code == 2 and capsys.readouterr().err == "densefield: pass --recursive.\n"
    stop(FileNotFoundError(2, "No such file or directory", "a.toml"), 1)
    assert capsys.readouterr().err == "densefield: a.toml: No such file or directory.\n"


def test_warnings_are_lines_within_and_what_they_were_afterwards(capsys):
    before = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with told_warnings({"void=": "--void "}):
            warnings.warn("pass void=0.", InputWarning, stacklevel=1)
            warnings.warn_explicit("odd tag", UserWarning, "TiffImagePlugin.py", 1, module="PIL.TiffImagePlugin")
        assert capsys.readouterr().err == "densefield: warning: pass --void 0.\n"
    assert warnings.showwarning is before


@pytest.mark.parametrize("argument", [*FLAGS, *FLAGS_OF_KERNELS])
def test_every_argument_that_is_translated_is_named_by_the_library(argument):
    """So that the table changes with the messages: a phrase that no message has is never translated."""
    folders = [PACKAGE / "images", PACKAGE / "diagnose", PACKAGE / "io", PACKAGE / "crf", PACKAGE / "filters"]
    files = [path for folder in folders for path in folder.glob("*.py")]
    constants = (
        node.value
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    assert any(argument in text for text in constants)
