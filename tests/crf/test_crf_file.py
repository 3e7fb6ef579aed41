"""A CRF is saved to TOML and loaded unchanged, and every problem of a file is named."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from densefield import CRF, Bilateral, Custom, InputError, Spatial
from densefield.crf.crf_file import crf_to_toml, read_crf, write_crf

pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli", reason="the files are TOML")

SPATIAL = "[[kernels]]\nkind = 'spatial'\n"


@pytest.fixture
def write(tmp_path):
    def write(text: str):
        path = tmp_path / "crf.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def fields(crf: CRF) -> list[object]:
    """The fields of a kernel as lists."""
    names = ("weight", "normalization", "covariance", "sigma", "sigma_xy", "sigma_rgb", "feature")
    found = [[getattr(kernel, name, None) for name in names] for kernel in crf.kernels]
    return [
        [value if value is None or isinstance(value, str) else np.asarray(value, float).tolist() for value in each]
        for each in found
    ]


def test_a_saved_crf_is_loaded_unchanged(tmp_path):
    random = np.random.default_rng(60493)
    crf = CRF(
        [
            Spatial(random.uniform(1, 9, 2), weight=1 / 3),
            Bilateral([50, 40], [9, 8, 7], weight=[0.1, 2], normalization="after"),
            Custom("depth", sigma=0.2, weight=[[1.0, -0.7], [-0.7, 2.0]], normalization="none"),
            Spatial(covariance=[[4, 1], [1, 9.5]]),
            Custom("height", sigma=[0.2, 1], sigma_xy=7.5),
        ],
        iterations=3,
        exclude_self=True,
        operator="pydensecrf",
        halo=1,
        axis_order="yx",
    )
    write_crf(tmp_path / "crf.toml", crf)
    again = read_crf(tmp_path / "crf.toml")
    without_widths = fields(crf)
    without_widths[3][3] = 3.0  # a width that is replaced by a covariance is not written
    assert fields(again) == without_widths  # bitwise
    for option in ("iterations", "exclude_self", "operator", "halo", "axis_order"):
        assert getattr(again.options, option) == getattr(crf.options, option)


def test_a_file_without_kernels_has_the_default_ones_and_an_empty_list_none(write):
    assert fields(read_crf(write("iterations = 2\n"))) == fields(CRF())
    assert read_crf(write(crf_to_toml(CRF(())))).kernels == ()


def test_options_override_the_file(write):
    crf = read_crf(write("iterations = 4\nhalo = 1\n" + SPATIAL), iterations=9, method="exact", data_range=1.0)
    assert (crf.options.iterations, crf.options.halo, crf.options.method, crf.options.data_range) == (
        9,
        1,
        "exact",
        1.0,
    )


def test_numpy_numbers_are_written_as_numbers(write):
    crf = CRF([Spatial(np.float32(2.5), weight=np.int64(2))], iterations=np.int64(4), halo=np.int8(1))
    again = read_crf(write(crf_to_toml(crf)))
    assert (again.options.iterations, again.options.halo, fields(again)) == (4, 1, fields(crf))


def test_the_file_does_not_hold_the_format_of_images():
    text = crf_to_toml(CRF(data_range=1.0, threads=1, method="exact"))
    assert not any(name in text for name in ("data_range", "threads", "method"))


@pytest.mark.parametrize(("form", "shape"), [("potts", ()), ("per_label", (3,)), ("matrix", (3, 3))])
def test_a_single_weight_is_repeated_if_the_number_of_classes_is_known(write, form, shape):
    path = write(f"{SPATIAL}weight = 2.5\ncompatibility = '{form}'\n")
    assert np.shape(read_crf(path).kernels[0].weight) == ()
    weight = read_crf(path, num_classes=3).kernels[0].weight
    assert np.shape(weight) == shape
    scores = np.random.default_rng(60494).normal(size=(3, 5, 6))
    spread, single = (crf.solve(scores).marginals for crf in (read_crf(path, num_classes=3), read_crf(path)))
    np.testing.assert_allclose(spread, single, atol=1e-6)  # float32, sums in another order


def test_learnt_values_are_stored_exactly(tmp_path):
    torch = pytest.importorskip("torch", reason="parameters are torch's")
    from densefield.nn.dense_crf import DenseCRF

    random = np.random.default_rng(60495)
    matrix = random.normal(size=(3, 3))
    for trial in range(40):
        kernels = [
            Spatial(np.exp(random.normal(0, 2, 2)), weight=np.exp(random.normal(0, 2, 3))),
            Bilateral(np.exp(random.normal(3, 2, 2)), np.exp(random.normal(2, 1, 3)), weight=(matrix + matrix.T) / 2),
        ]
        crf = DenseCRF(3, kernels)
        with torch.no_grad():
            for parameter in crf.parameters():
                parameter += torch.from_numpy(random.normal(0, 0.3, parameter.shape))
        write_crf(tmp_path / f"{trial}.toml", crf.to_numpy())
        again = DenseCRF(3, read_crf(tmp_path / f"{trial}.toml").kernels)
        for name, value in crf.values().items():
            np.testing.assert_array_equal(again.values()[name], value)


def test_values_that_were_not_learnt_are_written_unchanged():
    pytest.importorskip("torch", reason="parameters are torch's")
    from densefield.nn.dense_crf import DenseCRF

    text = crf_to_toml(DenseCRF(2, [Spatial(3, weight=0.1)]).to_numpy())
    assert "sigma = [3.0, 3.0]" in text and "weight = 0.1\n" in text


@pytest.mark.parametrize(
    "text, message",
    [
        ("kernels = 3", r"kernels: is 3, expected a list of tables, each under a line \[\[kernels\]\]"),
        ("kernels = [1]", r"kernels\.0: is 1, expected a table, under a line \[\[kernels\]\]"),
        ("[[kernels]]\nsigma = 3", r"kernels\.0\.kind: is missing, expected one of spatial, bilateral, custom"),
        ("[[kernels]]\nkind = 'round'", r"kernels\.0\.kind: is 'round', expected one of spatial, bilateral, custom"),
        ("[[kernels]]\nkind = ['spatial']", r"kernels\.0\.kind: is \['spatial'\], expected one of"),
        (SPATIAL + "sigma_xy = 3", r"kernels\.0\.sigma_xy: unknown key; did you mean sigma\?"),
        (SPATIAL + SPATIAL + "colour = 3", r"kernels\.1\.colour: unknown key, expected kind, weight, compatibility"),
        (SPATIAL + "sigma = -3", r"kernels\.0\.sigma: .*expected finite numbers above 0"),
        (SPATIAL + "sigma = true", r"kernels\.0\.sigma: sigma is True, expected a width"),
        (SPATIAL + "sigma = nan", r"kernels\.0\.sigma: .*expected finite numbers above 0"),
        (SPATIAL + "weight = [[1, 2], [3, 4]]", r"kernels\.0\.weight: .*not symmetric"),
        (SPATIAL + "weight = 'much'", r"kernels\.0\.weight: the weight is 'much', expected a number"),
        (SPATIAL + "normalization = 'all'", r"kernels\.0\.normalization: is 'all', expected one of symmetric, after"),
        (SPATIAL + "compatibility = 'dense'", r"kernels\.0\.compatibility: is 'dense', expected one of potts"),
        (SPATIAL + "weight = [1, 2]\ncompatibility = 'matrix'", r"kernels\.0\.weight: .*but compatibility is 'matrix'"),
        (SPATIAL + "sigma = 2\ncovariance = [[1.0]]", r"kernels\.0\.covariance: .*but sigma is given too"),
        (SPATIAL + "covariance = [[1, 2], [2, 1]]", r"kernels\.0\.covariance: .*not positive definite"),
        ("[[kernels]]\nkind = 'custom'", r"kernels\.0\.feature: feature is '', expected a name"),
        ("[[kernels]]\nkind = 'custom'\nfeature = 'position'", r"kernels\.0\.feature: .*a name that is taken"),
        (
            "steps = 5\n" + SPATIAL,
            "steps: unknown key, expected iterations, inference, exclude_self, operator, halo, axis_order",
        ),
        ("iteration = 5\n" + SPATIAL, r"iteration: unknown key; did you mean iterations\?"),
        ("data_range = 1.0\n" + SPATIAL, "data_range: unknown key"),
        ("exclude_self = 'no'\n" + SPATIAL, "exclude_self: is 'no', expected true or false"),
        ("exclude_self = 1\n" + SPATIAL, "exclude_self: is 1, expected true or false"),
        ("iterations = true\n" + SPATIAL, "iterations: iterations is True, expected"),
        ("iterations = 2.5\n" + SPATIAL, r"iterations: iterations is 2\.5, expected"),
        ("halo = true\n" + SPATIAL, "halo: halo is True, expected"),
        ("halo = '1'\n" + SPATIAL, "halo: halo is '1', expected"),
        ("operator = 3\n" + SPATIAL, "operator: operator is 3, expected one of"),
        ("axis_order = 'xz'\n" + SPATIAL, "axis_order: axis_order is 'xz', expected one of xy, yx"),
        ("[[kernels", "is not TOML"),
    ],
)
def test_an_invalid_file_is_rejected_with_its_name_and_the_key(write, text, message):
    path = write(text)
    with pytest.raises(InputError, match=message) as caught:
        read_crf(path)
    assert str(caught.value).startswith(str(path))


def test_all_problems_of_a_file_are_listed_in_one_error(write):
    with pytest.raises(InputError) as caught:
        read_crf(write("hallo = 1\niterations = -1\n" + SPATIAL + "sigma = 0\nwieght = 3\n"))
    lines = str(caught.value).splitlines()
    assert lines[0].endswith("crf.toml has 4 problems:")
    assert [line.split(":")[0].strip() for line in lines[1:]] == [
        "hallo",
        "iterations",
        "kernels.0.wieght",
        "kernels.0.sigma",
    ]


def test_weights_for_another_number_of_classes_are_rejected(write):
    path = write(SPATIAL + "weight = [1, 2]\n")
    assert read_crf(path, num_classes=2).kernels[0].weight == [1, 2]
    with pytest.raises(InputError, match=r"kernels\.0\.weight: .*for 2 classes, but there are 3"):
        read_crf(path, num_classes=3)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(InputError, match=r"there is no file .*none\.toml, expected a CRF as `densefield tune`"):
        read_crf(tmp_path / "none.toml")
    with pytest.raises(InputError, match="cannot be read"):
        read_crf(tmp_path)


def test_a_file_is_replaced_completely_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "crf.toml"
    write_crf(path, CRF(iterations=3))

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_crf(path, CRF(iterations=4))
    assert read_crf(path).options.iterations == 3 and list(tmp_path.iterdir()) == [path]


def test_without_tomli_on_python_3_10_the_error_says_what_to_install(write, monkeypatch):
    path = write(SPATIAL)
    monkeypatch.setattr("sys.version_info", (3, 10, 0))
    monkeypatch.setitem(sys.modules, "tomli", None)
    with pytest.raises(ModuleNotFoundError, match="pip install tomli"):
        read_crf(path)


def test_files_are_read_and_written_without_torch(write):
    path = write(SPATIAL)
    code = f"""
import sys
from densefield.crf.crf_file import read_crf, write_crf
write_crf({str(path)!r}, read_crf({str(path)!r}))
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
