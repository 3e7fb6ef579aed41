"""A dock widget for napari: refines a labels layer, or spreads its scribbles, while it is painted.

Events of layers and controls start a timer, which a further event starts again. Then the inputs are copied, and a
thread computes. Inputs that changed in the meantime are computed next, and the outdated result is dropped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from densefield.errors import DensefieldError
from densefield.integrations.napari_input import LayerInput, Mode, dense_labels

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.layers import Image, Labels

Outcome = tuple[npt.NDArray[Any] | DensefieldError, float]  # labels or an error, and seconds
MODES: tuple[tuple[str, Mode], ...] = (("refine the whole mask", "mask"), ("spread scribbles", "scribbles"))
SAME_PLACE = 0.01  # pixels: the largest distance of the corners of image and labels
DELAY = 200  # milliseconds without an event, after which the inputs are computed
DATA_EVENTS = ("set_data", "paint", "data")  # events of a labels layer whose data changed
PLACE = ("scale", "translate", "rotate", "shear", "affine", "units")  # attributes of a layer


class Shown(NamedTuple):
    """A layer of results, the name that it was to have, and the one that it got."""

    layer: Labels
    wanted: str
    name: str


def refinement_widget(napari_viewer: ViewerModel) -> Any:
    """The dock widget, a magicgui Container: an image and a labels layer in, a layer of refined labels out.

    Its attribute ``refinement`` is the `LayerRefinement` behind it.

    Parameters
    ----------
    napari_viewer
        The viewer whose layers it offers; napari passes it.
    """
    return LayerRefinement(napari_viewer).container


class LayerRefinement:
    """The controls of the widget, and the computation that they start.

    Parameters
    ----------
    viewer
        The viewer.
    """

    def __init__(self, viewer: ViewerModel) -> None:
        from magicgui import widgets
        from napari.layers import Image, Labels
        from qtpy.QtCore import QTimer

        self.viewer = viewer
        self._results: dict[Labels, Shown] = {}  # the layer of results of each labels layer
        self._watched: Labels | None = None
        self._computed: LayerInput | None = None  # the last input that was started
        self._busy, self._again, self._closed = False, False, False
        self.image = widgets.ComboBox(label="image", choices=lambda _: self._layers(Image))
        self.labels = widgets.ComboBox(label="labels", choices=lambda _: self._layers(Labels))
        self.mode = widgets.ComboBox(label="mode", choices=MODES, tooltip="In scribbles, 0 means unlabelled")
        self.roughness = widgets.FloatSpinBox(
            label="roughness", min=0, max=1000, tooltip="How far edges may move, in pixels; 0 estimates it"
        )
        self.live = widgets.CheckBox(label="update while painting", value=True)
        self.update = widgets.PushButton(text="Update")
        self.status = widgets.Label(value="")
        self.container = widgets.Container(
            widgets=[self.image, self.labels, self.mode, self.roughness, self.live, self.update, self.status]
        )
        self.container.refinement = self
        self.timer = QTimer(self.container.native)
        self.timer.setSingleShot(True)
        self.timer.setInterval(DELAY)
        self.timer.timeout.connect(self.start)
        self.container.native.destroyed.connect(self._close)
        for control in (self.image, self.labels, self.mode, self.roughness, self.live):
            control.changed.connect(self._controls_changed)
        self.update.changed.connect(self._start_anew)
        self._layer_events: list[tuple[Any, Callable[..., None]]] = [
            (getattr(viewer.layers.events, name), self._layers_changed) for name in ("inserted", "removed", "renamed")
        ]
        for emitter, callback in self._layer_events:
            emitter.connect(callback)
        self._controls_changed()

    def start(self) -> None:
        """Computes the present input in a thread, unless it was the last one; after the present computation, if any."""
        from napari.qt.threading import create_worker

        if self._busy:
            self._again = True
            return
        image, labels = self.image.value, self.labels.value
        if image is None or labels is None:
            self.status.value = "Add an image layer and a labels layer."
            return
        apart = distance_apart(image, labels)
        if apart > SAME_PLACE:
            self._computed = None
            self.status.value = (
                f"The labels layer is not where the image is: corners are up to {apart:.3g} pixels apart. Give both "
                "layers the same scale and translate."
            )
            return
        given = self._input(image, labels)
        if given.equals(self._computed):
            return
        self._computed, self._busy = given, True
        self.status.value = "Computing…"
        create_worker(
            _outcome,
            given,
            _connect={"returned": lambda outcome: self._finish(outcome, labels, given), "errored": self._fail},
        )

    def _start_anew(self, value: object = None) -> None:
        """Computes the present input even if it was the last one: the image's array may have changed."""
        self._computed = None
        self.start()

    def _finish(
        self, outcome: tuple[npt.NDArray[Any] | DensefieldError, float], labels: Labels, given: LayerInput
    ) -> None:
        """Shows the result of a computation, unless its input has changed since it began."""
        if self._closed:
            return
        self._busy = False
        if self._again or self.timer.isActive():
            self._again = False
            self.start()
        if self._busy or labels not in self.viewer.layers:
            return
        found, seconds = outcome
        if isinstance(found, DensefieldError):
            self.status.value = str(found)
            return
        self._show(found, labels)
        changed = (found != given.labels).mean()
        self.status.value = f"{changed:.1%} of the pixels changed, {seconds:.2f} s"

    def _fail(self, error: Exception) -> None:
        """Makes the widget usable again after an unexpected error, which napari shows."""
        if not self._closed:
            self._busy, self._computed = False, None
            self.status.value = f"{type(error).__name__}: {error}"

    def _show(self, found: npt.NDArray[Any], labels: Labels) -> None:
        """Writes a result to its layer, which is below the labels layer."""
        from napari.layers import Labels

        wanted = f"{labels.name} ({'refined' if self.mode.value == 'mask' else 'spread'})"
        place = {name: getattr(labels, name) for name in PLACE}
        shown = self._results.get(labels)
        if shown is not None and shown.layer in self.viewer.layers and shown.layer.data.shape == found.shape:
            layer = shown.layer
            layer.data = found
            for name, value in place.items():
                setattr(layer, name, value)
            if shown.wanted != wanted and layer.name == shown.name:  # else the user chose the name
                layer.name = wanted
                self._results[labels] = Shown(layer, wanted, layer.name)
            return
        layer = Labels(found, name=wanted, colormap=labels.colormap, opacity=0.5, **place)
        self._results[labels] = Shown(layer, wanted, wanted)  # before it is in the viewer, so that it is no choice
        self.viewer.layers.insert(self.viewer.layers.index(labels), layer)
        self._results[labels] = Shown(layer, wanted, layer.name)
        self.viewer.layers.selection.active = labels  # so that the next stroke is painted there

    def _input(self, image: Image, labels: Labels) -> LayerInput:
        """A copy of the present input; the image is shared, since only its whole array is replaced."""
        pixels = np.asarray(image.data[0] if image.multiscale else image.data)
        drawn = np.array(labels.data[0] if labels.multiscale else labels.data)
        low, high = (0.0, 255.0) if image.rgb else image.contrast_limits
        spacing = tuple(abs(float(step)) for step in reversed(image.scale))
        roughness = float(self.roughness.value) or None
        return LayerInput(pixels, image.rgb, (float(low), float(high)), drawn, self.mode.value, roughness, spacing)

    def _layers(self, kind: type) -> list[Any]:
        """The layers of a kind, without results: a result of its own result would never end."""
        results = [shown.layer for shown in self._results.values()]
        return [layer for layer in self.viewer.layers if isinstance(layer, kind) and layer not in results]

    def _layers_changed(self, event: object = None) -> None:
        kept = {labels: shown for labels, shown in self._results.items() if shown.layer in self.viewer.layers}
        self._results = kept
        self.container.reset_choices()

    def _controls_changed(self, value: object = None) -> None:
        """Watches the chosen labels layer, and computes if updates are live."""
        labels = self.labels.value
        if labels is not self._watched:
            self._watch(labels)
        self.roughness.enabled = self.mode.value == "mask"
        self._schedule()

    def _watch(self, labels: Labels | None) -> None:
        for name in DATA_EVENTS:
            if self._watched is not None:
                getattr(self._watched.events, name).disconnect(self._schedule)
            if labels is not None:
                getattr(labels.events, name).connect(self._schedule)
        self._watched = labels

    def _schedule(self, event: object = None) -> None:
        if self.live.value and not self._closed:
            self.timer.start()

    def _close(self, widget: object = None) -> None:
        """Lets go of the viewer when the widget is destroyed; a computation under way ends without effect."""
        self._closed = True
        self._watch(None)
        for emitter, callback in self._layer_events:
            emitter.disconnect(callback)


def distance_apart(image: Image, labels: Labels) -> float:
    """The largest distance of the corners of a labels layer from those places of the image, in pixels of the image.

    Layers of other shapes than each other are an error elsewhere, and 0 apart.

    Parameters
    ----------
    image, labels
        The layers.
    """
    shape = labels.data[0].shape if labels.multiscale else labels.data.shape
    if image.ndim != labels.ndim:
        return 0.0
    corners = product(*[(0, size - 1) for size in shape])
    apart = [np.subtract(image.data_to_world(each), labels.data_to_world(each)) for each in corners]
    pixel = float(np.abs(image.scale).min())
    return float(np.linalg.norm(apart, axis=1).max()) / pixel


def _outcome(given: LayerInput) -> Outcome:
    """The result or the error, and the seconds that it took."""
    start = time.perf_counter()
    try:
        return dense_labels(given), time.perf_counter() - start
    except DensefieldError as error:
        return error, time.perf_counter() - start
