"""The learnt parameters and their file."""

from __future__ import annotations

import json
from dataclasses import astuple, fields, replace

import pytest

from densefield.refinement.parameters import FILE, Learnt, MaskParameters, PowerLaw, as_json, learnt, length_unit
from densefield.refinement.scores import score_kernels


def test_the_learnt_file_is_read():
    content = json.loads(FILE.read_text(encoding="utf-8"))
    assert set(content) == {"mask", "scores"}
    found = learnt()
    for field in fields(MaskParameters):
        law = getattr(found.mask, field.name)
        assert content["mask"][field.name] == {"value": law.value, "power": law.power}
    assert list(content["scores"].values()) == list(astuple(found.scores))
    assert learnt() is found  # read once


@pytest.mark.parametrize("roughness", [0.3, 1.0, 2.0, 9.0, 20.0, 80.0])
def test_all_laws_are_positive_and_moderate(roughness):
    for field in fields(MaskParameters):
        assert 1e-3 < getattr(learnt().mask, field.name)(roughness) < 1e3
    assert all(value > 0 for value in astuple(learnt().scores))


def test_rougher_masks_have_wider_bands_and_less_confidence():
    mask = learnt().mask
    assert mask.width(8.0) > 2 * mask.width(2.0) and mask.strength(8.0) < mask.strength(2.0)


def test_a_power_law_is_its_value_at_one_unit():
    assert PowerLaw(3.0)(7.0) == 3.0
    assert PowerLaw(3.0, -0.5)(1.0) == 3.0
    assert PowerLaw(3.0, -0.5)(4.0) == 1.5
    assert PowerLaw(3.0, 2.0)(4) == 48.0 and isinstance(PowerLaw(3, 2)(4), float)


def test_written_parameters_are_read_again(tmp_path):
    path = tmp_path / "other.json"
    changed = Learnt(
        replace(learnt().mask, strength=PowerLaw(2.71828182845, -0.3333333333)),
        replace(learnt().scores, sigma=123456.0),
    )
    path.write_text(as_json(changed), encoding="utf-8")
    found = learnt(path)
    assert found.mask.strength == PowerLaw(2.718, -0.3333) and found.scores.sigma == 123500.0  # four digits
    assert found.mask.width == learnt().mask.width
    assert as_json(found) == as_json(changed) == path.read_text(encoding="utf-8")
    assert as_json(learnt()) == FILE.read_text(encoding="utf-8")


def test_unknown_parameters_are_an_error(tmp_path):
    path, content = tmp_path / "other.json", json.loads(FILE.read_text(encoding="utf-8"))
    for part in ("mask", "scores"):
        wrong = {**content, part: {**content[part], "colour": content[part]["sigma"]}}
        path.write_text(json.dumps(wrong), encoding="utf-8")
        with pytest.raises(TypeError, match="colour"):
            learnt.__wrapped__(path)


@pytest.mark.parametrize(
    "shape, spacing, unit",
    [
        ((375, 500), 1.0, 1.0),
        ((500, 375), 1.0, 1.0),
        ((40, 60), 0.5, 0.5),
        ((750, 1000), 1.0, 2.0),
        ((750, 1000), 3.0, 6.0),
        ((90, 750, 1000), 1.0, 2.0),
        ((0, 0), 1.0, 1.0),
    ],
)
def test_the_unit_of_length_is_a_pixel_or_grows_with_the_diagonal(shape, spacing, unit):
    assert length_unit(shape, spacing) == pytest.approx(unit, rel=1e-12)


def test_kernels_for_scores_are_in_units():
    scores = learnt().scores
    for shape, unit in (((60, 80), 1.0), ((750, 1000), 2.0)):
        spatial, bilateral = score_kernels(shape)
        assert spatial.sigma == pytest.approx(scores.sigma * unit) and spatial.weight == scores.weight
        assert bilateral.sigma_xy == pytest.approx(scores.sigma_xy * unit)
        assert bilateral.sigma_rgb == scores.sigma_rgb and bilateral.weight == scores.bilateral_weight
    assert score_kernels((60, 80), (0.5, 0.5))[0].sigma == pytest.approx(scores.sigma / 2)
    assert score_kernels((77,))[0].sigma == scores.sigma
