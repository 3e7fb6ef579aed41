"""The curves of the report, their charts on the page, and their figures."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

pytest.importorskip("torch", reason="what the curves show is computed with torch")
pytest.importorskip("matplotlib", reason="figures need it")

from densefield.report.charts import MAX_POINTS, draw_chart
from densefield.report.collecting import Training
from densefield.report.curves import BEST, SOLID, Curve, Panel, parameter_curves, training_curves
from densefield.report.figures import draw, to_png


def test_the_curves_of_stage_2_show_the_best_of_stage_1():
    one = Training("a", 1, {"step": [2.0, 4.0, 6.0], "iou": [0.3, 0.5, 0.4]}, "")
    two = Training("b", 2, {"step": [2.0, 4.0], "iou": [0.45, 0.55], "train_iou": [0.6, 0.7]}, "")
    first, second = training_curves([one, two])
    assert [(curve.name, curve.part) for curve in first.curves] == [("a", "validation")]
    lines = {(curve.name, curve.part): [y for _, y in curve.points] for curve in second.curves}
    assert lines == {
        ("b", "validation"): pytest.approx([45, 55]),
        ("b", "training"): pytest.approx([60, 70]),
        ("a", "best of stage 1"): pytest.approx([50, 50]),
    }
    copies = [replace(one, name="copy"), replace(one, name="c", columns={"step": [2.0], "iou": [0.2]})]
    _, both = training_curves([one, *copies, two])
    assert {curve.name: curve.points[0][1] for curve in both.curves if curve.part == BEST} == {"a": 50, "c": 20}
    assert len({curve.colour for curve in both.curves}) == 3  # a line has the colour of its run
    (alone,) = training_curves([two])  # without a run of stage 1
    assert [curve.part for curve in alone.curves] == ["validation", "training"]


def test_weights_of_labels_are_drawn_as_their_mean_for_each_kernel():
    columns = {"step": [1.0, 2.0, 3.0]}
    for label in range(21):
        columns[f"spatial.weight.{label}"] = [3.0, None if label else 4.0, 3.0 + label]
        columns[f"bilateral.weight.{label}"] = [5.0, None, 5.0]
    (panel,) = parameter_curves(Training("run", 2, columns, ""))
    assert {curve.name: curve.points for curve in panel.curves} == {
        "spatial, mean of classes": [(1.0, 3.0), (3.0, 13.0)],
        "bilateral, mean of classes": [(1.0, 5.0), (3.0, 5.0)],
    }


def test_every_width_is_drawn_in_its_own_colour():
    widths = {f"spatial_{number}.sigma.0": [1.0 + number] for number in range(9)}
    (panel,) = parameter_curves(Training("run", 2, {"step": [1.0], **widths}, ""))
    assert len(panel.curves) == 9 == len({line.style for line in draw_chart(panel).lines})


def test_widths_of_very_different_size_are_distinguishable():
    columns = {"step": [1.0, 2.0], "spatial.sigma.0": [1.0, 0.7], "bilateral.sigma.0": [40.0, 50.0]}
    (panel,) = parameter_curves(Training("run", 2, columns, ""))
    low, high = draw_chart(panel).lines
    assert panel.logarithmic and draw([panel]).axes[0].get_yscale() == "log"
    assert 90 < high.points[0][1] < high.points[1][1] == 100  # percent of the height; 50 is a tick
    assert 5 < low.points[1][1] < low.points[0][1]
    assert draw([panel]).axes[0].get_ylim() == (0.5, 50) and panel.y_title == "pixels, log scale"
    (alike,) = parameter_curves(Training("run", 2, {**columns, "spatial.sigma.0": [30.0, 20.0]}, ""))
    assert not alike.logarithmic and draw([alike]).axes[0].get_ylim()[0] == 0


def test_every_curve_of_a_logarithmic_axis_is_between_two_ticks():
    columns = {"step": [1.0, 2.0], "spatial.sigma.0": [1.0, 0.98], "bilateral.sigma.0": [40.0, 41.0]}
    chart = draw_chart(parameter_curves(Training("run", 2, columns, ""))[0])
    assert [tick.text for tick in chart.y_ticks] == ["0.5", "1", "2", "5", "10", "20", "50"]
    assert (chart.y_ticks[0].place, chart.y_ticks[-1].place) == (0, 100) and chart.y_label == "pixels, log scale"
    weights = draw_chart(parameter_curves(Training("run", 2, {"step": [1.0], "spatial.weight": [2.0]}, ""))[0])
    assert weights.y_label == "weight"


def test_unbounded_widths_do_not_hide_the_others():
    columns = {"step": [1.0, 2.0], "spatial.sigma.0": [3.0, math.inf], "bilateral.sigma.2": [math.inf, math.inf]}
    panels = parameter_curves(Training("run", 2, columns, ""))
    assert [panel.logarithmic for panel in panels] == [False, False] and to_png(draw(panels)).startswith(b"\x89PNG")
    assert [[len(line.points) for line in draw_chart(panel).lines] for panel in panels] == [[1], []]


def test_a_chart_has_its_points_at_their_places():
    panel = Panel("t", "step", "IoU", [Curve("a", [(0.0, 40.0), (50.0, 60.0), (100.0, 50.0)], SOLID, "", 1)])
    chart = draw_chart(panel)
    assert [(tick.place, tick.text) for tick in chart.y_ticks] == [
        (0, "40"),
        (25, "45"),
        (50, "50"),
        (75, "55"),
        (100, "60"),
    ]
    assert chart.lines[0].points == [(0, 0, "0", "40"), (50, 100, "50", "60"), (100, 50, "100", "50")]
    assert chart.lines[0].path == "M0 1000L500 0L1000 500" and chart.lines[0].style == "c1 solid"
    assert "a: 50" in chart.description


def test_a_run_that_is_named_after_its_method_has_the_title_of_the_tables():
    curves = [Curve(name, [(0.0, 1.0)], part=part) for name, part in (("network", "network"), ("network", "CRF"))]
    assert [line.title for line in draw_chart(Panel("t", "step", "", curves)).lines] == ["network", "network, CRF"]


def test_long_logs_are_thinned_on_the_page():
    points = [(float(step), math.sin(step)) for step in range(5000)]
    (line,) = draw_chart(Panel("t", "step", "", [Curve("a", points)])).lines
    assert len(line.points) == MAX_POINTS and (line.points[0][2], line.points[-1][2]) == ("0", "4999")


def boxes(figure, legends):
    """The places of a figure's axes and legends, in pixels; 100 pixels are an inch."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    return [[each.get_window_extent(renderer) for each in group] for group in (figure.axes, legends)]


