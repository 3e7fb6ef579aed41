"""Functions that settings name: imported when called, from the working directory too."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("pydantic", reason="runs need it")

from densefield.errors import InputError
from densefield.runs.references import call_reference, is_reference, reference_to


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory with modules, which a console script does not search."""
    (tmp_path / "own_module.py").write_text(
        "def make(a, *, b=0):\n    return a, b\nthree = 3\nclass Kind:\n    make = make\n"
    )
    (tmp_path / "own_broken.py").write_text("import no_such_library\n")
    (tmp_path / "own_script.py").write_text("raise SystemExit(7)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]


def test_a_function_is_called_with_its_arguments(here):
    assert call_reference("own_module:make", "data.kind", "val", options={"b": 2}) == ("val", 2)
    assert call_reference("own_module:Kind.make", "data.kind", 1) == (1, 0)
    assert sys.path[-1] == str(here)  # after all other places


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "own_modul:make",
            r"^key is 'own_modul:make', but there is no module own_modul\. Modules are searched in .*{here}",
        ),
        ("own_module.inner:make", r"there is no module own_module\.inner|importing own_module\.inner raised"),
        ("own_module:mak", r"own_module\.py has no mak; did you mean make\?"),
        ("own_module:three", r"'own_module:three', which is of type int, expected a function"),
        (
            "own_broken:make",
            r"^key: importing own_broken raised ModuleNotFoundError: No module named 'no_such_library'\.$",
        ),
        ("own_script:make", r"^key: importing own_script raised SystemExit: 7\.$"),
        ("own_module:make", r"^key: own_module\.make\(\) raised TypeError: .*missing 1 required"),
    ],
)
def test_what_is_wrong_is_one_line(here, name, message):
    with pytest.raises(InputError, match=message.replace("{here}", str(here))) as caught:
        call_reference(name, "key")
    assert "\n" not in str(caught.value)


def test_only_what_another_process_can_import_has_a_name():
    assert reference_to(call_reference) == "densefield.runs.references:call_reference"
    assert reference_to(lambda: 3) is None and reference_to(3) is None

    def inner():
        pass

    assert reference_to(inner) is None


@pytest.mark.parametrize("name", ["a", "a:", ":b", "a:b:c", "a b:c", "C:\\data", "a.1:b", "data/x:y", ""])
def test_other_text_names_no_function(name):
    assert not is_reference(name)
