"""The graph says what does not fit when it is built, and what scores and labels do not fit it."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from densefield import structured  # noqa: E402
from densefield.errors import InputError, InputTypeError  # noqa: E402
from densefield.structured import FactorGraph, Potts  # noqa: E402


@pytest.mark.parametrize(
    "labels, regions, message",
    [
        ([], {"a": [[0]]}, "labels is empty"),
        ([2, 0], {"a": [[0]]}, "labels holds 0"),
        ([2, 2.5], {"a": [[0]]}, "labels holds 2.5"),
        ([2, 2], {}, "expected groups by name"),
        ([2, 2], [[0, 1]], "expected groups by name"),
        ([2, 2], {3: [[0, 1]]}, "called 3"),
        ([2, 2], {"a": [[0, 2]]}, "names variables 0 to 2, expected 0 to 1"),
        ([2, 2], {"a": [[0, -1]]}, "names variables -1"),
        ([2, 2], {"a": [[1, 1]]}, "names a variable twice"),
        ([2, 2], {"a": [[0, 1], [0]]}, "cannot be read"),
        ([2, 2], {"a": []}, "has shape"),
        ([2, 2], {"a": [0, 1]}, "has shape"),
        ([2, 2], {"a": [[0.0, 1.0]]}, "integers"),
        ([2, 3, 2], {"a": [[0, 1], [1, 2]]}, r"region 1 has \(3, 2\) labels"),
        ([2, 3], {"a": Potts([[0, 1]])}, "as many labels on both sides"),
        ([2, 2, 2], {"a": Potts([[0, 1, 2]])}, "expected pairs"),
        ([2, 2], {"a": [[0, 1]], "b": [[1, 0]]}, "'a' and another in 'b'"),
    ],
)
def test_what_does_not_fit_raises_when_the_graph_is_built(labels: object, regions: object, message: str) -> None:
    with pytest.raises((InputError, InputTypeError), match=message):
        FactorGraph(labels, regions)  # type: ignore[arg-type]


GRAPH = FactorGraph([2, 3], {"unary": [[0]], "pair": [[0, 1]]})


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"pair": torch.zeros(2, 1, 3, 2)}, r"shape \(2, 1, 3, 2\), expected \(2, 1, 2, 3\)"),
        ({"pair": torch.zeros(5, 1, 2, 3)}, "batches of 2, 5"),
        ({"pair": torch.zeros(())}, r"shape \(\), expected \(2, 1, 2, 3\)"),
        ({"pair": torch.zeros(2, 1, 2, 1)}, r"shape \(2, 1, 2, 1\), expected"),
        ({"pair": torch.full((2, 1, 2, 3), math.nan)}, "NaN"),
        ({"pair": torch.full((2, 1, 2, 3), math.inf)}, "inf"),
        ({"pair": torch.zeros(2, 1, 2, 3, dtype=torch.float16)}, "float16, expected float32 or float64"),
        ({"pair": torch.zeros(2, 1, 2, 3, dtype=torch.long)}, "int64, expected float32 or float64"),
        ({"pair": torch.zeros(2, 1, 2, 3, dtype=torch.float64)}, "one dtype"),
        ({"pair": [[1.0]]}, "is a list|are a list"),
        ({"other": torch.zeros(1)}, "expected those of unary, pair"),
    ],
)
def test_scores_that_do_not_fit_raise(changed: dict[str, object], message: str) -> None:
    scores = {"unary": torch.zeros(2, 1, 2), "pair": torch.zeros(2, 1, 2, 3), **changed}
    with pytest.raises((InputError, InputTypeError), match=message):
        GRAPH.checked(scores)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "labels, message",
    [
        (torch.zeros(2, 3, dtype=torch.long), r"shape \(2, 3\), expected \(2, 2\)"),
        (torch.tensor([[0, 0], [1, 3]]), "variable 1 of item 1 has the label 3, expected 0 to 2"),
        (torch.tensor([[0, -1], [1, 2]]), "label -1"),
        (torch.zeros(2, 2), "integers"),
        ([[0, 0], [0, 0]], "list"),
    ],
)
def test_labels_that_do_not_fit_raise(labels: object, message: str) -> None:
    scores = {"unary": torch.zeros(2, 1, 2), "pair": torch.zeros(2, 1, 2, 3)}
    with pytest.raises((InputError, InputTypeError), match=message):
        GRAPH.score(scores, labels)  # type: ignore[arg-type]


def test_scores_that_items_or_regions_share_are_expanded() -> None:
    graph = FactorGraph([2] * 3, {"unary": [[0], [1], [2]], "pair": [[0, 1], [1, 2]]})
    full = graph.checked({"unary": torch.zeros(4, 3, 2), "pair": torch.eye(2).reshape(1, 1, 2, 2)})
    assert full["pair"].shape == (4, 2, 2, 2)


def test_regions_of_one_variable_add_up() -> None:
    graph = FactorGraph([2, 2], {"a": [[0], [0]], "b": [[0]]})
    scores = {"a": torch.tensor([[[1.0, 0.0], [2.0, 0.0]]]), "b": torch.tensor([[[4.0, 0.5]]])}
    assert graph.unary(graph.checked(scores)).tolist() == [[[7.0, 0.5], [0.0, 0.0]]]


def test_every_public_name_is_in_the_reference() -> None:
    reference = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8").split()
    assert [name for name in structured.__all__ if name not in reference] == []


def test_without_torch_the_error_names_the_cure() -> None:
    code = """
import sys
sys.modules["torch"] = None
try:
    import densefield.structured
except ImportError as error:
    print(error)
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'densefield[torch]'" in answer.stdout
