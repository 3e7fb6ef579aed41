"""The dock widget for napari, with the real package.

Tests of the canvas need OpenGL, which Qt's platform "offscreen" lacks: run them in an X server, such as by xvfb-run.
"""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from densefield import InputError, propagate, refine
from densefield.integrations.napari import refinement_widget
from densefield.integrations.napari_input import LayerInput, dense_labels, displayed_colours

if "DISPLAY" not in os.environ:
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # napari uses names that pydantic deprecates
    layers = pytest.importorskip("napari.layers", reason="needs napari: pip install 'densefield[napari]'")
    pytest.importorskip("PySide6", reason="needs a Qt for Python: pip install PySide6-Essentials")
    import napari
    from napari.components import ViewerModel
    from napari.qt import get_qapp
    from npe2 import PluginManifest
    from qtpy.QtWidgets import QApplication

pytestmark = pytest.mark.filterwarnings("default")  # those of napari and Qt are not ours
CHECKOUT = Path(__file__).resolve().parents[2]


def photo() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A photo with an edge at column 42, a mask with the edge at 50, and scribbles on both sides."""
    rng = np.random.default_rng(6029)
    image = np.zeros((60, 90, 3))
    image[:, 42:] = (200, 120, 40)
    rough, scribbles = np.zeros((60, 90), np.int32), np.zeros((60, 90), np.int32)
    rough[:, 50:] = 1
    scribbles[10, 5:20], scribbles[40:50, 70] = 300, 2
    return np.clip(image + rng.normal(20, 8, image.shape), 0, 255).astype(np.uint8), rough, scribbles


@pytest.fixture(scope="module")
def application():
    return get_qapp()  # which sets what the canvas needs


@pytest.fixture
def viewer(application):
    model = ViewerModel()
    model.add_image(photo()[0], rgb=True, name="photo")
    return model


def wait(until, seconds: float = 30) -> None:
    """Run Qt's events until a condition holds."""
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end, "nothing happened"
        QApplication.processEvents()
        time.sleep(0.005)


def opened(viewer):
    """The widget, and the state behind it."""
    container = refinement_widget(viewer)
    return container.refinement


def settled(refinement) -> bool:
    return not refinement.timer.isActive() and not refinement._busy


# Layers in, labels out


def test_a_mask_is_refined_and_keeps_its_values():
    image, rough, _ = photo()
    found = dense_labels(LayerInput(image, True, (0, 255), np.where(rough == 1, 700, 0)))
    assert np.array_equal(found, refine(image, labels=rough).argmax(axis=0) * 700)
    assert np.array_equal(found == 700, np.arange(90) >= 42 + 0 * rough)


def test_scribbles_are_spread_and_keep_their_values():
    image, _, scribbles = photo()
    found = dense_labels(LayerInput(image, True, (0, 255), scribbles, "scribbles"))
    expected = propagate(image, np.array([0, 2, 1])[np.searchsorted([0, 2, 300], scribbles)]).argmax(axis=0)
    assert found.dtype == np.int32 and np.array_equal(found, np.array([0, 300, 2])[expected])


def test_grey_images_are_taken_between_their_contrast_limits():
    grey = photo()[0][..., 0].astype(np.int16) * 10 - 1000
    given = LayerInput(grey, False, (-1000, 1550), photo()[1])
    assert np.allclose(displayed_colours(given), photo()[0][..., 0], atol=1e-4)  # single precision
    clipped = displayed_colours(LayerInput(grey, False, (0, 10), photo()[1]))
    assert clipped.min() == 0 and clipped.max() == 255


def test_volumes_use_the_spacing():
    image, rough, _ = photo()
    volume, labels = np.repeat(image[None, ..., 0], 4, axis=0), np.repeat(rough[None], 4, axis=0)
    found = dense_labels(LayerInput(volume, False, (0, 255), labels, spacing=(1, 1, 3)))
    assert np.array_equal(found, refine(volume, labels=labels, spacing=(1, 1, 3)).argmax(axis=0))


