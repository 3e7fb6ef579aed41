"""Each fault that the doctor knows is found by its numbers, and a sane photo has none."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from densefield import CRF, Bilateral, Finding, InputError, InputTypeError, Spatial, explain, refine
from densefield.crf.doctor_kernels import margins, neighbourhoods, persuasion
from densefield.crf.finding import percent
from densefield.crf.kernels import Custom
from densefield.crf.softmax import log_softmax

HEIGHT, WIDTH = 36, 50
KERNELS = (Spatial(2, weight=2), Bilateral(20, 12, weight=3))


def photo(seed: int = 90127) -> tuple[np.ndarray, np.ndarray]:
    """A shaded scene of an object before a background, with grain, and the object's mask."""
    rng = np.random.default_rng(seed)
    rows, columns = np.indices((HEIGHT, WIDTH))
    inside = (rows - 17) ** 2 + (columns - 24) ** 2 < 12**2
    colours = np.where(inside[..., None], (190, 120, 70), (60, 90, 130)) + (rows + columns)[..., None] / 3
    return np.clip(colours + rng.normal(0, 6, colours.shape), 0, 255).astype(np.uint8), inside.astype(np.uint8)


def rough(mask: np.ndarray) -> np.ndarray:
    """The mask, moved by two pixels."""
    return np.roll(mask, (2, -2), axis=(0, 1))


def soft(mask: np.ndarray, labels: int = 2, margin: float = 2.0, seed: int = 4177) -> np.ndarray:
    """Logits (L, H, W) of a network that is right but not sure."""
    noise = np.random.default_rng(seed).normal(0, 0.8, (labels, *mask.shape))
    return (noise + margin * (np.arange(labels)[:, None, None] == mask)).astype(np.float32)


def softmax(scores: np.ndarray) -> np.ndarray:
    return np.exp(np.moveaxis(log_softmax(np.moveaxis(scores, 0, -1)), -1, 0))


def problems(findings: list[Finding]) -> list[str]:
    return [finding.what for finding in findings if finding.severity == "problem"]


def first_problem(findings: list[Finding]) -> Finding:
    """The cause; what it leads to, such as a blank result, follows."""
    return next(finding for finding in findings if finding.severity == "problem")


def only_problem(findings: list[Finding]) -> Finding:
    (found,) = (finding for finding in findings if finding.severity == "problem")
    return found


IMAGE, MASK = photo()


# A sane example


@pytest.mark.parametrize("labels", [2, 7, 21])
def test_a_sane_photo_has_no_problem_whatever_form_the_scores_have(labels):
    logits = soft(rough(MASK), labels)
    for given in ({"logits": logits}, {"probabilities": softmax(logits)}, {"labels": rough(MASK)}):
        findings = explain(IMAGE, kernels=KERNELS, **given)
        assert problems(findings) == []
        assert findings[-1].what.startswith("No problem found: ")


def test_the_share_of_changed_pixels_is_that_of_refine():
    before = rough(MASK)
    after = refine(IMAGE, labels=before, kernels=KERNELS).argmax(0)
    share = float((before != after).mean())
    assert 0.01 < share < 0.5  # there is something to tell
    assert explain(IMAGE, labels=before, kernels=KERNELS)[-1].what == (
        f"No problem found: {percent(share)} of the pixels changed their label."
    )


def test_unknown_pixels_do_not_count_as_changed():
    mask = rough(MASK)
    mask[:, :25] = 255
    findings = explain(IMAGE, labels=mask, kernels=KERNELS)
    after = refine(IMAGE, labels=mask, kernels=KERNELS).argmax(0)
    share = float((mask != after)[:, 25:].mean())
    assert 0 < share < float((mask != after).mean())
    assert findings[-1].what == f"No problem found: {percent(share)} of the pixels changed their label."


def test_a_mask_that_is_right_already_is_told_so():
    findings = explain(IMAGE, labels=MASK, kernels=[Bilateral(20, 12, weight=1)])
    assert [finding.severity for finding in findings] == ["note"]
    assert "0% of the pixels changed" in findings[0].what and "already follows" in findings[0].what
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


# The image


def test_colours_from_zero_to_one_are_found():
    found = first_problem(explain(IMAGE / 255, labels=rough(MASK), kernels=KERNELS))
    assert "all pixels count as alike" in found.what
    assert found.cure == "Widths are for colours 0…255: pass image * 255."
    assert "width is 12" in found.numbers


