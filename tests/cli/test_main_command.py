"""The command starts fast, imports nothing heavy, and names missing packages."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("rich", reason="the command line needs rich")
pytest.importorskip("PIL", reason="the command line needs Pillow")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)


def test_help_names_the_commands():
    answer = run("-m", "densefield", "--help")
    assert answer.returncode == 0
    assert all(verb in answer.stdout for verb in ("refine", "data", "train", "tune", "eval", "predict", "report"))


@pytest.mark.parametrize(
    "arguments",
    [
        "'--help'",
        "'--version'",
        "'--show-completion', 'bash'",
        "'refine', '--help'",
        "'data', 'check', '--help'",
        "'refine', 'gone.png', 'gone.png', '-o', 'out.png'",
        "'refine', '.', '.', '-o', 'out', '--sigma', '-1'",
        "'refine', '.', '.', '-o', 'out', '--crf', 'gone.toml'",
        "'refine', '.', '.', '-o', 'out', '--no-such-option'",
        "'report', 'gone'",
        "'report', '=.'",
        "'report', '.', '-o', 'report.pdf'",
        "'data', 'check', 'gone'",
    ],
)
def test_help_and_wrong_arguments_load_nothing_heavy(arguments):
    code = f"""
import sys
sys.argv = ["densefield", {arguments}]
from densefield.cli.main import main
try:
    main()
except SystemExit:
    pass
print("loaded:", *sorted({{"numpy", "PIL", "torch"}} & set(sys.modules)))
"""
    assert run("-c", code).stdout.splitlines()[-1] == "loaded:"


@pytest.mark.parametrize("module, package", [("typer", "typer"), ("rich", "rich"), ("PIL", "pillow")])
def test_missing_packages_are_named_with_the_cure(module, package):
    code = f"""
import sys
sys.modules[{module!r}] = None  # the import system treats this as not installed
from densefield.cli.main import main
main()
"""
    answer = run("-c", code)
    assert answer.returncode == 1 and answer.stdout == ""
    assert answer.stderr == (
        f"densefield: the command line needs {package}. Install with: pip install 'densefield[cli]'\n"
    )


@pytest.mark.parametrize("before, after", [(None, "passive"), ("active", "active")])
def test_waiting_threads_sleep_by_default(before, after):
    code = f"""
import os, sys
os.environ.pop("OMP_WAIT_POLICY", None)
if {before!r}:
    os.environ["OMP_WAIT_POLICY"] = {before!r}
sys.argv = ["densefield", "--help"]
from densefield.cli.main import main
try:
    main()
except SystemExit:
    pass
print(os.environ["OMP_WAIT_POLICY"])
"""
    assert run("-c", code).stdout.splitlines()[-1] == after


def test_without_a_verb_help_is_shown():
    answer = run("-m", "densefield")
    assert answer.returncode == 2 and "Usage: densefield" in answer.stdout + answer.stderr


def test_python_m_equals_the_command(tmp_path):
    command = Path(sys.executable).with_name("densefield")
    if not command.exists():
        pytest.skip("densefield is not installed as a command here")
    for arguments in (["--version"], ["refine", "--help"], ["refine", "gone", "gone", "-o", "x"]):
        by_name = subprocess.run([command, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        by_module = run("-m", "densefield", *arguments)
        assert (by_name.returncode, by_name.stdout, by_name.stderr) == (
            by_module.returncode,
            by_module.stdout,
            by_module.stderr,
        )


def test_the_version_is_that_of_the_package():
    answer = run("-m", "densefield", "--version")
    assert answer.returncode == 0 and answer.stdout == f"densefield {version('densefield')}\n"


def test_completion_can_be_shown_and_completes_verbs_and_options():
    shown = run("-m", "densefield", "--show-completion", "bash")
    assert shown.returncode == 0 and "_DENSEFIELD_COMPLETE=complete_bash" in shown.stdout
    for words, expected in (("densefield ref", "refine"), ("densefield refine --mask-s", "--mask-suffix")):
        answer = subprocess.run(
            [sys.executable, "-m", "densefield"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env={
                **os.environ,
                "_DENSEFIELD_COMPLETE": "complete_bash",
                "COMP_WORDS": words,
                "COMP_CWORD": str(len(words.split()) - 1),
            },
        )
        assert answer.stdout.split() == [expected], answer.stderr
