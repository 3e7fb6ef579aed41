"""Previews show the image, the mask, the refined mask and the changes, for any image size."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("PIL.Image", reason="files need Pillow")


from densefield.images import preview as module
from densefield.images.palette import CONTOUR, OPACITY, outlined_overlay, voc_palette
from densefield.images.preview import CHANGED, FRAME, Panel, densest_window, draw_preview, panel_grid

LARGEST = 2600  # maximum height and width of the picture in pixels


@pytest.fixture
def grids(monkeypatch):
    """The panels of each preview, as rows."""
    seen: list[list[list[Panel]]] = []

    def watched(rows):
        seen.append([list(row) for row in rows])
        return panel_grid(rows)

    monkeypatch.setattr(module, "panel_grid", watched)
    return seen


def scene(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A photo, a mask with void pixels in its first row, and a refined mask that differs in two of five columns."""
    photo = np.random.default_rng(5009).integers(0, 256, (rows, columns, 3)).astype(np.uint8)
    before = np.zeros((rows, columns), int)
    before[:, columns // 2 :] = 2
    before[0] = -1
    after = np.zeros((rows, columns), int)
    after[:, columns // 2 + 2 :] = 2
    return photo, before, after


def test_four_panels_have_captions_and_a_second_row_zooms(grids):
    draw_preview(*scene(375, 500))
    ((first, second),) = grids
    assert [panel.caption for panel in first] == ["Image, 500 x 375", "Mask", "Refined", "Changed: 0.4 % of pixels"]
    assert second[0].caption.startswith("Zoom at row ") and len(second) == 4
    assert {panel.picture.shape for panel in first} == {(375, 500, 3)}


def test_labels_are_overlaid_with_contours():
    photo, before, _ = scene(30, 40)
    palette = voc_palette()
    picture = outlined_overlay(photo, before, palette)
    assert (picture[5, 19:21] == CONTOUR).all() and (picture[:2] == CONTOUR).all()
    expected = (1 - OPACITY) * photo[5:, 25:] + OPACITY * palette[2]
    assert abs(picture[5:, 25:] - expected).max() <= 0.5 + 1e-3  # rounding in float32
    before[:4] = -1
    assert np.array_equal(outlined_overlay(photo, before, palette)[:3], photo[:3])  # unknown pixels


def test_the_palette_of_the_mask_is_completed_with_voc_colours(grids):
    photo, before, after = scene(30, 40)
    after[:, 35:] = 1
    draw_preview(photo, before, after, np.array([[0, 0, 0], [10, 20, 30]], np.uint8))  # a palette without label 2
    refined = grids[0][0][2].picture
    scale = len(refined) // 30
    for column, colour in ((38, (10, 20, 30)), (30, voc_palette()[2])):
        expected = (1 - OPACITY) * photo[15, column] + OPACITY * np.array(colour)
        place = refined[15 * scale + scale // 2, column * scale + scale // 2]
        assert abs(place - expected).max() <= 0.5 + 1e-3


def test_changed_pixels_are_marked_except_void_ones(grids):
    draw_preview(*scene(375, 500))
    marks = (grids[0][0][3].picture == CHANGED).all(axis=2)
    frame = (grids[0][0][3].picture == FRAME).all(axis=2)
    expected = np.zeros((375, 500), bool)
    expected[1:, 250:252] = True
    assert np.array_equal(marks | frame, expected | frame) and 0 < frame.sum() < 700


def test_a_single_changed_pixel_is_visible_in_a_shrunk_image(grids):
    photo, before, _ = scene(1500, 1900)
    after = before.copy()
    after[700, 900] = 1
    draw_preview(photo, before, after)
    first, second = grids[0]
    assert (first[3].picture == CHANGED).all(axis=2).sum() == 1
    assert first[3].caption == "Changed: 0.001 % of pixels"
    assert (second[3].picture == CHANGED).all(axis=2).any()


@pytest.mark.parametrize(
    "size", [(1, 1), (18, 24), (3000, 4000), (50, 1000), (1000, 50), (1, 900), (4000, 3), (200, 300)]
)
def test_pictures_have_a_moderate_size_and_complete_captions(size, monkeypatch):
    rows, columns = size
    photo, before, after = scene(max(rows, 2), max(columns, 2))
    drawn = []
    real = module.ImageDraw.ImageDraw.text

    def watched(self, place, text, **options):
        drawn.append((place, text, options["font"]))
        return real(self, place, text, **options)

    monkeypatch.setattr(module.ImageDraw.ImageDraw, "text", watched)
    picture = draw_preview(photo[:rows, :columns], before[:rows, :columns], after[:rows, :columns])
    assert max(picture.shape) <= LARGEST and picture.dtype == np.uint8
    for (left, top), text, font in drawn:
        assert font.size >= 15 and left + font.getlength(text) <= picture.shape[1]
        beside = [place[0] for place, _, _ in drawn if place[1] == top and place[0] > left]
        assert not beside or left + font.getlength(text) <= min(beside)
    assert len(drawn) in (4, 8)


def test_the_font_has_every_letter_of_the_captions(grids):
    draw_preview(*scene(200, 300))
    font = module.ImageFont.load_default(20)
    missing = font.getmask("\U0010ffff").getbbox(), bytes(font.getmask("\U0010ffff"))
    for letter in {letter for row in grids[0] for panel in row for letter in panel.caption} - {" "}:
        mask = font.getmask(letter)
        assert (mask.getbbox(), bytes(mask)) != missing, letter


def test_panels_of_wide_images_are_placed_below_each_other(grids):
    draw_preview(*scene(60, 700))
    assert len(grids[0]) == 4 and [len(row) for row in grids[0]] == [2] * 4


def test_without_a_change_there_is_no_zoom(grids):
    photo, before, _ = scene(200, 300)
    draw_preview(photo, before, before)
    assert len(grids[0]) == 1 and grids[0][0][3].caption == "Changed: nothing"


def test_the_zoom_is_centred_on_a_small_change():
    changed = np.zeros((400, 500), bool)
    changed[200:203, 300:305] = True
    rows, columns = densest_window(changed)
    # Candidate windows are an eighth of their size apart.
    assert abs((rows.start + rows.stop) / 2 - 201.5) <= 10 and abs((columns.start + columns.stop) / 2 - 302.5) <= 12.5


@pytest.mark.parametrize("shape", [(200, 300), (900, 20), (7, 400), (130, 1)])
def test_the_zoomed_part_has_the_most_changed_pixels(shape):
    changed = np.random.default_rng(6029).random(shape) < 0.02
    rows, columns = densest_window(changed)
    height, width = rows.stop - rows.start, columns.stop - columns.start
    assert 1 <= height <= shape[0] and 1 <= width <= shape[1]
    counts = [
        changed[top : top + height, left : left + width].sum()
        for top in sorted({*range(0, shape[0] - height, max(height // 8, 1)), shape[0] - height})
        for left in sorted({*range(0, shape[1] - width, max(width // 8, 1)), shape[1] - width})
    ]
    assert changed[rows, columns].sum() == max(counts)
