"""Regions of Label Studio in, dense brush regions out, with its own packages where they are installed."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("rich", reason="the verb needs it")
pytest.importorskip("typer", reason="the verb needs it")

from PIL import Image
from typer.testing import CliRunner

from densefield import InputError, InputTypeError, propagate, refine
from densefield.cli.app import app
from densefield.integrations import label_studio_prediction, refine_label_studio_export
from densefield.integrations.label_studio import drawn_labels
from densefield.integrations.label_studio_rle import decode_brush, encode_brush

SHAPE = (60, 90)
CONFIG = """<View><Image name="image" value="$image"/>
<BrushLabels name="brush" toName="image"><Label value="sky"/><Label value="sea"/></BrushLabels>
<PolygonLabels name="polygon" toName="image"><Label value="sky"/><Label value="sea"/></PolygonLabels>
<KeyPointLabels name="point" toName="image"><Label value="sky"/><Label value="sea"/></KeyPointLabels></View>"""
SDK = "needs label-studio-sdk: see CONTRIBUTING.md"


def photo() -> np.ndarray:
    """A noisy photo with an edge at column 42."""
    image = np.zeros((*SHAPE, 3))
    image[:, 42:] = (200, 120, 40)
    return np.clip(image + np.random.default_rng(6029).normal(20, 8, image.shape), 0, 255).astype(np.uint8)


def region(kind: str, label: str, value: dict, **more) -> dict:
    control = kind.removesuffix("labels").replace("keypoint", "point")
    size = {"original_width": SHAPE[1], "original_height": SHAPE[0], "image_rotation": 0}
    value = {**value, kind: [label]}
    return {"id": "a", "type": kind, "from_name": control, "to_name": "image", **size, "value": value, **more}


def brush(label: str, rows: slice, columns: slice, **more) -> dict:
    mask = np.zeros(SHAPE, bool)
    mask[rows, columns] = True
    return region("brushlabels", label, {"format": "rle", "rle": encode_brush(mask)}, **more)


def keypoint(label: str, x: float, y: float) -> dict:
    return region("keypointlabels", label, {"x": x, "y": y, "width": 0.5})


STROKES = [brush("sky", slice(10, 11), slice(5, 20)), brush("sea", slice(40, 50), slice(70, 71))]
SQUARE = region("polygonlabels", "sea", {"points": [[60, 50], [70, 50], [70, 75], [60, 75]], "closed": True})


def masks_of(prediction: dict) -> dict[str, np.ndarray]:
    return {
        each["value"]["brushlabels"][0]: decode_brush(each["value"]["rle"], *SHAPE) for each in prediction["result"]
    }


@pytest.fixture
def export(tmp_path):
    """A function that writes an export of tasks with these annotations and addresses, and the image."""
    (tmp_path / "images").mkdir()
    Image.fromarray(photo()).save(tmp_path / "images" / "beach.png")

    def write(*annotations, address="/data/upload/1/0a1b2c3d-beach.png"):
        tasks = [
            {"id": 7 + number, "data": {"image": address}, "annotations": [{"id": 1, "result": regions}]}
            for number, regions in enumerate(annotations)
        ]
        path = tmp_path / "export.json"
        path.write_text(json.dumps(tasks), encoding="utf-8")
        return path, tmp_path / "images", tmp_path / "out.json"

    return write


# Regions and predictions


def test_strokes_become_dense_regions():
    prediction = label_studio_prediction(photo(), STROKES)
    masks = masks_of(prediction)
    drawn = drawn_labels(STROKES, SHAPE)
    expected = propagate(photo(), drawn.mask, unlabelled=0).argmax(axis=0)
    assert drawn.names == ("sea", "sky")
    assert np.array_equal(masks["sea"], expected == 1) and np.array_equal(masks["sky"], expected == 2)
    assert np.array_equal(masks["sky"], np.broadcast_to(np.arange(90) < 42, SHAPE))
    assert 0.5 < prediction["score"] <= 1


def test_polygons_and_keypoints_are_scribbles_too():
    regions = [keypoint("sky", 20, 50), SQUARE, {"type": "choices", "value": {"choices": ["good"]}}]
    mask = drawn_labels(regions, SHAPE).mask
    assert mask[30, 18] == 2 and (mask == 2).sum() == 1
    assert (mask[31:45, 55:63] == 1).all() and not mask[:29].any()
    assert np.array_equal(
        masks_of(label_studio_prediction(photo(), regions))["sea"], np.broadcast_to(np.arange(90) >= 42, SHAPE)
    )


def test_rectangles_cover_the_pixels_whose_centres_are_inside():
    value = {"x": 25.0, "y": 50.0, "width": 50.0, "height": 25.0, "rectanglelabels": ["sea"]}
    drawn = drawn_labels([{"type": "rectanglelabels", "value": value}], (8, 12))
    assert np.argwhere(drawn.mask).tolist() == [[row, column] for row in (4, 5) for column in range(3, 9)]
    turned = {**value, "x": 50.0, "y": 25.0, "rotation": 90}  # of a square image, downwards and to the left
    drawn = drawn_labels([{"type": "rectanglelabels", "value": turned}], (8, 8))
    assert np.argwhere(drawn.mask).tolist() == [[row, column] for row in range(2, 6) for column in (2, 3)]


@pytest.mark.parametrize("rotation", [0, 90])
def test_a_rectangle_between_the_centres_of_pixels_marks_one(rotation):
    value = {"x": 52.0, "y": 27.0, "width": 2.0, "height": 2.0, "rotation": rotation, "rectanglelabels": ["sea"]}
    drawn = drawn_labels([{"type": "rectanglelabels", "value": value}], (8, 8))
    assert np.argwhere(drawn.mask).tolist() == [[2, 4]]


def test_whole_objects_are_refined_and_the_rest_is_background():
    regions = [brush("sea", slice(0, 60), slice(50, 90))]
    masks = masks_of(label_studio_prediction(photo(), regions, mode="mask"))
    rough = np.zeros(SHAPE, int)
    rough[:, 50:] = 1
    assert list(masks) == ["sea"]
    assert np.array_equal(masks["sea"], refine(photo(), labels=rough).argmax(axis=0) == 1)


def test_the_background_gets_no_region_and_regions_belong_to_the_brush_control():
    points = [keypoint("sky", 5, 5), keypoint("sea", 95, 95)]
    prediction = label_studio_prediction(photo(), points, background="sky", from_name="brush")
    (only,) = prediction["result"]
    assert only["value"]["brushlabels"] == ["sea"] and only["from_name"] == "brush" and only["to_name"] == "image"
    assert label_studio_prediction(photo(), [points[0], *STROKES])["result"][0]["from_name"] == "brush"


@pytest.mark.parametrize(
    "regions, options, message",
    [
        ([], {}, "has no brush, polygon, rectangle or keypoint with a label"),
        (STROKES[:1], {}, "two labels or more are needed"),
        (STROKES, {"labels": ["sky", "land"]}, "unknown label 'sea', expected one of 'sky', 'land'"),
        (STROKES, {"background": "land"}, "background is 'land', expected one of 'sea', 'sky'"),
        (STROKES, {"mode": "both"}, "mode is 'both'"),
        ([region("ellipselabels", "sea", {})], {}, "type 'ellipselabels', expected one of brushlabels"),
        (
            [region("polygonlabels", "sea", {"points": []})],
            {},
            "^a polygon cannot be read: it has 0 corners",
        ),
        ([region("rectanglelabels", "sea", {"x": 1, "y": 2})], {}, "a rectangle cannot be read"),
        (
            [region("rectanglelabels", "sea", {"x": 1, "y": 2, "width": -3, "height": 4})],
            {},
            "^a rectangle cannot be read: its sides are -3 and 4, expected numbers above 0",
        ),
        ([{**STROKES[0], "original_width": 80}], {}, "60 × 80 pixels, but the image has 60 × 90"),
        ([{**STROKES[0], "image_rotation": 90}], {}, "rotated image"),
        ([region("brushlabels", "sea", {"rle": [1, 2]})], {}, "has 2 bytes"),
        ([region("brushlabels", "sea", {"rle": encode_brush(np.ones((6, 9), bool))})], {}, "holds 216 values"),
        ([region("polygonlabels", "sea", {"points": [[1, 2]]})], {}, "a polygon cannot be read"),
        ([*STROKES, keypoint("sea", 5, 5)], {"mode": "mask"}, "a keypoint of 'sea' marks one pixel, but mode"),
        (STROKES, {"labels": ["sky", "sky", "sea"]}, "labels are 'sky', 'sky', 'sea', expected different ones"),
        ([region("keypointlabels", "sea", {"x": 3})], {}, "a keypoint cannot be read"),
        ([{**SQUARE, "value": {"polygonlabels": ["sky", "sea"]}}], {}, r"has the labels \['sky', 'sea'\]"),
    ],
)
def test_regions_that_cannot_be_used_are_errors(regions, options, message):
    with pytest.raises(InputError, match=message):
        label_studio_prediction(photo(), regions, **options)


@pytest.mark.parametrize("mode", ["RGB", "P", "RGBA", "CMYK"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_pillow_images_are_read_as_browsers_show_them(mode, orientation):
    """An image whose EXIF data say that it is turned or mirrored, in any mode of colours."""
    colours = Image.fromarray(photo())
    shown = colours.quantize(64) if mode == "P" else colours.convert(mode)
    # The operation that each orientation undoes.
    undone = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}
    picture = shown.copy() if orientation == 1 else shown.transpose(undone[orientation])
    picture.getexif()[0x0112] = orientation
    found = label_studio_prediction(picture, STROKES)
    expected = label_studio_prediction(np.asarray(shown.convert("RGB")), STROKES)
    assert found == expected


@pytest.mark.parametrize(
    ("image", "regions", "options", "message"),
    [
        (None, STROKES, {}, "the image is of type NoneType, expected an array"),
        (np.zeros(7), STROKES, {}, r"the image is of shape \(7,\)"),
        (photo(), None, {}, "the regions are of type NoneType, expected a list"),
        (photo(), STROKES, {"labels": "sea"}, r"labels is 'sea', expected a list such as \['sea'\]"),
    ],
)
def test_arguments_of_another_type_are_errors(image, regions, options, message):
    with pytest.raises(InputTypeError, match=message):
        label_studio_prediction(image, regions, **options)


# Files


@pytest.mark.parametrize(
    "address",
    [
        "/data/upload/1/0a1b2c3d-beach.png",
        "/data/local-files/?d=beach.png",
        "s3://bucket/photos/beach.png",
        "https://example.org/photos/beach.png?size=large",
    ],
)
def test_an_export_becomes_tasks_with_predictions_and_masks(export, tmp_path, address):
    path, images, out = export(STROKES, address=address)
    assert refine_label_studio_export(path, images, out, masks=tmp_path / "masks") == 1
    (task,) = json.loads(out.read_text(encoding="utf-8"))
    assert task["id"] == 7 and task["data"] == {"image": address}
    found = masks_of(task["predictions"][0])
    mask = np.asarray(Image.open(tmp_path / "masks" / "beach.png"))
    assert np.array_equal(mask == 1, found["sea"]) and np.array_equal(mask == 2, found["sky"])
    assert found["sky"][:, :42].all() and not found["sky"][:, 42:].any()


def test_tasks_without_annotations_are_left_out_and_the_last_annotation_counts(export):
    path, images, out = export(STROKES, [])
    tasks = json.loads(path.read_text(encoding="utf-8"))
    swapped = [brush("sea", slice(10, 11), slice(5, 20)), brush("sky", slice(40, 50), slice(70, 71))]
    tasks[0]["annotations"] += [{"result": swapped}, {"result": STROKES, "was_cancelled": True}]
    path.write_text(json.dumps(tasks), encoding="utf-8")
    assert refine_label_studio_export(path, images, out) == 1
    (task,) = json.loads(out.read_text(encoding="utf-8"))
    assert masks_of(task["predictions"][0])["sea"][:, :42].all()


def test_the_command_writes_the_same(export, tmp_path):
    path, images, out = export(STROKES)
    answer = CliRunner().invoke(app, ["label-studio", str(path), str(images), "-o", str(out), "--background", "sky"])
    assert answer.exit_code == 0 and "1 tasks with predictions" in answer.output
    refine_label_studio_export(path, images, tmp_path / "again.json", background="sky")
    assert out.read_bytes() == (tmp_path / "again.json").read_bytes()
    answer = CliRunner().invoke(app, ["label-studio", str(path), str(images), "-o", str(out), "--background", "land"])
    assert answer.exit_code == 2 and "--background is 'land'" in answer.output


@pytest.mark.parametrize(
    "text, message",
    [
        ("{", "cannot be read as JSON"),
        ('{"id": 1}', "not a list of tasks"),
        ('[{"image": "a.png", "brush": []}]', "export as JSON, not JSON-MIN"),
        ('[{"data": {"image": "beach.png"}, "annotations": []}]', "none with an annotation"),
    ],
)
def test_files_that_are_no_export_are_errors(export, text, message):
    path, images, out = export(STROKES)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        refine_label_studio_export(path, images, out)


@pytest.mark.parametrize("address", ["/data/upload/1/other.png", "/data/local-files/?d=../export.json", ""])
def test_a_missing_image_is_an_error_that_names_the_task_and_nothing_is_written(export, address):
    path, images, out = export(STROKES, address=address)
    with pytest.raises(InputError, match=r"task 7 of .*: there is no image in .*images for the data"):
        refine_label_studio_export(path, images, out)
    assert not out.exists()


def changed(**changes) -> dict:
    """A stroke with other fields."""
    return {**STROKES[0], **changes}


@pytest.mark.parametrize(
    "task, message",
    [
        ({"annotations": None}, "annotations are None, expected a list of objects"),
        ({"annotations": "x"}, "annotations are 'x', expected a list of objects"),
        ({"annotations": ["x"]}, "an annotation is 'x', expected an object"),
        ({"annotations": [{"result": "x"}]}, "result of an annotation is 'x', expected a list of objects"),
        ({"annotations": [{"result": [5]}]}, "a region is 5, expected an object"),
        ({"data": "a.png"}, "data are 'a.png', expected an object with the address of the image"),
        ({"data": {"image": "http://[a.png"}}, "there is no image in"),
        ({"data": {"image": "\ud800.png"}}, "there is no image in"),
        ({"data": {"image": "a" * 5000}}, "there is no image in"),
        ([changed(type=["brushlabels"])], "a region is of type ['brushlabels'], expected one of brushlabels"),
        ([changed(type="ellipselabels")], "a region is of type 'ellipselabels', expected one of brushlabels"),
        ([changed(value=None)], "a brush has the value None, expected an object"),
        ([changed(value="x")], "a brush has the value 'x', expected an object"),
        ([changed(value={})], "a brush has the labels None, expected a list of one"),
        ([changed(value={"brushlabels": [None]})], "a brush has the labels [None], expected a list of one"),
        ([changed(original_height="x")], "original_height of a brush is 'x', expected a number of pixels"),
        ([changed(original_height=None)], "original_height of a brush is None, expected a number of pixels"),
        ([changed(original_width=1e999)], "original_width of a brush is inf, expected a number of pixels"),
        ([changed(original_width=float("nan"))], "original_width of a brush is nan, expected a number of pixels"),
        ([keypoint("sky", 1e999, 5)], "a keypoint cannot be read"),
        ([keypoint("sky", 10**400, 5)], "a keypoint cannot be read"),
        ([keypoint("sky", "5", 5)], "a keypoint cannot be read"),
        ([region("polygonlabels", "sea", {"points": None})], "a polygon cannot be read"),
        ([region("polygonlabels", "sea", {"points": [[1, 2], [3, 1e999], [4, 4]]})], "a polygon cannot be read"),
        ([region("brushlabels", "sea", {"rle": 10**12})], "the rle of a brush region is not a list of bytes"),
        ([region("brushlabels", "sea", {"rle": None})], "the rle of a brush region is not a list of bytes"),
        ([region("brushlabels", "sea", {"rle": {"1": 2}})], "the rle of a brush region is not a list of bytes"),
    ],
)
@pytest.mark.parametrize("options", [[], ["--labels", "sky,sea"]], ids=["all labels", "given labels"])
def test_a_malformed_task_is_one_line_that_names_file_and_task_and_nothing_is_written(
    export, tmp_path, task, message, options
):
    path, images, out = export(STROKES, STROKES)
    tasks = json.loads(path.read_text(encoding="utf-8"))
    tasks[1] |= task if isinstance(task, dict) else {"annotations": [{"result": task}]}
    path.write_text(json.dumps(tasks), encoding="utf-8")
    answer = CliRunner().invoke(app, ["label-studio", str(path), str(images), "-o", str(out), *options])
    assert answer.exit_code == 2 and isinstance(answer.exception, SystemExit)
    assert answer.output.startswith(f"densefield: task 8 of {path}: ") and message in answer.output
    assert answer.output.count("\n") == 1 and not out.exists()


def test_a_task_without_id_is_named_by_its_place(export):
    path, images, out = export(STROKES)
    tasks = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps([{"data": {}, "annotations": []}, {**tasks[0], "id": None, "data": {}}]))
    with pytest.raises(InputError, match=r"^task number 2 of .*there is no image"):
        refine_label_studio_export(path, images, out)


def test_long_texts_beside_the_address_of_the_image_are_skipped(export):
    path, images, out = export(STROKES)
    tasks = json.loads(path.read_text(encoding="utf-8"))
    tasks[0]["data"] = {"text": "seen from the pier " * 99, "link": "http://[", **tasks[0]["data"]}
    path.write_text(json.dumps(tasks), encoding="utf-8")
    assert refine_label_studio_export(path, images, out) == 1


# With Label Studio's own packages


def test_label_studio_accepts_the_prediction_and_reads_its_masks():
    objects = pytest.importorskip("label_studio_sdk.label_interface.objects", reason=SDK, exc_type=ImportError)
    from label_studio_sdk.converter.brush import decode_from_annotation
    from label_studio_sdk.label_interface import LabelInterface

    prediction = label_studio_prediction(photo(), STROKES)
    value = objects.PredictionValue(**prediction)
    assert LabelInterface(CONFIG).validate_prediction(value.model_dump())
    results = [{**each, **each["value"]} for each in prediction["result"]]  # as in its converter
    layers = decode_from_annotation("brush", results)
    for name, mask in masks_of(prediction).items():
        assert np.array_equal(layers[f"brush-{name}-0"], mask * 255)


@pytest.mark.filterwarnings("default")  # those of label-studio-ml are not ours
def test_a_backend_of_label_studio_returns_the_prediction():
    model = pytest.importorskip("label_studio_ml.model", reason="needs label-studio-ml: see CONTRIBUTING.md")

    class Backend(model.LabelStudioMLBase):
        def predict(self, tasks, context=None, **kwargs):
            regions = context["result"] if context else tasks[0]["annotations"][-1]["result"]
            return [label_studio_prediction(photo(), regions)]

    backend = Backend(label_config=CONFIG)
    assert backend.predict([{}], context={"result": STROKES}) == [label_studio_prediction(photo(), STROKES)]
