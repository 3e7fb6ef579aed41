"""The examples for a plain torch loop, Lightning and transformers run, and return what they print."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("torch", reason="the examples need it")

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> ModuleType:
    file = EXAMPLES / f"{name}.py"
    if not file.exists():
        pytest.skip("examples come with the source alone")
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_plain_torch_loop_trains_in_two_stages(capsys):
    results = example("torch_loop").main(scenes=8, epochs=(1, 1))
    assert list(results) == ["network", "with a CRF, not trained", "trained together"]
    assert f"{100 * results['trained together']:.1f}" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # Lightning 2.6 with torch 2.13
@pytest.mark.filterwarnings("ignore:.*does not have many workers")
@pytest.mark.filterwarnings("ignore:The number of training batches")
def test_the_lightning_example_logs_metrics_and_parameters(capsys):
    pytest.importorskip("lightning")
    pytest.importorskip("pydantic")
    logged = example("lightning_scenes").main(scenes=8, epochs=2, crf_start_epoch=1)
    assert 0 <= logged["val_mean_iou"] <= 1 and logged["crf/spatial.weight"] != 1
    assert "crf/bilateral.sigma.4" in capsys.readouterr().out


def test_the_transformers_example_trains_saves_and_loads(capsys):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    pytest.importorskip("PIL")
    found = example("transformers_trainer").main(scenes=8, epochs=1)
    assert 0 <= found["eval_mean_iou"] <= 1
    assert "bilateral: sigma_xy" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", ["torch_loop", "transformers_trainer"])
def test_an_example_runs_with_its_own_settings(name):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    found = example(name).main()
    assert max(found.values()) > 0.15
