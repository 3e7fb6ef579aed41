"""Settings: defaults, files that hold what differs, the command line, and all errors at once."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pydantic", reason="training needs it")


from densefield.errors import InputError
from densefield.training.config import Config
from densefield.training.settings import config_from, differences, read_config, to_toml

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


def test_the_command_line_goes_before_the_file(write):
    config = read_config(write("[training]\nsteps = 5\nbatch = 8\n"), ["training.steps=7", "data.root=/some where"])
    assert (config.training.steps, config.training.batch, config.data.root) == (7, 8, "/some where")


def test_values_on_the_command_line_are_toml_where_they_can_be(write):
    settings = ["crf.bilateral.sigma_xy=[20, 30]", "data.mirror=false", 'network.options.fc6="4x4"', "data.train=val"]
    config = read_config(write(""), settings)
    assert config.crf.bilateral.sigma_xy == (20.0, 30.0) and config.data.mirror is False
    assert config.network.options == {"fc6": "4x4"} and config.data.train == "val"


def test_stage_2_has_its_own_settings_and_shares_the_others(write):
    path = write("[training]\nsteps = 50\nbatch = 6\n[stage2.training]\nsteps = 20\n")
    one, two = read_config(path), read_config(path, ["training.stage=2"])
    assert (one.training.steps, one.training.batch, one.uses_crf) == (50, 6, False)
    assert (two.training.steps, two.training.batch, two.uses_crf) == (20, 6, True)


def test_the_command_line_goes_before_the_settings_of_stage_2(write):
    path = write("[stage2.training]\nsteps = 20\n")
    assert read_config(path, ["training.stage=2", "training.steps=9"]).training.steps == 9


def test_a_crf_that_is_switched_off_takes_no_part_in_stage_2(write):
    assert not read_config(write(""), ["training.stage=2", "crf.enabled=false"]).uses_crf


def test_all_that_is_wrong_is_listed_at_once(write):
    path = write("[optimizer]\nlr_topp = 0.1\nlr_rest = -1\n[stage2.training]\nsteps = 0\n[extra]\na = 1\n")
    with pytest.raises(InputError) as caught:
        read_config(path, ["data.kind=coco", "training.batch=true", "nonsense", "crf.spatial.sigma=[1, -2]"])
    lines = str(caught.value).splitlines()
    for part in (
        "optimizer.lr_topp: there is no such key; is lr_top meant?",
        "optimizer.lr_rest: is -1; should be greater than 0",
        "training.steps: is 0; should be greater than or equal to 1",
        "extra: there is no such key, only data, network, crf, optimizer, training",
        "data.kind: is \"coco\"; should be 'voc2012', 'folder' or 'scenes'",
        "training.batch: is true; should be a valid integer",
        "'nonsense': expected section.key=value",
        "crf.spatial.sigma.1: is -2; should be greater than 0",
    ):
        assert any(part in line for line in lines), part


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("training.accumulate=3", "batch is 20, expected a multiple of accumulate, which is 3"),
        ("data.scales=[2.0, 1.0]", "expected the smaller first"),
        ("data.val=held_out", "val is 'held_out', but no images are"),
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
            r"freeze has '\*.log_sigmaa', which fits none of spatial.log_sigma",
        ),
        ("crf.iterations=2000000", "less than or equal to 1048576"),
        ("training.steps=2.5", "integer"),
        ("training.stage=3", "should be 1 or 2"),
        ("training.precision=16-mixed", "should be '32-true' or 'bf16-mixed'"),
    ],
)
def test_impossible_values_are_refused(write, setting, says):
    with pytest.raises(InputError, match=says):
        read_config(write(""), [setting])


def test_a_crf_without_kernels_is_refused(write):
    with pytest.raises(InputError, match="both kernels have weight 0"):
        read_config(write("[crf.spatial]\nweight = 0\n[crf.bilateral]\nweight = 0.0\n"))


@pytest.mark.parametrize("text", ["[data\n", "a = = 1\n"])
def test_what_is_no_toml_is_refused(write, text):
    with pytest.raises(InputError, match="is not TOML"):
        read_config(write(text))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.toml cannot be read"):
        read_config(tmp_path / "none.toml")


def test_resolved_settings_read_back_the_same(write):
    settings = [
        'data.root=C:\\a "b"',
        "training.start_from=/x/é",
        "optimizer.lr_crf=1e-7",
        "crf.freeze=['*.log_sigma']",
    ]
    config = read_config(write(""), [*settings, "network.options.fc6=3x3"])
    assert read_config(write(to_toml(config))) == config
    assert config_from(config.model_dump(mode="json")) == config


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
@pytest.mark.parametrize("stage", [1, 2])
def test_every_config_that_is_shipped_is_sound(path, stage):
    assert read_config(path, [f"training.stage={stage}"]).training.stage == stage


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_config_that_is_shipped_holds_only_what_differs_from_the_defaults(path):
    stage1 = path.read_text(encoding="utf-8").partition("[stage2")[0]
    keys = sum("=" in line.partition("#")[0] for line in stage1.splitlines())
    assert keys and len(differences(Config(), read_config(path))) == keys


def test_the_papers_settings_are_those_of_the_paper():
    (path,) = (path for path in CONFIGS if path.stem == "voc12-vgg16")
    for stage in (1, 2):
        config = read_config(path, [f"training.stage={stage}"])
        assert config.network.name == "deeplab_vgg16" and config.data.crop == (306, 306)
        assert (config.optimizer.name, config.optimizer.momentum, config.optimizer.weight_decay) == ("sgd", 0.9, 0.0005)
        assert (config.optimizer.lr_top, config.optimizer.lr_rest) == (0.01, 0.001)
        assert (config.training.batch, config.crf.iterations, config.crf.compatibility) == (20, 5, "potts")
        assert config.crf.spatial.weight and config.crf.bilateral.weight and not config.crf.freeze
