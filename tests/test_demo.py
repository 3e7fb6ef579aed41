"""The demo: its commands are those of the command line, and its tables show the evaluated results."""

from __future__ import annotations

import importlib.util
import shlex
from io import StringIO
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the demo needs it")
pytest.importorskip("typer", reason="the demo needs it")
pytest.importorskip("rich", reason="the demo needs it")
pytest.importorskip("PIL", reason="the demo needs it")

import typer.main
from rich.console import Console

from densefield.cli.app import app
from densefield.crf.kernels import Bilateral, Spatial
from densefield.evaluation.evaluation import evaluate
from densefield.nn.dense_crf import DenseCRF
from tests.support.scored_scenes import ScoredScenes

FILE = Path(__file__).parents[1] / "examples" / "demo.py"


@pytest.fixture(scope="module")
def demo():
    if not FILE.exists():
        pytest.skip("examples come with the source alone")
    spec = importlib.util.spec_from_file_location("demo", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_command_is_valid(demo):
    group = typer.main.get_command(app)
    for command in demo.commands(Path("demo", "seed-7"), 7):
        verb, *arguments = shlex.split(command)
        parser = group.commands[verb]
        if verb == "data":
            parser, arguments = parser.commands[arguments[0]], arguments[1:]
        assert parser.make_context(verb, arguments).params


def test_every_output_is_inside_the_demo_folder(demo):
    for command in demo.commands(Path("demo", "seed-7"), 7):
        words = shlex.split(command)
        place = next((words[words.index(name) + 1] for name in ("-o", "--run") if name in words), words[2])
        assert place.startswith("demo/seed-7/")


def test_test_scenes_are_not_training_scenes(demo):
    drawn = [shlex.split(command) for command in demo.commands(Path("demo"), 7)[:2]]
    seeds = {words[words.index("--seed") + 1] for words in drawn}
    assert len(seeds) == 2 and {words[2] for words in drawn} == {"demo/scenes", "demo/test"}


def test_the_tables_have_every_method_and_every_gain(demo, tmp_path):
    source = ScoredScenes(6)
    weak, strong = DenseCRF(2, [Spatial(1.5, weight=0.5)]), DenseCRF(2, [Spatial(2), Bilateral(12, 20, weight=2)])
    evaluate(source, None, tmp_path / "network" / "eval", ["network"])
    evaluate(source, weak, tmp_path / "separate" / "eval")
    evaluate(source, DenseCRF(2, [Spatial(3, weight=1)]), tmp_path / "gradient" / "eval", ["crf"])
    evaluate(source, strong, tmp_path / "joint" / "eval")
    methods = demo.results(tmp_path)
    console = Console(file=StringIO(), width=160)
    console.print(demo.metrics_table(methods), demo.differences_table(methods))
    text = console.file.getvalue()
    for result in methods.values():
        assert f"{100 * result.mean_iou:.2f} " in text and f"{result.negative_log_likelihood:.4f} " in text
    _, alone, searched, gradient, joint = (100 * result.mean_iou for result in methods.values())
    for gain in (searched - alone, gradient - alone, joint - searched, joint - gradient, joint - alone):
        assert f"{gain:+.2f} " in text


def test_a_failing_command_ends_the_demo_with_its_status(demo, tmp_path):
    with pytest.raises(SystemExit) as ended:
        demo.run(f"data check {(tmp_path / 'nowhere').as_posix()}", Console(file=StringIO()))
    assert ended.value.code == 2
