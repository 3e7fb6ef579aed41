"""install() and python -m densefield.pydensecrf replace pydensecrf."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROBE = """
import os, sys
from sibling import GREETING
import pydensecrf.densecrf
print(GREETING, __name__, __file__, sys.argv, sys.path[0], sys.modules["__main__"].GREETING, sep="|")
print(pydensecrf.densecrf.__name__)
sys.exit(int(sys.argv[1]))
"""


def python(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=cwd
    )


def test_every_form_of_import_gives_the_drop_in():
    code = """
import sys
import densefield.pydensecrf
densefield.pydensecrf.install()
densefield.pydensecrf.install()
import pydensecrf.densecrf as dcrf
from pydensecrf.utils import unary_from_labels
from pydensecrf import densecrf, eigen
import pydensecrf.eigen
import densefield.pydensecrf.densecrf as ours
print(dcrf is densecrf is pydensecrf.densecrf is ours, pydensecrf.eigen is eigen is ours.eigen)
print(dcrf.DenseCRF.__module__, unary_from_labels.__module__, pydensecrf.eigen.__name__, "torch" in sys.modules)
"""
    result = python("-c", code)
    assert result.stderr == ""
    assert result.stdout.splitlines() == [
        "True True",
        "densefield.pydensecrf.densecrf densefield.pydensecrf.utils densefield.pydensecrf.eigen False",
    ]


def test_install_rejects_an_imported_pydensecrf():
    code = """
import sys, types
sys.modules["pydensecrf"] = types.ModuleType("pydensecrf")
import densefield.pydensecrf
try:
    densefield.pydensecrf.install()
except densefield.DensefieldError as error:
    print(error)
print(sys.modules["pydensecrf"] is densefield.pydensecrf)
"""
    message, replaced = python("-c", code).stdout.splitlines()
    assert "imported already" in message and "before the first import" in message
    assert replaced == "False"


def test_importing_the_drop_in_needs_no_torch():
    code = "import sys, densefield.pydensecrf.densecrf, densefield.pydensecrf.utils; print('torch' in sys.modules)"
    assert python("-c", code).stdout.strip() == "False"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A script with a module that it imports, in another than the current folder."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "sibling.py").write_text("GREETING = 'hello'\n", encoding="utf-8")
    (tmp_path / "code" / "script.py").write_text(PROBE, encoding="utf-8")
    return tmp_path


def test_a_script_runs_with_the_drop_in(project):
    result = python("-m", "densefield.pydensecrf", "code/script.py", "3", "--flag", cwd=project)
    assert result.returncode == 3, result.stderr
    facts, module = result.stdout.splitlines()
    assert module == "densefield.pydensecrf.densecrf"
    assert facts.split("|")[:4] == ["hello", "__main__", "code/script.py", "['code/script.py', '3', '--flag']"]
    assert Path(facts.split("|")[4]).samefile(project / "code")


def test_a_script_has_the_environment_of_plain_python(project):
    pytest.importorskip("pydensecrf", reason="pydensecrf is not installed: pip install 'densefield[peers]'")
    plain = python("code/script.py", "0", "x y", cwd=project)
    under_ours = python("-m", "densefield.pydensecrf", "code/script.py", "0", "x y", cwd=project)
    assert plain.returncode == under_ours.returncode == 0, plain.stderr + under_ours.stderr
    # __file__ is relative or absolute, depending on the Python version.
    assert under_ours.stdout.splitlines()[0].split("|")[3:] == plain.stdout.splitlines()[0].split("|")[3:]


@pytest.mark.parametrize(
    "arguments, code, words",
    [
        ([], 2, "usage"),
        (["--help"], 0, "usage"),
        (["-x"], 2, "usage"),
        (["absent.py"], 2, "no file 'absent.py'"),
        (["-m"], 2, "needs the name of a module"),
        (["-m", "absent.module"], 1, "no module named absent.module"),
        (["-m", ".module"], 1, "a relative name"),
        (["-m", "email"], 1, "no module named email.__main__"),
    ],
)
def test_without_a_script_the_usage_is_printed(tmp_path, arguments, code, words):
    result = python("-m", "densefield.pydensecrf", *arguments, cwd=tmp_path)
    assert result.returncode == code
    assert words in (result.stderr if code else result.stdout)


def facts_of_a_package(*options: str, cwd: Path) -> list[str]:
    result = python(*options, "3", "--flag", "-m", cwd=cwd)
    assert result.returncode == 3, result.stderr
    return result.stdout.splitlines()[0].split("|")


@pytest.mark.parametrize("form", [["-m", "tool"], ["-m", "tool.part"], ["-mtool"]], ids=" ".join)
def test_a_module_has_the_environment_of_plain_python(tmp_path, form):
    pytest.importorskip("pydensecrf", reason="pydensecrf is not installed: pip install 'densefield[peers]'")
    probe = PROBE.replace("sibling", "tool.sibling").replace("__file__,", "__file__, __package__, __spec__.name,")
    for name, text in {"__init__": "", "__main__": probe, "part": probe, "sibling": "GREETING = 'hello'\n"}.items():
        (tmp_path / "tool").mkdir(exist_ok=True)
        (tmp_path / "tool" / f"{name}.py").write_text(text, encoding="utf-8")
    plain = facts_of_a_package(*form, cwd=tmp_path)
    assert plain[0] == "hello" and "--flag" in plain[5]
    assert facts_of_a_package("-m", "densefield.pydensecrf", *form, cwd=tmp_path) == plain


def test_a_folder_with_a_main_program_runs_as_in_plain_python(project):
    pytest.importorskip("pydensecrf", reason="pydensecrf is not installed: pip install 'densefield[peers]'")
    (project / "code" / "script.py").rename(project / "code" / "__main__.py")
    plain = python("code", "0", cwd=project)
    under_ours = python("-m", "densefield.pydensecrf", "code", "0", cwd=project)
    assert plain.returncode == under_ours.returncode == 0, plain.stderr + under_ours.stderr
    (*_, arguments, folder, greeting), expected = (run.stdout.splitlines()[0].split("|") for run in (under_ours, plain))
    assert [arguments, greeting] == [expected[3], expected[5]]
    assert (project / folder).samefile(expected[4])  # relative or absolute


def test_an_error_inside_a_module_is_shown_unchanged(project):
    (project / "code" / "broken.py").write_text("import absent_dependency\n", encoding="utf-8")
    result = python("-m", "densefield.pydensecrf", "-m", "broken", cwd=project / "code")
    assert result.returncode == 1
    assert result.stderr.strip().endswith("ModuleNotFoundError: No module named 'absent_dependency'")


def test_an_error_in_the_script_is_shown_unchanged(project):
    (project / "code" / "broken.py").write_text("raise KeyError('mine')\n", encoding="utf-8")
    result = python("-m", "densefield.pydensecrf", "code/broken.py", cwd=project)
    assert result.returncode == 1
    assert result.stderr.strip().endswith("KeyError: 'mine'")
