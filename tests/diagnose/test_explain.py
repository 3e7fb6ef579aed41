"""explain() finds no problem on a normal photo, and reports changed and lost labels."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from densefield import Bilateral, InputError, InputTypeError, Spatial, explain, refine
from densefield.crf.kernels import Custom
from densefield.diagnose.result import percent
from tests.support.small_photo import HEIGHT, IMAGE, KERNELS, MASK, WIDTH, only_problem, problems, rough, soft, softmax

# A normal example


@pytest.mark.parametrize("labels", [2, 7, 21])
def test_a_normal_photo_has_no_problem_for_any_form_of_scores(labels):
    logits = soft(rough(MASK), labels)
    for given in ({"logits": logits}, {"probabilities": softmax(logits)}, {"labels": rough(MASK)}):
        findings = explain(IMAGE, kernels=KERNELS, **given)
        assert problems(findings) == []
        assert findings[-1].what.startswith("No problem found: ")


def test_the_fraction_of_changed_pixels_matches_refine():
    before = rough(MASK)
    after = refine(IMAGE, labels=before, kernels=KERNELS).argmax(0)
    share = float((before != after).mean())
    assert 0.01 < share < 0.5  # some pixels change
    assert explain(IMAGE, labels=before, kernels=KERNELS)[-1].what == (
        f"No problem found: {percent(share)} of the pixels changed their label."
    )


def test_void_pixels_do_not_count_as_changed():
    mask = rough(MASK)
    mask[:, :25] = 255
    findings = explain(IMAGE, labels=mask, kernels=KERNELS)
    after = refine(IMAGE, labels=mask, kernels=KERNELS).argmax(0)
    share = float((mask != after)[:, 25:].mean())
    assert 0 < share < float((mask != after).mean())
    assert findings[-1].what == f"No problem found: {percent(share)} of the pixels changed their label."


def test_a_correct_mask_gives_no_problem():
    findings = explain(IMAGE, labels=MASK, kernels=[Bilateral(20, 12, weight=1)])
    assert [finding.severity for finding in findings] == ["note"]
    assert "0% of the pixels changed" in findings[0].what and "already follows" in findings[0].what
    assert "No problem" not in findings[0].what
    assert "largest change of a marginal" in findings[0].numbers


@pytest.mark.parametrize("name", ["astronaut", "chelsea", "coffee", "rocket"])
def test_real_photos_have_no_problem_with_the_default_kernels(name):
    data = pytest.importorskip("skimage.data")
    image = getattr(data, name)()[::3, ::3]
    mask = (image.astype(float).mean(-1) > image.mean()).astype(np.uint8)
    assert problems(explain(image, labels=mask)) == []


def test_photos_and_scores_of_voc_have_no_problem(shared):
    Image = pytest.importorskip("PIL.Image")
    for scores in sorted((shared / "data" / "logits").glob("*.npz"))[5:60:25]:
        logits = np.load(scores)["logits"]
        size = logits.shape[:0:-1]
        with Image.open(shared / "data/VOCdevkit/VOC2012/JPEGImages" / f"{scores.stem}.jpg") as file:
            image = np.asarray(file.resize(size))
        kernels = (Spatial(1, weight=3), Bilateral(60 / 8, 10, weight=5))
        assert problems(explain(image, logits=logits, kernels=kernels)) == []


# The result


def test_weights_that_make_the_result_blank_are_found():
    small = np.zeros_like(MASK)
    small[15:20, 20:26] = 1
    findings = explain(IMAGE, labels=small, kernels=[Spatial(4, weight=50)])
    found = only_problem(findings)
    assert "blank: label 0 took over" in found.what
    assert f"from {percent(1 - float(small.mean()))} to 100%" in found.numbers
    assert not refine(IMAGE, labels=small, kernels=[Spatial(4, weight=50)]).argmax(0).any()  # it is


def test_labels_that_disappear_are_a_note():
    mask = rough(MASK)
    mask[2, 2] = 2
    findings = explain(IMAGE, labels=mask, kernels=KERNELS)
    assert problems(findings) == []
    assert "2 (less than 0.1%)" in next(f for f in findings if f.what == "Labels disappeared.").numbers


def test_no_iterations_are_found():
    findings = explain(IMAGE, labels=rough(MASK), kernels=KERNELS, iterations=0)
    assert only_problem(findings).numbers == "iterations = 0"
    assert "0% of the pixels changed" in findings[-1].what


# Custom CRFs


def test_a_crf_a_tuned_file_and_a_module_are_explained_like_their_kernels(tmp_path):
    torch = pytest.importorskip("torch")
    from densefield import CRF, DenseCRF

    expected = explain(IMAGE, logits=soft(rough(MASK)), kernels=KERNELS, iterations=3)
    crf = CRF(KERNELS, iterations=3)
    assert explain(IMAGE, logits=soft(rough(MASK)), crf=crf) == expected
    crf.save(tmp_path / "crf.toml")
    assert explain(IMAGE, logits=soft(rough(MASK)), crf=CRF.load(tmp_path / "crf.toml")) == expected
    module = DenseCRF.from_numpy(crf, num_classes=2)
    assert explain(IMAGE, logits=soft(rough(MASK)), crf=module) == expected
    scores = torch.from_numpy(soft(rough(MASK)))[None].repeat(2, 1, 1, 1)
    pixels = torch.from_numpy(IMAGE.transpose(2, 0, 1).copy())[None]
    ignore = torch.zeros(2, HEIGHT, WIDTH, dtype=torch.bool)
    assert module.explain(scores, pixels, ignore=ignore)[0] == expected
    assert len(module.explain(scores.requires_grad_(), pixels.float())) == 2


# Errors and printing


def test_input_that_refine_rejects_is_rejected():
    with pytest.raises(InputError, match="exactly one"):
        explain(IMAGE, probabilities=softmax(soft(MASK)), labels=MASK)
    with pytest.raises(InputError, match="NaN"):
        explain(IMAGE, logits=np.full((2, HEIGHT, WIDTH), np.nan))
    with pytest.raises(InputTypeError, match="numpy array"):
        explain(IMAGE.tolist(), labels=MASK)
    with pytest.raises(InputError, match="labels have shape \\(9, 9\\), but the image has \\(36, 50, 3\\)"):
        explain(IMAGE, labels=MASK[:9, :9])
    with pytest.raises(InputError, match="'depth'"):
        explain(IMAGE, labels=MASK, kernels=[Custom(feature="depth")])
    with pytest.raises(InputError, match="at least one pixel"):
        explain(IMAGE[:0], logits=np.zeros((2, 0, WIDTH)))


def test_an_image_of_one_pixel_is_found():
    found = only_problem(explain(IMAGE[:1, :1], logits=np.array([[[0.0]], [[2.0]]]), kernels=KERNELS[:1]))
    assert "no neighbours" in found.what


def test_grey_images_and_volumes_are_explained():
    grey = IMAGE.mean(-1)
    assert problems(explain(grey, labels=rough(MASK), kernels=KERNELS)) == []
    volume = np.stack([grey, grey])
    assert problems(explain(volume, labels=np.stack([rough(MASK)] * 2), kernels=KERNELS)) == []


def test_a_finding_prints_what_seen_and_cure():
    text = str(explain(IMAGE, labels=MASK, kernels=KERNELS, iterations=0)[0])
    assert text == "problem: Inference makes no iteration.\n  seen: iterations = 0\n  cure: Use 5 iterations."


def test_the_example_in_the_documentation_prints_the_shown_output(capsys):
    page = (Path(__file__).parents[2] / "docs" / "explain.md").read_text(encoding="utf-8")
    code, shown = re.search(r"```python\n(.*?)```.*?```text\n(.*?)```", page, re.DOTALL).groups()
    exec(code, {})
    assert capsys.readouterr().out == shown
