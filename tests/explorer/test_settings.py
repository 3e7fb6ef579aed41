"""Settings from the page: every wrong value is refused with its name."""

from __future__ import annotations

import base64
import zlib

import numpy as np
import pytest

pytest.importorskip("PIL", reason="the explorer needs Pillow")

from densefield import Bilateral, InputError
from densefield.explorer.settings import settings_from_json, unpacked_scribbles

KERNEL = {"kind": "bilateral", "sigma_xy": 50, "sigma_rgb": 9, "weight": 4}


def packed(layer: np.ndarray) -> str:
    return base64.b64encode(zlib.compress(layer.tobytes())).decode()


def test_kernels_and_options_arrive_in_the_crf():
    given = {"model": "kernels", "iterations": 7, "crf": {"kernels": [KERNEL], "exclude_self": True}}
    crf = settings_from_json(given, threads=1).crf
    assert crf is not None and isinstance(crf.kernels[0], Bilateral) and crf.kernels[0].sigma_rgb == 9
    assert crf.options.changed() == {"iterations": 7, "exclude_self": True, "data_range": 255.0, "threads": 1}


@pytest.mark.parametrize(
    "given, message",
    [
        ([], "the settings are"),
        ({"modle": "learnt"}, "unknown key 'modle'"),
        ({"model": "other"}, "model is 'other'"),
        ({"source": 3}, "source is 3"),
        ({"iterations": 2.5}, "iterations is 2.5, expected an integer from 0 to 500"),
        ({"iterations": True}, "iterations is True"),
        ({"iterations": 501}, "iterations is 501"),
        ({"confidence": 1}, "confidence is 1"),
        ({"confidence": "0.5"}, "confidence is '0.5'"),
        ({"roughness": -1}, "roughness is -1"),
        ({"temperature": 0}, "temperature is 0"),
        ({"scribbles": 5}, "scribbles are 5"),
        ({"model": "kernels"}, "crf is None"),
        ({"model": "kernels", "crf": {"kernels": [{**KERNEL, "sigma_xy": 0}]}}, "kernels.0.sigma_xy"),
        ({"model": "kernels", "crf": {"kernels": [{**KERNEL, "sigma_xy": "1"}]}}, "kernels.0.sigma_xy"),
        ({"model": "kernels", "crf": {"kernels": [KERNEL] * 9}}, "there are 9 kernels"),
        ({"model": "kernels", "crf": {"kernels": [{"kind": "custom", "feature": "depth"}]}}, "compares 'depth'"),
        ({"model": "kernels", "crf": {"kernels": [KERNEL], "halo": -1}}, "halo"),
        ({"model": "kernels", "crf": {"kernels": [{**KERNEL, "weight": [[1, 2], [3, 4]]}]}}, "weight"),
    ],
)
def test_a_wrong_value_is_refused_by_name(given, message):
    with pytest.raises(InputError) as caught:
        settings_from_json(given)
    assert message in str(caught.value)


def test_scribbles_are_unpacked_as_painted():
    layer = np.random.default_rng(90_817).integers(0, 255, (5, 7)).astype(np.uint8)
    assert np.array_equal(unpacked_scribbles(packed(layer), (5, 7)), layer)
    assert (unpacked_scribbles("", (5, 7)) == 255).all()


@pytest.mark.parametrize(
    "text",
    [
        "%%%",
        "AAAA",
        packed(np.zeros((5, 8), np.uint8)),
        packed(np.zeros((4, 7), np.uint8)),
        packed(np.zeros(1 << 26, np.uint8)),
    ],
)
def test_scribbles_of_another_size_or_kind_are_refused(text):
    with pytest.raises(InputError, match="scribbles"):
        unpacked_scribbles(text, (5, 7))
