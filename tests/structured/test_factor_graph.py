"""A graph checks its regions when it is built, and scores and labels when they are used."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from densefield.errors import InputError, InputTypeError  # noqa: E402
from densefield.structured import FactorGraph, Potts  # noqa: E402


@pytest.mark.parametrize(
    "num_states, regions, error, message",
    [
        ([], {"a": [[0]]}, InputError, "num_states is empty"),
        ([2, 0], {"a": [[0]]}, InputError, "num_states holds 0"),
        ([2, 2.5], {"a": [[0]]}, InputError, "num_states holds 2.5"),
        ([2, 2], {}, InputTypeError, "expected groups by name"),
        ([2, 2], [[0, 1]], InputTypeError, "expected groups by name"),
        ([2, 2], {3: [[0, 1]]}, InputTypeError, "called 3"),
        ([2, 2], {"a": [[0, 2]]}, InputError, "names variables 0 to 2, expected 0 to 1"),
        ([2, 2], {"a": [[0, -1]]}, InputError, "names variables -1"),
        ([2, 2], {"a": [[1, 1]]}, InputError, "names a variable twice"),
        ([2, 2], {"a": [[0, 1], [0]]}, InputError, "cannot be read"),
        ([2, 2], {"a": []}, InputError, "has shape"),
        ([2, 2], {"a": [0, 1]}, InputError, "has shape"),
        ([2, 2], {"a": [[0.0, 1.0]]}, InputTypeError, "integers"),
        ([2, 3, 2], {"a": [[0, 1], [1, 2]]}, InputError, r"region 1 has \(3, 2\) states"),
        ([2, 3], {"a": Potts([[0, 1]])}, InputError, "pairs of variables with equally many"),
        ([2, 2, 2], {"a": Potts([[0, 1, 2]])}, InputError, "expected pairs"),
        ([2, 2], {"a": [[0, 1]], "b": [[1, 0]]}, InputError, "'a' and another in 'b'"),
    ],
)
def test_an_invalid_graph_raises(num_states: object, regions: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        FactorGraph(num_states, regions)  # type: ignore[arg-type]


GRAPH = FactorGraph([2, 3], {"unary": [[0]], "pair": [[0, 1]]})


@pytest.mark.parametrize(
    "changed, error, message",
    [
        ({"pair": torch.zeros(2, 1, 3, 2)}, InputError, r"shape \(2, 1, 3, 2\), expected \(2, 1, 2, 3\)"),
        ({"pair": torch.zeros(5, 1, 2, 3)}, InputError, "batches of 2, 5"),
        ({"pair": torch.zeros(())}, InputError, r"shape \(\), expected \(2, 1, 2, 3\)"),
        ({"pair": torch.zeros(2, 1, 2, 1)}, InputError, r"shape \(2, 1, 2, 1\), expected"),
        ({"pair": torch.full((2, 1, 2, 3), math.nan)}, InputError, "NaN"),
        ({"pair": torch.full((2, 1, 2, 3), math.inf)}, InputError, "inf"),
        (
            {"pair": torch.zeros(2, 1, 2, 3, dtype=torch.float16)},
            InputTypeError,
            "float16, expected float32 or float64",
        ),
        ({"pair": torch.zeros(2, 1, 2, 3, dtype=torch.long)}, InputTypeError, "int64, expected float32 or float64"),
        ({"pair": torch.zeros(2, 1, 2, 3, dtype=torch.float64)}, InputTypeError, "one dtype"),
        ({"pair": [[1.0]]}, InputTypeError, "are of type list"),
        ({"other": torch.zeros(1)}, InputError, "groups unary, pair, other, expected unary, pair"),
    ],
)
def test_scores_of_the_wrong_shape_type_or_value_raise(
    changed: dict[str, object], error: type[Exception], message: str
) -> None:
    scores = {"unary": torch.zeros(2, 1, 2), "pair": torch.zeros(2, 1, 2, 3), **changed}
    with pytest.raises(error, match=message):
        GRAPH.checked(scores)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "labels, error, message",
    [
        (torch.zeros(2, 3, dtype=torch.long), InputError, r"shape \(2, 3\), expected \(2, 2\)"),
        (torch.tensor([[0, 0], [1, 3]]), InputError, "variable 1 of item 1 has the label 3, expected 0 to 2"),
        (torch.tensor([[0, -1], [1, 2]]), InputError, "label -1"),
        (torch.zeros(2, 2), InputTypeError, "integers"),
        ([[0, 0], [0, 0]], InputTypeError, "list"),
    ],
)
def test_invalid_labels_raise(labels: object, error: type[Exception], message: str) -> None:
    scores = {"unary": torch.zeros(2, 1, 2), "pair": torch.zeros(2, 1, 2, 3)}
    with pytest.raises(error, match=message):
        GRAPH.score(scores, labels)  # type: ignore[arg-type]


def test_scores_shared_by_items_or_regions_are_expanded() -> None:
    graph = FactorGraph([2] * 3, {"unary": [[0], [1], [2]], "pair": [[0, 1], [1, 2]]})
    full = graph.checked({"unary": torch.zeros(4, 3, 2), "pair": torch.eye(2).reshape(1, 1, 2, 2)})
    assert full["pair"].shape == (4, 2, 2, 2)


def test_scores_of_single_variables_are_added() -> None:
    graph = FactorGraph([2, 2], {"a": [[0], [0]], "b": [[0]]})
    scores = {"a": torch.tensor([[[1.0, 0.0], [2.0, 0.0]]]), "b": torch.tensor([[[4.0, 0.5]]])}
    assert graph.unary(graph.checked(scores)).tolist() == [[[7.0, 0.5], [0.0, 0.0]]]


def test_the_import_error_without_torch_says_how_to_install_it() -> None:
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