def test_colours_from_zero_to_one_are_no_problem_for_widths_to_match():
    kernels = (Spatial(2, weight=2), Bilateral(20, 12 / 255, weight=3))
    assert problems(explain(IMAGE / 255, labels=rough(MASK), kernels=kernels)) == []


def test_the_input_of_a_network_is_found_in_place_of_an_image():
    shifted = (IMAGE / 255 - 0.45) / 0.225
    found = first_problem(explain(shifted, labels=rough(MASK), kernels=KERNELS))
    assert "pass the original image" in found.cure


def test_bytes_of_a_tiny_range_are_found():
    found = first_problem(explain(MASK, labels=rough(MASK), kernels=KERNELS))  # a mask in the image's place
    assert "ranges from 0 to 1," in found.numbers and "Check how the image was read" in found.cure


def test_an_image_of_one_colour_is_found():
    found = first_problem(explain(np.full_like(IMAGE, 7), labels=rough(MASK), kernels=KERNELS))
    assert "one colour" in found.what and "every value is 7" in found.numbers


def test_an_image_that_no_kernel_looks_at_is_not_judged():
    assert problems(explain(np.full_like(IMAGE, 7), labels=rough(MASK), kernels=KERNELS[:1])) == []


# Axes


def test_channels_first_are_found():
    found = only_problem(explain(IMAGE.transpose(2, 0, 1), labels=MASK))
    assert "channels first" in found.what and "(3, 36, 50)" in found.numbers


def test_labels_last_are_found():
    probabilities = softmax(soft(MASK, 5))
    found = only_problem(explain(IMAGE, np.moveaxis(probabilities, 0, -1)))
    assert "labels last" in found.what and "(36, 50, 5)" in found.numbers


def test_channels_first_and_labels_last_are_both_found():
    findings = explain(IMAGE.transpose(2, 0, 1), logits=np.moveaxis(soft(MASK, 5), 0, -1))
    assert ["channels first" in findings[0].what, "labels last" in findings[1].what, len(findings)] == [True, True, 2]


@pytest.mark.parametrize("form", ["labels", "logits"])
def test_swapped_rows_and_columns_are_found(form):
    given = {"labels": MASK.T} if form == "labels" else {"logits": soft(MASK).swapaxes(1, 2)}
    found = only_problem(explain(IMAGE, **given))
    assert "Rows and columns" in found.what


# The scores


@pytest.mark.parametrize("labels", [2, 21])
def test_probabilities_passed_as_logits_are_found(labels):
    findings = explain(IMAGE, logits=softmax(soft(rough(MASK), labels, 6)), kernels=KERNELS)
    assert "The logits are probabilities" in problems(findings)[0]
    assert f"{np.e / (np.e + labels - 1):.3g}" in findings[0].numbers


@pytest.mark.parametrize("labels", [2, 21])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_softmax_taken_twice_is_found(labels, dtype):
    twice = softmax(softmax(soft(rough(MASK), labels, 8))).astype(dtype)
    findings = explain(IMAGE, twice, kernels=KERNELS)
    assert "softmax had been taken twice" in problems(findings)[0]


def test_probabilities_that_are_merely_unsure_are_a_note():
    unsure = softmax(soft(rough(MASK), 2, 0.0) * np.float32(0.1))
    findings = explain(IMAGE, unsure, kernels=KERNELS)
    assert next(f for f in findings if "nearly even" in f.what).severity == "note"


@pytest.mark.parametrize("labels", [2, 21])
def test_energies_passed_as_logits_are_found(labels):
    energies = -np.log(softmax(soft(rough(MASK), labels)))
    found = explain(IMAGE, logits=energies, kernels=KERNELS)[0]
    assert "energies" in found.what and found.numbers.endswith("at 100% of the pixels")


def test_log_probabilities_are_not_taken_for_energies():
    assert problems(explain(IMAGE, logits=np.log(softmax(soft(rough(MASK)))), kernels=KERNELS)) == []


def test_a_mask_of_0_and_255_is_found():
    found = only_problem(explain(IMAGE, labels=255 * MASK, kernels=KERNELS))
    assert "only 0 and 255" in found.what
    share = float(MASK.mean())
    assert percent(share) in found.numbers and percent(1 - share) in found.numbers


