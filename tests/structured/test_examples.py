"""The examples of structured models run on small data, and reach the stated gains on full data (slow)."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("torch")
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def _modules_of_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))  # as for a program that is run from there


def example(name: str) -> ModuleType:
    if name != "grid":
        pytest.importorskip("sklearn", reason="the example uses scikit-learn's digits")
    if not EXAMPLES.is_dir():
        pytest.skip("the examples are not installed")
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "name, sizes, models",
    [
        ("words", {"words": 20, "tests": 10, "epochs": 1}, 5),
        ("tagging", {"pictures": 40, "tests": 20, "epochs": 1}, 5),
        ("grid", {"scenes": 8, "tests": 2, "before": 1, "joint": 1}, 4),
    ],
)
def test_the_examples_run(name: str, sizes: dict[str, int], models: int) -> None:
    table = example(name).main(**sizes)
    assert len(table) == models
    assert all(0 <= value <= 1 and low <= high for value, low, high in table.values())


@pytest.mark.slow
def test_words_improve_with_a_chain_and_more_with_a_second_order_model() -> None:
    table = example("words").main()
    assert table["chain, exact"][1] > 0.02 and table["chain, LBP"][1] > 0.02
    assert table["second order, exact"][1] > 0.04 and table["second order, LBP"][1] > 0.04
    assert table["second order, exact"][0] > table["chain, exact"][0] + 0.01


@pytest.mark.slow
def test_tags_improve_with_a_graph_for_every_inference() -> None:
    table = example("tagging").main()
    assert all(low > 0.015 for name, (_, low, _) in table.items() if name != "network")
