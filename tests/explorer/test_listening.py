"""Whom a pixel listens to: rows of the normalised kernel matrix, against the whole matrix."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("PIL", reason="the explorer needs Pillow")

from densefield import InputError
from densefield.explorer.gallery import Entry, Picture
from densefield.explorer.inference import Inference, Result
from densefield.explorer.listening import kernel_row, pixel_facts
from densefield.explorer.settings import settings_from_json
from densefield.images.masks import Mask
from tests.explorer.test_inference import MASKS, TABLES, solved

PIXEL = 31 * 108 + 47


@pytest.mark.parametrize("normalization", ["symmetric", "after", "before", "none"])
@pytest.mark.parametrize("exclude_self", [False, True])
def test_a_row_is_that_of_the_matrix_of_inference(normalization, exclude_self):
    kernel = {**TABLES["kernels"][1], "normalization": normalization}
    crf = {"kernels": [kernel], "exclude_self": exclude_self}
    result = solved(MASKS["labels"], model="kernels", crf=crf)
    assert result.problem is not None
    term = result.problem.pairwise[0]
    everywhere = [PIXEL, 0, 12, PIXEL + 1, PIXEL + 300]
    impulses = np.zeros((len(term.before), len(everywhere)), np.float32)
    impulses[everywhere, range(len(everywhere))] = 1
    columns = term.smooth(impulses)  # K̂ e_j for some j
    row = kernel_row(result, 0, PIXEL)
    assert row is not None
    # float32 sums, in another order
    assert np.allclose(row[everywhere], columns[PIXEL], rtol=1e-4, atol=1e-6 * float(np.abs(row).max()))


def test_rows_of_an_image_with_a_pixel_order_are_in_the_order_of_the_image():
    rng = np.random.default_rng(4_210)
    photo, mask = rng.integers(0, 255, (130, 140, 3)).astype(np.uint8), Mask("labels", np.eye(130, 140, dtype=np.uint8))
    settings = settings_from_json({"model": "kernels", "crf": {"kernels": [{"kind": "spatial", "sigma": 4}]}})
    result = Inference().result(0, Picture(Entry.__new__(Entry), photo, mask), settings, "", lambda: None)
    assert result.problem is not None and result.problem.order is not None
    row = kernel_row(result, 0, 80 * 140 + 33)
    assert row is not None
    heat = row.reshape(130, 140)
    there = np.argwhere(heat > heat.max() / 2)
    assert np.abs(there.mean(0) - (80, 33)).max() < 1 and np.abs(there - (80, 33)).max() < 8


def test_the_messages_explain_the_result():
    result = solved(MASKS["logits"], model="kernels", crf={"kernels": TABLES["kernels"]}, iterations=300)
    facts = pixel_facts(result, PIXEL)
    z = np.array(facts["scores"]) + sum(np.array(each["scores"]) for each in facts["messages"])
    q = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
    assert q == pytest.approx(facts["after"], abs=1e-4)  # a fixed point after many iterations
    assert [each["kernel"] for each in facts["messages"]] == ["spatial", "bilateral"]
    assert 1 < facts["messages"][0]["pixels"] < 400


def pixels_of(result: Result) -> tuple[int, int]:
    """A pixel near an edge, and one far from all."""
    assert result.points is not None
    far = np.setdiff1d(np.arange(result.marginals[0].size), result.points)
    return int(result.points[len(result.points) // 2]), int(far[0])


def test_pixels_far_from_edges_listen_to_nobody_in_the_learnt_model():
    result = solved(MASKS["binary"], model="learnt", roughness=2)
    near, far = pixels_of(result)
    row = kernel_row(result, 1, near)
    assert row is not None and row.argmax() in result.points and (np.delete(row, result.points) == 0).all()
    assert kernel_row(result, 1, far) is None
    assert pixel_facts(result, near)["coupled"] and not pixel_facts(result, far)["coupled"]
    assert pixel_facts(result, far)["after"] == result.marginals.reshape(2, -1)[:, far].tolist()


def test_an_unknown_kernel_is_refused():
    with pytest.raises(InputError, match="kernel number 5"):
        kernel_row(solved(MASKS["labels"], model="kernels", crf=TABLES), 5, PIXEL)
