"""The code on the pages of integrations runs, with small models in place of those that it downloads."""

from __future__ import annotations

import re
import sys
from collections import OrderedDict
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="the pages are about torch")

import torch
from torch import nn

PAGES = Path(__file__).parents[2] / "docs" / "integrations"


def code(page: str) -> str:
    """All Python blocks of a page."""
    file = PAGES / f"{page}.md"
    if not file.exists():
        pytest.skip("documentation comes with the source alone")
    return "\n".join(re.findall(r"```python\n(.*?)```", file.read_text(encoding="utf-8"), re.DOTALL))


class DictOfScores(nn.Conv2d):
    """As torchvision's models: a dict with "out" and "aux"."""

    def forward(self, image: torch.Tensor) -> Any:
        scores = super().forward(image)
        return OrderedDict(out=scores, aux=scores)


class Features(nn.Module):
    """As timm's bodies: a list of features, the finest first."""

    feature_info = SimpleNamespace(channels=lambda: [8, 16])

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList([nn.Conv2d(3, 8, 4, stride=4), nn.Conv2d(8, 16, 2, stride=2)])

    def forward(self, image: torch.Tensor) -> list[torch.Tensor]:
        fine = self.stages[0](image)
        return [fine, self.stages[1](fine)]


class MultiplesOf32(nn.Conv2d):
    """As most models of segmentation_models_pytorch: logits at the size of an input that 32 divides."""

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        assert image.shape[2] % 32 == image.shape[3] % 32 == 0
        return super().forward(image)


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    module = ModuleType(name)
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, name, module)


def test_networks_of_other_libraries(monkeypatch):
    smp = {"DeepLabV3Plus": lambda name, encoder_weights, classes, activation: MultiplesOf32(3, classes, 1)}
    stand_in(monkeypatch, "segmentation_models_pytorch", **smp)
    made = {"deeplabv3_resnet50": lambda weights, weights_backbone, num_classes: DictOfScores(3, num_classes, 8, 8)}
    stand_in(monkeypatch, "torchvision.models.segmentation", **made)
    stand_in(monkeypatch, "torchvision.models")
    stand_in(monkeypatch, "torchvision")
    settings = SimpleNamespace(resolve_model_data_config=lambda body: {"mean": (0.5,) * 3, "std": (0.25,) * 3})
    stand_in(monkeypatch, "timm", create_model=lambda name, **options: Features(), data=settings)
    images = torch.randint(256, (1, 3, 40, 56), dtype=torch.uint8)
    names: dict[str, Any] = {}
    source = code("torch-models").replace("segmenter = Segmenter(", "segmenter = check(")

    def check(network: nn.Module, crf: Any) -> Any:
        segmenter = names["Segmenter"](network, crf)
        log_marginals = segmenter(images)
        assert log_marginals.shape == (1, 21, 40, 56)
        log_marginals[:, 3].sum().backward()
        assert all(each.grad is not None and each.grad.any() for each in network.parameters() if each.ndim > 1)
        return segmenter

    names["check"] = check
    exec(compile(source, "torch-models.md", "exec"), names)
    assert names["segmenter"].network.normalization.mean == (127.5,) * 3 and len(names["groups"]) == 2


def test_the_page_about_transformers(monkeypatch, tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate", reason="Trainer needs it")
    pillow = pytest.importorskip("PIL.Image")
    from tests.support.tiny_transformers import CLASSES, tiny_model

    processor = transformers.SegformerImageProcessor(size={"height": 64, "width": 64})
    for owner, made in (
        (transformers.SegformerForSemanticSegmentation, tiny_model("segformer")),
        (transformers.AutoImageProcessor, processor),
    ):
        monkeypatch.setattr(owner, "from_pretrained", lambda name, made=made: made)
    monkeypatch.chdir(tmp_path)
    pillow.effect_noise((60, 50), 80).convert("RGB").save("photo.jpg")
    pixel_values, labels = torch.randn(3, 32, 32).clamp(-1, 1), torch.zeros(32, 32, dtype=torch.long)
    dataset = [{"pixel_values": pixel_values, "labels": labels}] * 2
    names: dict[str, Any] = {"dataset": dataset}
    options = 'TrainingArguments("run", num_train_epochs=5'
    source = code("transformers")
    assert options in source
    source = source.replace(options, f"{options}, use_cpu=True, report_to=[], disable_tqdm=True")
    exec(compile(source, "transformers.md", "exec"), names)
    assert names["labels"].shape == names["refined"][0].shape == (50, 60)
    assert names["log_marginals"].shape == (1, CLASSES, 50, 60)
    assert {path.name for path in Path("model").iterdir()} >= {"model.safetensors", "config.json", "crf.toml"}


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning", "ignore::DeprecationWarning")
def test_the_page_about_lightning(monkeypatch, tmp_path):
    lightning = pytest.importorskip("lightning.pytorch")
    pytest.importorskip("pydantic", reason="the names of logged values need the extra train")
    monkeypatch.chdir(tmp_path)
    pair = torch.randint(256, (3, 32, 48), dtype=torch.uint8), torch.randint(4, (32, 48))
    loader = torch.utils.data.DataLoader([pair] * 2, batch_size=2)
    names: dict[str, Any] = {"train_loader": loader, "val_loader": loader}
    source = code("lightning")
    assert "Trainer(max_epochs=15, " in source
    exec(compile(source.replace("Trainer(", 'Trainer(accelerator="cpu", '), "lightning.md", "exec"), names)
    assert names["module"].uses_crf and "crf/bilateral.sigma.2" in names["trainer"].callback_metrics
    own = names["OwnModule"](names["segmenter"].network, num_classes=4, crf_start_epoch=1)
    before = own.crf.values()["spatial.weight"]
    options = {"logger": False, "enable_checkpointing": False, "accelerator": "cpu"}
    for epochs in (1, 2):
        lightning.Trainer(max_epochs=epochs, **options).fit(own, loader)
        assert (own.crf.values()["spatial.weight"] == before) == (epochs == 1)
