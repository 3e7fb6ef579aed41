"""Messages of the library name options on the command line."""

from __future__ import annotations

import ast
import warnings
from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="the command line needs typer")

import typer

import densefield
from densefield.cli.messages import as_flags, ending_on_errors, printing_warnings
from densefield.cli.refine_messages import FLAGS, FLAGS_OF_KERNELS
from densefield.errors import InputError, InputWarning

PACKAGE = Path(densefield.__file__).parent


def test_arguments_become_options_with_or_without_a_value():
    flags = {"soft=True": "--soft", "num_classes=": "--num-classes ", "labels=": "an array", "sigma": "--sigma"}
    for message, expected in [
        ("pass soft=True.", "pass --soft."),
        ("num_classes=21 was given", "--num-classes 21 was given"),
        ("pass num_classes=.", "pass --num-classes."),
        ("pass num_classes= or soft=True", "pass --num-classes or --soft"),
        ("num_classes='x' is no number", "--num-classes 'x' is no number"),
        ("use labels=", "use an array"),
        ("my_labels=3 stays", "my_labels=3 stays"),  # only whole words
        ("nothing to do", "nothing to do"),
    ]:
        assert as_flags(message, flags) == expected
    assert as_flags("num_classes=3", {}) == "num_classes=3"


def test_the_error_that_ends_a_command_names_options(capsys):
    for error, message in [
        (InputError("pass recursive=True."), "pass --recursive."),
        (FileNotFoundError(2, "No such file or directory", "a.toml"), "a.toml: No such file or directory."),
        (
            ModuleNotFoundError("no", name="torch"),
            "training needs torch. Install with: pip install 'densefield[train]'",
        ),
    ]:
        with pytest.raises(typer.Exit) as ending, ending_on_errors(FLAGS, needs="training"):
            raise error
        assert ending.value.exit_code == 2 and capsys.readouterr().err == f"densefield: {message}\n"


@pytest.mark.parametrize(
    ("module", "name", "status"), [("distributed", "LostProcess", 1), ("stopping", "Terminated", 143)]
)
def test_errors_have_their_own_exit_status(module, name, status):
    error = getattr(import_module(f"densefield.runs.{module}"), name)
    with pytest.raises(typer.Exit) as ending, ending_on_errors():
        raise error("stopped")
    assert ending.value.exit_code == status


def test_warnings_are_printed_as_lines_inside_the_context_only(capsys):
    before = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with printing_warnings({"void=": "--void "}):
            warnings.warn("pass void=0.", InputWarning, stacklevel=1)
            warnings.warn_explicit("odd tag", UserWarning, "TiffImagePlugin.py", 1, module="PIL.TiffImagePlugin")
        assert capsys.readouterr().err == "densefield: warning: pass --void 0.\n"
    assert warnings.showwarning is before


@pytest.mark.parametrize("argument", [*FLAGS, *FLAGS_OF_KERNELS])
def test_every_translated_argument_exists_in_the_library(argument):
    """Every phrase of the table must occur in a message of the library."""
    folders = [PACKAGE / name for name in ("images", "volumes", "diagnose", "io", "crf", "filters", "refinement")]
    files = [path for folder in folders for path in folder.glob("*.py")]
    constants = (
        node.value
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    assert any(argument in text for text in constants)
