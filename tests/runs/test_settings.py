"""Settings: defaults, files, the command line, and all errors together."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pydantic", reason="training needs it")


from densefield.errors import InputError
from densefield.runs.config import Config
from densefield.runs.settings import config_from, differences, read_config, to_toml

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.toml"))


@pytest.fixture
def write(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "settings.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_an_empty_file_gives_the_defaults(write):
    assert read_config(write("")) == Config()


def test_a_file_changes_what_it_names_and_nothing_else(write):
    config = read_config(write("[optimizer]\nlr_top = 0.3\n"))
    assert differences(Config(), config) == ["optimizer.lr_top: 0.01, 0.3"]


def test_the_command_line_overrides_the_file(write):
    config = read_config(write("[training]\nsteps = 5\nbatch = 8\n"), ["training.steps=7", "data.root=/some where"])
    assert (config.training.steps, config.training.batch, config.data.root) == (7, 8, "/some where")


def test_values_on_the_command_line_are_toml_if_valid(write):
    settings = ["data.scales=[0.5, 3]", "data.mirror=false", 'network.options.fc6="4x4"', "data.train=val"]
    config = read_config(write(""), settings)
    assert config.data.scales == (0.5, 3.0) and config.data.mirror is False
    assert config.network.options == {"fc6": "4x4"} and config.data.train == "val"


def test_stage_2_has_its_own_settings_and_shares_the_others(write):
    path = write("[training]\nsteps = 50\nbatch = 6\n[stage2.training]\nsteps = 20\n")
    one, two = read_config(path), read_config(path, ["training.stage=2"])
    assert (one.training.steps, one.training.batch, one.uses_crf) == (50, 6, False)
    assert (two.training.steps, two.training.batch, two.uses_crf) == (20, 6, True)


def test_the_command_line_overrides_the_settings_of_stage_2(write):
    path = write("[stage2.training]\nsteps = 20\n")
    assert read_config(path, ["training.stage=2", "training.steps=9"]).training.steps == 9


def test_a_disabled_crf_is_not_used_in_stage_2(write):
    assert not read_config(write(""), ["training.stage=2", "crf.enabled=false"]).uses_crf


def test_all_errors_are_listed_together(write):
    path = write(
        "[optimizer]\nlr_topp = 0.1\nlr_rest = -1\n[stage2.training]\nsteps = 0\n[extra]\na = 1\n"
        "[[crf.kernels]]\nkind = 'spatial'\nsigma = [1, -2]\nwieght = 3\n[[crf.kernels]]\nkind = 'round'\n"
    )
    with pytest.raises(InputError) as caught:
        read_config(path, ["data.kind=coco", "training.batch=true", "nonsense", "crf.halo=9"])
    lines = str(caught.value).splitlines()
    for part in (
        "optimizer.lr_topp: unknown key; did you mean lr_top?",
        "optimizer.lr_rest: is -1; should be greater than 0",
        "training.steps: is 0; should be greater than or equal to 1",
        "extra: unknown key, expected data, network, crf, optimizer, training",
        '--set data.kind=coco: is "coco", expected voc2012, folder, scenes, or a function that returns the dataset',
        "--set training.batch=true: is true; should be a valid integer",
        "--set nonsense: expected section.key=value",
        "--set crf.halo=9: is 9; should be less than or equal to 8",
        "crf.kernels.0.sigma: sigma is [1.0, -2.0], expected finite numbers above 0",
        "crf.kernels.0.wieght: unknown key; did you mean weight?",
        "crf.kernels.1.kind: is 'round', expected one of spatial, bilateral, custom",
    ):
        assert any(part in line for line in lines), part


def test_a_wrong_value_of_the_command_line_is_not_blamed_on_the_file(write):
    path = write("[training]\nsteps = 0\n[optimizer]\nlr_rest = -1\n")
    with pytest.raises(InputError) as caught:
        read_config(path, ["training.steps=5", "crf.inference=sequential", "data.scales=[2.0, 1.0]"])
    of_file, scales, inference = str(caught.value).splitlines()
    assert of_file.startswith(f"{path}: optimizer.lr_rest: is -1")
    assert inference.startswith('--set crf.inference=sequential: is "sequential"; should be')
    assert scales.startswith("--set data.scales=[2.0, 1.0]: data: scales are [2.0, 1.0], expected the smaller first")


def test_a_problem_of_a_section_names_the_setting_of_that_section(write):
    path = write('[network]\nname = "small_network"\npretrained = false\n[network.options]\nnorm = "group"\n')
    with pytest.raises(InputError, match=r"^--set network\.pretrained=true: network: pretrained is true, but"):
        read_config(path, ["network.pretrained=true", "training.steps=5"])


def test_a_problem_of_the_file_that_a_setting_uncovers_names_both(write):
    kernel = "{kind = 'spatial', weight = [[1, 0], [0, 1]], normalization = 'after'}"
    path = write(f"[crf]\ninference = 'convergent'\nkernels = [{kernel}]\n")
    with pytest.raises(InputError) as caught:
        read_config(path, ["crf.inference=parallel"])
    assert str(caught.value).startswith(
        f"{path} with --set crf.inference=parallel: crf.kernels.0.weight: the weight has"
    )


def test_an_unknown_key_of_the_crf_lists_the_file(write):
    with pytest.raises(InputError, match=r"crf\.zzz: unknown key, expected .*kernels, file"):
        read_config(write("[crf]\nzzz = 1\n"))


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("training.accumulate=3", "batch is 20, expected a multiple of accumulate, which is 3"),
        ("data.scales=[2.0, 1.0]", "expected the smaller first"),
        ("data.val=held_out", "val is 'held_out', but held_out is 0"),
        ("network.options.fc7=3x3", "but deeplab_vgg16 has fc6"),
        ("network.options.fc6=5x5", "expected one of 7x7, 4x4"),
        ("network.name=small_network", "there are no weights for small_network"),
        ("optimizer.lr_top=inf", "finite"),
        ("optimizer.lr_top=nan", "finite"),
        ("optimizer.lr_top=1e39", "less than or equal to 1000000000000000000000000000000"),
        ("optimizer.momentum=1.0", "less than 1"),
        ("training.seed=9223372036854775808", "less than 9223372036854775808"),
        (
            'crf.freeze=["*.log_sigmaa"]',
            r"freeze has '\*.log_sigmaa', which matches none of spatial.log_sigma",
        ),
        ("crf.iterations=2000000", "less than or equal to 1048576"),
        ("training.steps=2.5", "integer"),
        ("training.stage=3", "should be 1 or 2"),
        ("training.precision=16-mixed", "should be '32-true' or 'bf16-mixed'"),
    ],
)
def test_impossible_values_are_rejected(write, setting, says):
    with pytest.raises(InputError, match=says):
        read_config(write(""), [setting])


@pytest.mark.parametrize(
    ("kernels", "says"),
    [
        ("[]", r"crf\.kernels: is empty, expected one kernel or more; enabled = false"),
        ("[{kind = 'spatial', weight = 0}]", r"crf\.kernels\.0\.weight: is 0\.0, expected more than 0"),
        ("[{kind = 'spatial', weight = [1, 0]}]", r"crf\.kernels\.0\.weight: is \[1\.0, 0\.0\], expected more than 0"),
        ("[{kind = 'spatial', weight = [1, 2]}]", r"crf\.kernels\.0\.weight: .* 2 classes, but there are 21"),
        ("[{kind = 'custom', feature = 'depth'}]", r"crf\.kernels\.0: compares 'depth', but training has positions"),
        ("[{kind = 'spatial', sigma = [1, 2, 3]}]", r"crf\.kernels\.0: the spatial kernel has 3 widths for position"),
        ("3", r"crf\.kernels: is 3; should be a valid (tuple|array)"),
    ],
)
def test_kernels_that_cannot_be_learnt_are_rejected(write, kernels, says):
    with pytest.raises(InputError, match=says):
        read_config(write(f"[crf]\nkernels = {kernels}\n"))


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        ("normalization = 'after'", r'crf: inference is "convergent".* but kernels\.0 has normalization = "after"'),
        ("normalization = 'before'", r'kernels\.0 has normalization = "before": use "symmetric"'),
        ("weight = [[0, 1], [1, 0]]", r"weights, but that of kernels\.0 is not: .* alike pixels repel"),
        (
            "compatibility = 'matrix'",
            r'spatial\.matrix is learnt .*"per_label".*crf\.freeze.*inference = "parallel"',
        ),
    ],
)
def test_convergent_inference_is_refused_for_kernels_that_cannot_have_it(write, kernel, says):
    file = f"[crf]\ninference = 'convergent'\nkernels = [{{kind = 'spatial', {kernel}}}]\n"
    with pytest.raises(InputError, match=says):
        read_config(write(file))
    path = write(file + "[network]\nnum_classes = 2\n")
    assert read_config(path, ["crf.inference=parallel"]).crf.inference == "parallel"


def test_convergent_inference_takes_a_matrix_that_is_not_learnt(write):
    file = "[crf]\ninference = 'convergent'\nkernels = [{kind = 'spatial', compatibility = 'matrix'}]\n"
    config = read_config(write(file), ['crf.freeze=["*.matrix"]'])
    assert config.crf.inference == "convergent"


TWO_KERNELS = """
[[kernels]]
kind = "spatial"
sigma = 2.0
weight = 0.25