def test_a_mask_that_knows_nothing_is_found():
    found = only_problem(explain(IMAGE, labels=np.full_like(MASK, 255), kernels=KERNELS))
    assert "Every pixel of the mask is unknown" in found.what


def test_even_scores_are_found():
    found = only_problem(explain(IMAGE, logits=np.zeros((3, HEIGHT, WIDTH)), kernels=KERNELS))
    assert "No pixel prefers any label" in found.what


def test_an_input_that_is_blank_already_is_found():
    found = only_problem(explain(IMAGE, labels=np.ones_like(MASK), kernels=KERNELS))
    assert "same label everywhere" in found.what and "label 1 is best at all 1800" in found.numbers


def test_a_single_label_is_found():
    found = only_problem(explain(IMAGE, logits=np.zeros((1, HEIGHT, WIDTH))))
    assert "one label" in found.what


# Kernels


@pytest.mark.parametrize(
    "kernel, cure",
    [
        (Spatial(0.2), "at least a pixel"),
        (Bilateral(0.2, 12), "at least a pixel"),
        (Bilateral(20, 0.1), "larger widths"),
        (Bilateral(1.0, 0.1, covariance=np.diag([400.0, 400.0, 0.01, 0.01, 0.01])), "larger widths"),
    ],
)
def test_kernels_too_narrow_are_found(kernel, cure):
    findings = explain(IMAGE, labels=rough(MASK), kernels=[kernel])
    found = only_problem(findings)
    assert "so narrow" in found.what and cure in found.cure


def test_an_image_of_16_bits_is_found_through_its_lonely_pixels():
    findings = explain(IMAGE.astype(np.uint16) * 257, labels=rough(MASK), kernels=KERNELS)
    assert "scale it to 0…255" in only_problem(findings).cure


@pytest.mark.parametrize("kernel", [Spatial(500, weight=1), Bilateral(500, 150, weight=1)])
def test_kernels_too_wide_are_found(kernel):
    found = only_problem(explain(IMAGE, labels=rough(MASK), kernels=[kernel]))
    assert "so wide" in found.what and "widths are 500 for position" in found.numbers


def test_a_colour_width_beyond_the_range_of_colours_is_found():
    findings = explain(IMAGE, labels=rough(MASK), kernels=[Bilateral(5, 900, weight=1)])
    assert "all pixels count as alike" in only_problem(findings).what


def test_reach_that_does_not_fit_the_resolution_is_a_note():
    far = explain(IMAGE, labels=rough(MASK), kernels=[Bilateral(200, 12)])
    near = explain(np.repeat(IMAGE, 4, 1), labels=np.repeat(MASK, 4, 1), kernels=[Bilateral(1.9, 12)])
    assert "across the whole image" in far[0].what and far[0].severity == "note"
    assert "does not reach far" in near[0].what and near[0].severity == "note"
    assert problems(far) == problems(near) == []


@pytest.mark.parametrize("weight", [-1.0, [-1.0, -2.0], [[0.0, 1.0], [1.0, 0.0]]])
def test_weights_that_repel_are_found(weight):
    findings = explain(IMAGE, labels=rough(MASK), kernels=[Spatial(2, weight=weight)])
    assert "drives neighbours apart" in problems(findings)[0]


def test_no_kernel_and_a_kernel_of_weight_zero_are_found():
    assert "no kernel" in problems(explain(IMAGE, labels=MASK, kernels=[]))[0]
    notes = explain(IMAGE, labels=rough(MASK), kernels=[*KERNELS, Spatial(3, weight=0)])
    assert any("weight 0" in note.what for note in notes) and problems(notes) == []


def test_scores_that_drown_the_neighbours_are_found():
    findings = explain(IMAGE, labels=rough(MASK), confidence=0.9999, kernels=KERNELS)
    found = only_problem(findings)
    assert "so sure" in found.what
    lead = np.log(0.9999 / 0.0001)
    assert f"leads by {lead:.3g}" in found.numbers
    assert "0% of the pixels changed" in findings[-1].what and "problems above" in findings[-1].what


def test_weights_raised_as_the_doctor_says_make_pixels_movable():
    kernels = (Spatial(2, weight=0.2), Bilateral(20, 12, weight=0.3))
    found = only_problem(explain(IMAGE, labels=rough(MASK), confidence=0.9, kernels=kernels))
    factor = float(found.cure.rsplit(" ", 1)[1].removesuffix("-fold."))
    raised = [Spatial(2, weight=0.2 * factor * 1.2), Bilateral(20, 12, weight=0.3 * factor * 1.2)]
    assert problems(explain(IMAGE, labels=rough(MASK), confidence=0.9, kernels=raised)) == []


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


