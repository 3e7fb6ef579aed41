"""Child processes inherit the drop-in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

OURS = "densefield.pydensecrf.densecrf"

# Each prints the module that its child imports.
MULTIPROCESSING = """
import multiprocessing, sys
from work import which

def here(_):
    return which()

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(1) as pool:
        print(*pool.map(here, [0]), *pool.map(which, [0]), sep="\\n")
"""
JOBLIB = """
from joblib import Parallel, delayed
from work import which

def here():
    import pydensecrf.densecrf as dcrf
    return dcrf.DenseCRF.__module__

if __name__ == "__main__":
    print(*Parallel(n_jobs=2)(delayed(f)() for f in (here, which)), sep="\\n")
"""
TORCH = """
import torch.multiprocessing as mp
from work import show

if __name__ == "__main__":
    mp.spawn(show, nprocs=1)
"""
SUBPROCESS = """
import subprocess, sys
from pathlib import Path
subprocess.run([sys.executable, "-c", "import pydensecrf.densecrf as d; print(d.DenseCRF.__module__)"], check=True)
subprocess.run([sys.executable, Path(__file__).parent / "work.py"], check=True)
"""
GRANDCHILD = """
import subprocess, sys
from pathlib import Path
script = Path(__file__).with_name("child.py")
script.write_text("import subprocess, sys; subprocess.run([sys.executable, 'work.py'], check=True)")
subprocess.run([sys.executable, script], check=True, cwd=script.parent)
"""
WORK = """
def which(_=None):
    from pydensecrf.utils import unary_from_labels
    import pydensecrf.densecrf
    assert unary_from_labels.__module__ == pydensecrf.utils.__name__
    return pydensecrf.densecrf.DenseCRF.__module__

def show(_):
    print(which(), flush=True)

if __name__ == "__main__":
    show(0)
"""
PROGRAMS = {
    "fork": (MULTIPROCESSING, "fork"),
    "spawn": (MULTIPROCESSING, "spawn"),
    "forkserver": (MULTIPROCESSING, "forkserver"),
    "joblib": (JOBLIB,),
    "torch": (TORCH,),
    "subprocess": (SUBPROCESS,),
    "grandchild": (GRANDCHILD,),
}


def lines(*arguments: str | Path, cwd: Path, env: dict[str, str] | None = None) -> list[str]:
    """The output of Python."""
    result = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=cwd, env=env
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


@pytest.fixture(params=PROGRAMS)
def program(request, tmp_path: Path) -> list[str]:
    """Arguments that run a program in a separate folder."""
    if request.param in ("fork", "forkserver") and sys.platform == "win32":
        pytest.skip("Windows has only spawn")
    if request.param in ("joblib", "torch"):
        pytest.importorskip(request.param)
    text, *arguments = PROGRAMS[request.param]
    (tmp_path / "work.py").write_text(WORK, encoding="utf-8")
    (tmp_path / "script.py").write_text(text, encoding="utf-8")
    return ["script.py", *arguments]


def test_without_install_children_import_the_real_package(program, tmp_path):
    pytest.importorskip("pydensecrf", reason="pydensecrf is not installed: pip install 'densefield[peers]'")
    assert set(lines(*program, cwd=tmp_path)) == {"pydensecrf.densecrf"}


def test_children_of_a_script_inherit_the_drop_in(program, tmp_path):
    assert set(lines("-m", "densefield.pydensecrf", *program, cwd=tmp_path)) == {OURS}


def test_children_of_a_module_inherit_the_drop_in(program, tmp_path):
    arguments = ["-m", "script", *program[1:]]
    assert set(lines("-m", "densefield.pydensecrf", *arguments, cwd=tmp_path)) == {OURS}


def test_children_of_a_program_that_calls_install_inherit_the_drop_in(program, tmp_path):
    script = tmp_path / "script.py"
    # Only the parent calls it, not every worker that imports the script.
    call = "if __name__ == '__main__':\n    import densefield.pydensecrf\n    densefield.pydensecrf.install()\n"
    script.write_text(call + script.read_text(encoding="utf-8"), encoding="utf-8")
    assert set(lines(*program, cwd=tmp_path)) == {OURS}


def test_the_previous_path_of_children_follows_and_is_not_repeated(tmp_path):
    code = """
import os, sys, densefield.pydensecrf as p
before, first = list(sys.path), os.environ["PYTHONPATH"]
p.install(); p.install()
entries = os.environ["PYTHONPATH"].split(os.pathsep)
print(entries[1:] == [first], sys.path == [before[0], entries[0], *before[1:]], "pydensecrf" in os.listdir(entries[0]))
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    assert lines("-c", code, cwd=tmp_path, env=environment) == ["True True True"]


def test_a_child_without_densefield_imports_its_own_package(tmp_path):
    package = tmp_path / "elsewhere" / "pydensecrf"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "densecrf.py").write_text("NAME = 'another'\n", encoding="utf-8")
    code = f"""
import os, subprocess, sys, densefield.pydensecrf as p
p.install()
child = "import pydensecrf.densecrf as d, sys; print(d.NAME, 'densefield' in sys.modules)"
path = os.environ["PYTHONPATH"] + os.pathsep + {str(package.parent)!r}
subprocess.run([sys.executable, "-S", "-c", child], check=True, env={{**os.environ, "PYTHONPATH": path}})
"""
    assert lines("-c", code, cwd=tmp_path) == ["another False"]


def test_a_child_that_ignores_its_environment_does_not_inherit_the_drop_in(tmp_path):
    pytest.importorskip("pydensecrf", reason="pydensecrf is not installed: pip install 'densefield[peers]'")
    code = """
import subprocess, sys, densefield.pydensecrf as p
p.install()
child = "import pydensecrf.densecrf as d; print(d.DenseCRF.__module__)"
for option in ("-E", "-I"):
    subprocess.run([sys.executable, option, "-c", child], check=True)
"""
    assert lines("-c", code, cwd=tmp_path) == ["pydensecrf.densecrf"] * 2
