"""explain() on masks that are refined with learnt parameters."""

from __future__ import annotations

import numpy as np
import pytest

from densefield import InputError, explain
from tests.support.textured_photos import blob, blocks, dilated, photo, shifted

TRUTH = blob()
IMAGE = photo(TRUTH)


def notes(**arguments: object) -> list[str]:
    found = explain(IMAGE, **arguments)
    assert all(finding.severity == "note" for finding in found)
    return [f"{finding.what} {finding.numbers}" for finding in found]


def test_the_roughness_and_how_it_was_found_are_notes():
    assert "about 8 pixels rough" in notes(labels=blocks(TRUTH, 16))[0]
    assert "blocks of 16 pixels" in notes(labels=blocks(TRUTH, 16))[0]
    moved = notes(labels=dilated(TRUTH, 8))[0]
    assert any(f"by {size} pixels across and by (0, 0) pixels as a whole" in moved for size in (7, 8))
    assert "by 0 pixels across and by (-3, 4) pixels as a whole" in notes(labels=shifted(TRUTH, 3, -4))[0]
    assert "agree within that distance" in notes(labels=TRUTH)[0]
    assert "about 3 pixels rough" in notes(labels=TRUTH, roughness=3)[0]


def test_the_last_finding_is_the_share_of_changed_pixels():
    assert notes(labels=dilated(TRUTH, 5))[-1].startswith("No problem found: ")
    last = explain(IMAGE, labels=TRUTH, roughness=0.1)[-1]
    assert (
        "The mask already follows the image" in last.what and last.cure == "If it does not, pass a larger roughness=."
    )


def test_an_image_without_edges_is_found():
    ramp = np.linspace(90, 99, IMAGE.shape[1]).repeat(3).reshape(1, -1, 3)  # less than half a level per pixel
    first, last = explain(np.broadcast_to(ramp, IMAGE.shape).astype(np.float32), labels=TRUTH)
    assert first.severity == "problem" and "no edges near those of the mask" in first.what
    assert "0% of the pixels changed" in last.what and "problems above" in last.what


def test_labels_that_vanish_are_a_note():
    mask = TRUTH.astype(np.uint8)
    mask[20, 20] = 2
    assert any("Labels disappeared" in note for note in notes(labels=mask, roughness=4))


def test_masks_without_edges_are_found():
    same = explain(IMAGE, labels=np.ones(TRUTH.shape, np.uint8))
    assert "same label everywhere" in same[0].what and same[0].severity == "problem"
    one = explain(np.zeros((1, 1, 3), np.uint8), labels=np.full((1, 1), 10))
    assert one[0].numbers == "label 10 is the only one at 1 pixel"
    unknown = explain(IMAGE, labels=np.full(TRUTH.shape, 255), void=255)
    assert any("unknown" in finding.what or "known label" in finding.what for finding in unknown)


def test_no_iterations_are_found():
    assert explain(IMAGE, labels=blocks(TRUTH, 8), iterations=0)[0].what == "Inference makes no iteration."


def test_an_empty_mask_is_refused():
    with pytest.raises(InputError, match="at least one pixel"):
        explain(IMAGE[:0], labels=np.zeros((0, IMAGE.shape[1]), np.uint8))