# What the numbers are


@pytest.mark.parametrize("kernel", [Spatial(3), Bilateral(20, 12), Bilateral(20, 12, weight=[1.0, 2.0])])
def test_neighbours_are_counted_as_the_exact_sum_counts_them(kernel):
    (counts,) = neighbourhoods([kernel], IMAGE, soft(MASK), None)
    exact = CRF([kernel], method="exact").pose(soft(MASK), IMAGE).kernels[0].filter
    true = exact.apply(np.ones((HEIGHT * WIDTH, 1), np.float32))[:, 0]
    assert abs(counts.mean() / true.mean() - 1) < 0.1  # the lattice's magnitude is right on average of 512 points


@pytest.mark.parametrize("weight", [1.5, [0.5, 1.5, 1.0], [[1.0, -0.5, 0.0], [-0.5, 1.0, 0.0], [0.0, 0.0, 0.2]]])
@pytest.mark.parametrize("normalization", ["symmetric", "after", "before", "none"])
def test_no_marginals_whatever_move_a_score_further_than_persuasion_says(weight, normalization):
    kernels = [Bilateral(20, 12, weight=weight, normalization=normalization)]
    problem = CRF(kernels).pose(soft(MASK, 3), IMAGE)
    most = persuasion(kernels, problem)
    rng = np.random.default_rng(60913)
    furthest = np.zeros_like(most)
    sure = [np.tile(row, (HEIGHT * WIDTH, 1)) for row in np.eye(3, dtype=np.float32)]  # all neighbours of one mind
    for q in [*sure, rng.dirichlet([0.2] * 3, HEIGHT * WIDTH).astype(np.float32)]:
        furthest = np.maximum(furthest, np.ptp(problem.couplings[0].message(q), axis=1))
    assert (furthest <= most * (1 + 1e-5)).all()  # single precision
    assert furthest == pytest.approx(most, rel=1e-5)  # and where all are of one mind it is reached


def test_margins_are_the_best_less_the_second_best():
    scores = np.array([[3.0, 1.0], [1.0, 1.0], [2.5, -4.0]])
    assert margins(scores).tolist() == [0.5, 0.0]


# What it refuses, and how it looks


def test_input_that_refine_refuses_is_refused_alike():
    with pytest.raises(InputError, match="exactly one"):
        explain(IMAGE, softmax(soft(MASK)), labels=MASK)
    with pytest.raises(InputError, match="NaN"):
        explain(IMAGE, logits=np.full((2, HEIGHT, WIDTH), np.nan))
    with pytest.raises(InputTypeError, match="numpy array"):
        explain(IMAGE.tolist(), labels=MASK)
    with pytest.raises(InputError, match="expected \\(9, 9, channels\\)"):
        explain(IMAGE, labels=MASK[:9, :9])
    with pytest.raises(InputError, match="'depth'"):
        explain(IMAGE, labels=MASK, kernels=[Custom(feature="depth")])
    with pytest.raises(InputError):
        explain(IMAGE[:0], logits=np.zeros((2, 0, WIDTH)))


def test_an_image_of_one_pixel_is_found():
    found = only_problem(explain(IMAGE[:1, :1], logits=np.array([[[0.0]], [[2.0]]]), kernels=KERNELS[:1]))
    assert "no neighbours" in found.what


def test_grey_images_and_volumes_are_understood():
    grey = IMAGE.mean(-1)
    assert problems(explain(grey, labels=rough(MASK), kernels=KERNELS)) == []
    volume = np.stack([grey, grey])
    assert problems(explain(volume, labels=np.stack([rough(MASK)] * 2), kernels=KERNELS)) == []


def test_a_finding_prints_as_what_seen_and_cure():
    text = str(explain(IMAGE, labels=MASK, kernels=KERNELS, iterations=0)[0])
    assert text == "problem: No update is made.\n  seen: iterations = 0\n  cure: Use 5 iterations."


def test_the_example_in_the_documentation_prints_what_it_shows(capsys):
    page = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text(encoding="utf-8")
    code, shown = re.search(r"```python\n(.*?)```.*?```text\n(.*?)```", page, re.DOTALL).groups()
    exec(code, {})
    assert capsys.readouterr().out == shown