@pytest.mark.parametrize(
    "labels, mode, message",
    [
        (np.zeros((60, 80), int), "mask", "60 × 90 pixels and the labels layer 60 × 80"),
        (np.zeros((60, 90), int), "mask", "all pixels have label 0"),
        (np.zeros((60, 90), int), "scribbles", "paint scribbles with two labels or more"),
        (np.zeros((2, 2, 60, 90), int), "mask", "has 4 axes"),
    ],
)
def test_layers_that_cannot_be_used_are_errors(labels, mode, message):
    with pytest.raises(InputError, match=message):
        dense_labels(LayerInput(photo()[0], True, (0, 255), labels, mode))


# The widget, in a viewer without a canvas


def test_a_stroke_updates_the_result_and_undo_takes_it_back(viewer):
    rough = photo()[1]
    labels = viewer.add_labels(rough.copy(), name="mask")
    refinement = opened(viewer)
    wait(lambda: "mask (refined)" in viewer.layers)
    result = viewer.layers["mask (refined)"]
    first = result.data.copy()
    assert np.array_equal(first, dense_labels(LayerInput(photo()[0], True, (0, 255), rough)))
    assert viewer.layers.selection.active is labels
    assert viewer.layers.index(result) < viewer.layers.index(labels)
    labels.brush_size = 30
    labels.paint((30, 15), 2)
    wait(lambda: result.data[30, 15] == 2)
    labels.undo()
    wait(lambda: np.array_equal(result.data, first))
    assert len(viewer.layers) == 3 and "pixels changed" in refinement.status.value


def test_scribbles_are_spread_after_the_second_label(viewer):
    labels = viewer.add_labels(np.zeros((60, 90), np.uint8), name="strokes")
    refinement = opened(viewer)
    refinement.mode.value = "scribbles"
    wait(lambda: "two labels" in refinement.status.value)
    labels.data_setitem((np.full(9, 20), np.arange(5, 14)), 1)
    labels.data_setitem((np.full(9, 20), np.arange(60, 69)), 2)
    wait(lambda: "strokes (spread)" in viewer.layers)
    assert np.array_equal(viewer.layers["strokes (spread)"].data == 1, np.arange(90) < 42 + 0 * photo()[1])


def test_many_changes_are_computed_once_and_the_last_one_wins(viewer, monkeypatch):
    labels = viewer.add_labels(photo()[1].copy(), name="mask")
    computed = []
    from densefield.integrations import napari as module

    def slowly(given):
        computed.append(int(given.labels[0, 0]))
        time.sleep(0.2)
        return given.labels

    monkeypatch.setattr(module, "dense_labels", slowly)
    refinement = opened(viewer)
    wait(lambda: computed == [0])
    for number in (3, 4, 5):  # while the first is under way
        labels.data_setitem((np.array([0]), np.array([0])), number)
        QApplication.processEvents()
    wait(lambda: settled(refinement) and len(computed) > 1)
    assert computed == [0, 5]
    assert viewer.layers["mask (refined)"].data[0, 0] == 5


def test_without_live_updates_the_button_computes(viewer):
    labels = viewer.add_labels(photo()[1].copy(), name="mask")
    refinement = opened(viewer)
    wait(lambda: "mask (refined)" in viewer.layers and settled(refinement))
    result = viewer.layers["mask (refined)"]
    refinement.live.value = False
    labels.data = np.roll(photo()[1], -30, axis=1)
    before = result.data.copy()
    for _ in range(80):
        QApplication.processEvents()
        time.sleep(0.005)
    assert np.array_equal(result.data, before)
    refinement.update.changed.emit(True)
    wait(lambda: not np.array_equal(result.data, before))


def test_results_are_not_offered_as_labels_and_come_back_after_removal(viewer):
    viewer.add_labels(photo()[1].copy(), name="mask")
    refinement = opened(viewer)
    wait(lambda: "mask (refined)" in viewer.layers)
    assert [layer.name for layer in refinement.labels.choices] == ["mask"]
    viewer.layers.remove("mask (refined)")
    refinement.roughness.value = 3.0
    wait(lambda: "mask (refined)" in viewer.layers)


def test_a_removed_labels_layer_gets_no_result(viewer):
    labels = viewer.add_labels(photo()[1].copy(), name="mask")
    refinement = opened(viewer)
    refinement.start()
    viewer.layers.remove(labels)
    wait(lambda: settled(refinement))
    assert [layer.name for layer in viewer.layers] == ["photo"]
    assert refinement.labels.value is None


