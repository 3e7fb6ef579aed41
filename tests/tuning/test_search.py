"""Search on a grid and at random, and its resumption."""

from __future__ import annotations

import itertools
import math
from dataclasses import asdict

import pytest

pytest.importorskip("torch", reason="tuning needs torch")

from densefield.errors import InputError
from densefield.evaluation.evaluation import evaluate_images
from densefield.nn.dense_crf import DenseCRF
from densefield.tuning.search import FAINT, Setting, Space, Trial, TuningOptions, best, search
from tests.support.scored_scenes import ScoredScenes

SMALL = Space((1.0, 2.0), (0.5,), (10.0,), (5.0, 20.0), (1.0,))


def run(settings, path, evaluated=None):
    source = ScoredScenes(2)

    def evaluate(setting):
        if evaluated is not None:
            evaluated.append(setting)
        return evaluate_images(source, DenseCRF(2, setting.kernels()))

    return search(settings, evaluate, path)


def test_a_grid_has_every_combination_once():
    settings = list(SMALL.grid())
    assert len(set(settings)) == 4
    assert {(each.spatial_sigma, each.bilateral_sigma_rgb) for each in settings} == {(1, 5), (1, 20), (2, 5), (2, 20)}


def test_random_settings_are_log_uniform_within_their_bounds():
    drawn = list(itertools.islice(Space().random(seed=77), 402))[2:]
    assert all(1 <= each.spatial_sigma <= 9 and 0.1 <= each.bilateral_weight <= 8 for each in drawn)
    below = sum(each.spatial_sigma < 3 for each in drawn) / 400  # 3 is the geometric mean of 1 and 9
    assert abs(below - 0.5) < 4 * 0.5 / 400**0.5  # four standard deviations


def test_random_settings_depend_only_on_the_seed():
    first, second, other = (list(itertools.islice(Space().random(seed), 5)) for seed in (8, 8, 9))
    assert first == second and first[:2] == other[:2] == [Setting(), FAINT] and first[2:] != other[2:]


@pytest.mark.parametrize(
    ("space", "first"),
    [
        (Space(spatial_weight=(3.0,), bilateral_weight=(5.0, 10.0)), [Setting()]),
        (Space(spatial_weight=(0.001, 1.0), bilateral_weight=(0.01, 1.0)), [FAINT]),
        (Space(bilateral_sigma_xy=(80.0, 160.0)), []),
        (Space(bilateral_sigma_xy=(50.0, 70.0)), [Setting(), FAINT]),
    ],
)
def test_random_settings_lie_in_the_ranges_that_are_given(space, first):
    settings = list(itertools.islice(space.random(seed=5), 30))
    assert settings[: len(first)] == first
    for setting in settings[len(first) :]:
        for name, values in asdict(space).items():
            assert min(values) <= getattr(setting, name) <= max(values)


def test_ranges_without_a_search_are_refused():
    with pytest.raises(InputError, match=r"search is 'none', .* ranges are given too"):
        TuningOptions(search="none", space=SMALL)


def test_kernels_for_smaller_images_have_smaller_widths_in_pixels_but_not_in_colours():
    spatial, bilateral = Setting().kernels(shrink=2)
    assert (spatial.sigma, bilateral.sigma_xy, bilateral.sigma_rgb) == (1.5, 30.0, 10.0)


def test_an_interrupted_search_is_resumed(tmp_path):
    path, settings = tmp_path / "trials.csv", list(SMALL.grid())
    whole = run(settings, tmp_path / "whole.csv")
    run(settings[:2], path)
    with path.open("a") as file:
        file.write("1.0,0.5,10.")  # killed while writing
    evaluated = []
    assert run(settings, path, evaluated) == whole and len(evaluated) == 2
    assert path.read_text() == (tmp_path / "whole.csv").read_text()


def test_a_failing_setting_is_the_worst(tmp_path):
    narrow = Setting(bilateral_sigma_rgb=1e-12)
    (trial,) = run([narrow], tmp_path / "trials.csv")
    good = Trial(Setting(), 0.7, 0.1, 0.2)
    for criterion in ("negative_log_likelihood", "mean_iou", "pixel_accuracy"):
        assert best([trial, good], criterion) is good


def test_if_all_settings_fail_the_search_raises(tmp_path):
    trials = run([Setting(bilateral_sigma_rgb=1e-12), Setting(spatial_sigma=1e-12)], tmp_path / "trials.csv")
    with pytest.raises(InputError, match=r"none of 2 settings could be computed.*widths far too narrow"):
        best(trials, "mean_iou")


def test_labels_that_are_all_void_are_named():
    with pytest.raises(InputError, match="no labelled pixel: all labels are 255"):
        best([Trial(Setting(), math.nan, math.nan, math.nan)] * 2, "mean_iou")


def test_an_unreadable_image_is_not_a_trial(tmp_path):
    def evaluate(setting):
        raise InputError("a.png is not an image")

    with pytest.raises(InputError, match=r"a\.png is not an image"):
        search([Setting()], evaluate, tmp_path / "trials.csv")
    assert not (tmp_path / "trials.csv").exists()


def test_the_best_setting_is_by_the_chosen_metric():
    likely, right = Trial(Setting(), 0.2, 0.5, 0.8), Trial(FAINT, 0.3, 0.6, 0.9)
    assert best([right, likely], "negative_log_likelihood") is likely
    assert best([likely, right], "mean_iou") is right and best([likely, right], "pixel_accuracy") is right


def test_a_file_without_trials_is_rejected(tmp_path):
    path = tmp_path / "trials.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="expected spatial_sigma,"):
        run([Setting()], path)


@pytest.mark.parametrize("values", [(), (0.0,), (-1.0, 2.0), (float("nan"),)])
def test_widths_and_weights_are_finite_and_positive(values):
    with pytest.raises(InputError, match=r"spatial_sigma is .*, expected finite numbers above 0"):
        Space(spatial_sigma=values)