@pytest.mark.parametrize("runs, count", [(1, 2), (9, 2), (9, 1)])
def test_a_legend_is_below_the_axes_and_within_the_figure(runs, count):
    names = [f"a run with a rather long name {number}" for number in range(runs)]
    lines = [Curve(name, [(0.0, 1.0), (9.0, 2.0)], colour=number) for number, name in enumerate(names)]
    figure = draw([Panel("one", "step", "IoU", lines), Panel("two", "step", "IoU", lines[:2])][:count])
    for axes, legend in zip(*boxes(figure, [each.get_legend() for each in figure.axes]), strict=True):
        assert legend.y1 <= axes.y0 and legend.y0 >= 0
        assert legend.x0 >= 0 and legend.x1 <= figure.bbox.width
        assert axes.height >= 150


@pytest.mark.parametrize("runs", [1, 9])
def test_a_training_figure_has_one_legend_with_each_run_once(runs):
    logs = [
        Training(f"a run with a long name {n}", n % 2 + 1, {"step": [1.0], "iou": [0.1 * n], "train_iou": [0.5]}, "")
        for n in range(runs)
    ]
    figure = draw(training_curves(logs))
    (legend,) = figure.legends
    texts = [text.get_text() for text in legend.get_texts()]
    parts = ["solid: validation", "dashed: training", "dotted: best of stage 1"][: 2 if runs == 1 else 3]
    assert sorted(texts) == sorted([*(log.name for log in logs), *parts])
    axes, (box,) = boxes(figure, [legend])
    assert box.x0 >= 0 and box.x1 <= figure.bbox.width and box.height < 130
    assert all(box.y1 <= each.y0 and each.height >= 200 for each in axes)