def test_the_result_has_the_scale_and_place_of_the_labels(viewer):
    viewer.layers.clear()
    image, rough, _ = photo()
    viewer.add_image(np.repeat(image[None, ..., 0], 3, axis=0), scale=(3, 1, 1), translate=(1, 2, 3), name="volume")
    viewer.add_labels(np.repeat(rough[None], 3, axis=0), scale=(3, 1, 1), translate=(1, 2, 3), name="mask")
    refinement = opened(viewer)
    wait(lambda: "mask (refined)" in viewer.layers)
    result = viewer.layers["mask (refined)"]
    assert result.scale.tolist() == [3, 1, 1] and result.translate.tolist() == [1, 2, 3]
    assert refinement._computed.spacing == (1, 1, 3)


@pytest.mark.parametrize("place", [{"translate": (0, 40)}, {"scale": (2, 2)}, {"rotate": 10}])
def test_labels_that_are_elsewhere_than_the_image_are_an_error(viewer, place):
    labels = viewer.add_labels(photo()[1].copy(), name="mask", **place)
    refinement = opened(viewer)
    wait(lambda: "labels layer is not where the image is: corners are up to" in refinement.status.value)
    assert len(viewer.layers) == 2
    for name, value in place.items():
        setattr(viewer.layers["photo"], name, value)
    refinement.update.changed.emit(True)
    wait(lambda: "mask (refined)" in viewer.layers)
    result = viewer.layers["mask (refined)"]
    assert np.allclose(result.data_to_world((7, 80)), labels.data_to_world((7, 80)))


def test_a_later_result_has_the_place_that_the_labels_have_then(viewer):
    labels = viewer.add_labels(photo()[1].copy(), name="mask")
    refinement = opened(viewer)
    wait(lambda: "mask (refined)" in viewer.layers and settled(refinement))
    viewer.layers["photo"].scale = labels.scale = (2, 2)
    refinement.update.changed.emit(True)
    wait(lambda: viewer.layers["mask (refined)"].scale.tolist() == [2, 2])


def test_a_result_is_named_by_its_mode_unless_it_was_renamed(viewer):
    labels = viewer.add_labels(photo()[1] + 1, name="mask")
    refinement = opened(viewer)
    wait(lambda: "mask (refined)" in viewer.layers and settled(refinement))
    refinement.mode.value = "scribbles"
    wait(lambda: "mask (spread)" in viewer.layers and settled(refinement))
    assert len(viewer.layers) == 3
    viewer.layers["mask (spread)"].name = "mine"
    refinement.mode.value = "mask"
    labels.data = np.roll(photo()[1], 3, axis=1) + 1
    wait(lambda: settled(refinement) and refinement._computed.mode == "mask")
    assert [layer.name for layer in viewer.layers] == ["photo", "mine", "mask"]


# The manifest, and the real viewer


def test_the_manifest_is_valid_and_names_the_widget():
    manifest = PluginManifest.from_file(CHECKOUT / "src/densefield/integrations/napari.yaml")
    (command,) = manifest.contributions.commands
    assert command.python_name == "densefield.integrations.napari:refinement_widget"
    assert manifest.contributions.widgets[0].command == command.id
    project = (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")
    assert '[project.entry-points."napari.manifest"]\ndensefield = "densefield.integrations:napari.yaml"' in project


@pytest.mark.skipif("DISPLAY" not in os.environ, reason="napari's canvas needs OpenGL: run in an X server, xvfb-run")
def test_in_a_real_viewer_the_canvas_shows_the_result(application):
    viewer = napari.Viewer(show=False)
    try:
        image, _, scribbles = photo()
        viewer.add_image(image, rgb=True, name="photo")
        viewer.add_labels(scribbles, name="strokes")
        container = refinement_widget(viewer)
        viewer.window.add_dock_widget(container, name="densefield")
        before = viewer.screenshot(canvas_only=False, flash=False)
        container.refinement.mode.value = "scribbles"
        wait(lambda: "strokes (spread)" in viewer.layers)
        after = viewer.screenshot(canvas_only=False, flash=False)
        assert (after != before).any(axis=-1).mean() > 0.05  # of the whole window
    finally:
        viewer.close()