[[kernels]]
kind = "bilateral"
weight = 3.0
"""


def weights(config) -> list[object]:
    return [kernel["weight"] for kernel in config.crf.kernels]


def test_the_kernels_of_a_crf_file_are_the_kernels_of_settings(write):
    config = read_config(write(TWO_KERNELS.replace("[[kernels]]", "[[crf.kernels]]")))
    assert weights(config) == [0.25, 3.0] and config.crf.kernels[0]["sigma"] == 2.0
    assert config.crf.kernels[1]["sigma_xy"] == 60.0  # the default of Bilateral


def test_kernels_outside_the_crf_section_are_named(write):
    with pytest.raises(InputError, match=r"kernels: unknown key; in settings the kernels are listed under \[\[crf\."):
        read_config(write(TWO_KERNELS))


def test_the_command_line_changes_one_kernel_of_the_list(write):
    path = write(TWO_KERNELS.replace("[[kernels]]", "[[crf.kernels]]"))
    config = read_config(path, ["crf.kernels.1.weight=[1, 2]", "crf.kernels.0.sigma=[4, 5]", "network.num_classes=2"])
    assert weights(config) == [0.25, [1.0, 2.0]] and config.crf.kernels[0]["sigma"] == [4.0, 5.0]


@pytest.mark.parametrize(
    ("text", "setting", "says"),
    [
        ("", "crf.kernels.0.weight=2", r"--set crf\.kernels\.0\.weight=2: no kernels are listed, expected some under"),
        (TWO_KERNELS, "crf.kernels.2.weight=2", "kernels has 2 items, expected a number below 2 after it"),
        (TWO_KERNELS, "crf.kernels.first.weight=2", "kernels has 2 items, expected a number below 2 after it"),
        (TWO_KERNELS, "crf.kernels.0.wight=2", r"--set crf\.kernels\.0\.wight=2: unknown key; did you mean weight\?"),
        ("", "training.steps.now=2", r"--set training\.steps\.now=2: steps is not a section"),
    ],
)
def test_a_setting_of_a_kernel_that_is_not_listed_is_rejected(write, text, setting, says):
    path = write("[training]\nsteps = 3\n" + text.replace("[[kernels]]", "[[crf.kernels]]"))
    with pytest.raises(InputError, match=says):
        read_config(path, [setting])


def test_a_crf_starts_from_a_file_and_other_keys_override_it(write, tmp_path):
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned" / "crf.toml").write_text("iterations = 3\nhalo = 1\n" + TWO_KERNELS)
    path = write('[crf]\nfile = "tuned/crf.toml"\niterations = 9\n')  # relative to the settings
    config = read_config(path, ["crf.kernels.1.weight=4"])
    assert (config.crf.iterations, config.crf.halo, weights(config)) == (9, 1, [0.25, 4.0])
    assert read_config(write(to_toml(config))) == config  # without the other file


def test_a_crf_file_on_the_command_line_replaces_the_kernels_of_the_settings(write, tmp_path, monkeypatch):
    (tmp_path / "crf.toml").write_text("iterations = 3\n" + TWO_KERNELS)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    path = write("[crf]\niterations = 9\nfreeze = ['spatial.*']\n[[crf.kernels]]\nkind = 'spatial'\n")
    config = read_config(path, ["crf.kernels.0.weight=7", "crf.file=../crf.toml"])
    assert (config.crf.iterations, weights(config), config.crf.freeze) == (3, [7.0, 3.0], ("spatial.*",))


def test_a_crf_file_of_stage_2_is_used_in_stage_2(write, tmp_path):
    (tmp_path / "crf.toml").write_text("iterations = 3\n" + TWO_KERNELS)
    path = write('[crf]\niterations = 9\n[stage2.crf]\nfile = "crf.toml"\n')
    assert read_config(path).crf.iterations == 9
    assert read_config(path, ["training.stage=2"]).crf.iterations == 3


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, r"crf\.file: there is no file .*crf\.toml"),
        ("steps = 3\n", r"crf\.file: .*crf\.toml: steps: unknown key"),
        ("[[kernels", r"crf\.file: .*crf\.toml is not TOML"),
    ],
)
def test_a_crf_file_that_cannot_be_used_is_named(write, tmp_path, content, says):
    if content is not None:
        (tmp_path / "crf.toml").write_text(content)
    with pytest.raises(InputError, match=says):
        read_config(write('[crf]\nfile = "crf.toml"\n'))


def test_explicit_defaults_of_a_kernel_are_the_same_setting(write):
    bare = read_config(write("[[crf.kernels]]\nkind = 'spatial'\n"))
    full = "[[crf.kernels]]\nkind = 'spatial'\nweight = 1\nsigma = 3\nnormalization = 'symmetric'\n"
    assert differences(bare, read_config(write(full))) == []


def test_a_different_kernel_is_named_by_its_index(write):
    listed = TWO_KERNELS.replace("[[kernels]]", "[[crf.kernels]]")
    one, two = read_config(write(listed)), read_config(write(listed), ["crf.kernels.1.weight=8"])
    assert differences(one, two) == ["crf.kernels.1.weight: 3.0, 8.0"]


@pytest.mark.parametrize("text", ["[data\n", "a = = 1\n"])
def test_invalid_toml_is_rejected(write, text):
    with pytest.raises(InputError, match="is not TOML"):
        read_config(write(text))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"there is no file .*none\.toml, expected a file of settings"):
        read_config(tmp_path / "none.toml")


def test_resolved_settings_read_back_the_same(write):
    settings = [
        'data.root=C:\\a "b"',
        "training.start_from=/x/é",
        "optimizer.lr_crf=1e-7",
        "crf.freeze=['*.log_sigma']",
    ]
    kernels = TWO_KERNELS.replace("[[kernels]]", "[[crf.kernels]]") + "compatibility = 'matrix'\n"
    config = read_config(write(kernels), [*settings, "network.options.fc6=3x3"])
    assert read_config(write(to_toml(config))) == config
    assert config_from(config.model_dump(mode="json")) == config


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
@pytest.mark.parametrize("stage", [1, 2])
def test_every_shipped_config_is_valid(path, stage):
    assert read_config(path, [f"training.stage={stage}"]).training.stage == stage


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_shipped_config_has_only_non_default_values(path):
    stage1 = path.read_text(encoding="utf-8").partition("[stage2")[0]
    lines = [line.partition("#")[0] for line in stage1.splitlines()]
    keys, section = 0, ""
    for line in lines:
        section = line if line.startswith("[") else section
        keys += "=" in line and section.strip() != "[[crf.kernels]]"  # kernels are given as a complete list
    config = read_config(path)
    implied = ["crf.kernels."]
    if config.data.network_size is not None:  # without crops
        implied += ["data.crop", "data.scales"]
    changed = [line for line in differences(Config(), config) if not line.startswith(tuple(implied))]
    assert keys and len(changed) == keys


def test_the_config_of_the_paper_matches_the_paper():
    (path,) = (path for path in CONFIGS if path.stem == "voc12-vgg16")
    for stage in (1, 2):
        config = read_config(path, [f"training.stage={stage}"])
        assert config.network.name == "deeplab_vgg16" and config.data.network_size == (306, 306)
        assert config.data.crop is None and config.data.scales is None and config.data.longest_side == 0
        assert (config.optimizer.name, config.optimizer.momentum, config.optimizer.weight_decay) == ("sgd", 0.9, 0.0005)
        assert (config.optimizer.lr_top, config.optimizer.lr_rest) == (0.01, 0.001)
        assert (config.training.batch, config.crf.iterations, config.crf.freeze) == (20, 5, ())
        assert [(kernel["kind"], kernel.get("compatibility")) for kernel in config.crf.kernels] == [
            ("spatial", None),
            ("bilateral", None),
        ]
