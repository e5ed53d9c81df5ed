# SPDX-License-Identifier: Apache-2.0
"""What there is, by name, and how a configuration is made of it."""

import pytest

from legcf.core.config import BackboneConfig, MethodConfig, TrainingConfig
from legcf.core.errors import UserError
from legcf.embeddings.baselines.rowless import Rowless
from legcf.training.registry import BACKBONES, DEFAULT_BACKBONE, METHODS, config_from_json, require_width, resolve


@pytest.mark.parametrize("name", METHODS)
def test_a_method_answers_to_its_name_and_ends_with_a_stage_that_counts(name: str) -> None:
    layer = METHODS[name].layer
    assert layer.Config().name == name  # type: ignore[call-arg]
    assert issubclass(layer.Config, MethodConfig)
    if issubclass(layer, Rowless):
        with pytest.raises(UserError, match="has no vectors"):
            require_width(name)
    else:
        require_width(name)
        assert resolve(name, overrides={"method": {"dim": 8}}).to_json()["method"]["dim"] == 8
    for preset in layer.presets:
        config = resolve(name, preset=preset)
        stages = METHODS[name].recipe(config.method, config.training)
        assert stages[-1].eligible_as_best
        assert len({stage.name for stage in stages}) == len(stages)


@pytest.mark.parametrize("name", BACKBONES)
def test_a_backbone_answers_to_its_name(name: str) -> None:
    assert BACKBONES[name].Config().name == name  # type: ignore[call-arg]
    assert issubclass(BACKBONES[name].Config, BackboneConfig)
    assert resolve("full", backbone=name).backbone.name == name


def test_every_option_is_described() -> None:
    for config in (TrainingConfig, *(known.layer.Config for known in METHODS.values())):
        assert all(field.description for key, field in config.model_fields.items() if key != "name"), config


def test_overrides_stand_above_the_preset_and_the_preset_above_defaults() -> None:
    plain, preset = TrainingConfig(), resolve("legcf", preset="paper")
    assert preset.training.batch_size == 410 != plain.batch_size
    assert preset.training.epochs == plain.epochs
    own = resolve("legcf", preset="paper", overrides={"training": {"batch_size": 7}})
    assert (own.training.batch_size, own.training.monitor) == (7, preset.training.monitor)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"method": "nobody"}, "There is no method `nobody`: choose one of als, autoemb, "),
        ({"backbone": "nobody"}, "There is no backbone `nobody`"),
        ({"preset": "nobody"}, "There is no preset of method legcf `nobody`"),
        ({"backbone": "ngcf"}, "made for backbone history; with ngcf use --preset"),
        ({"overrides": {"trainig": {}}}, "Unknown configuration key `trainig`"),
        ({"overrides": {"method": {"width": 8}}}, "Unknown configuration key `method.width`"),
        ({"overrides": {"method": {"name": "full"}}}, "choose it with --method"),
        ({"overrides": {"training": {"epochs": -1}}}, "training.epochs = -1 is not possible"),
        ({"overrides": {"training": {"seconds": float("inf")}}}, "training.seconds = inf is not possible"),
        # what a model file cannot hold
        ({"overrides": {"backbone": {"user_power": 5}}}, "backbone.user_power = 5 is not possible"),
        ({"overrides": {"backbone": {"item_power": -1e300}}}, "backbone.item_power = -1e+300 is not possible"),
        ({"overrides": {"ranking": {"half_life_items": 1e-300}}}, "half_life_items = 1e-300 is not possible"),
        ({"overrides": {"ranking": {"repeat_weight": 1e300}}}, "ranking.repeat_weight = 1e+300 is not possible"),
        ({"overrides": {"method": {"update": "svd"}}}, "choose one of matching-pursuit, pinv, pinv-refit, or none"),
    ],
)
def test_what_cannot_be_is_a_sentence(arguments: dict, said: str) -> None:
    with pytest.raises(UserError) as error:
        resolve(**arguments)
    assert said in str(error.value)


def test_an_old_name_of_an_option_is_taken_for_the_new_one() -> None:
    with pytest.warns(FutureWarning, match="`method.d` is called `method.dim` now"):
        typed = resolve("legcf", overrides={"method": {"d": 8}})
    assert typed == resolve("legcf", overrides={"method": {"dim": 8}})
    saved = typed.to_json()
    saved["method"]["d"] = saved["method"].pop("dim")
    assert config_from_json(saved) == typed
    with pytest.raises(UserError, match="Unknown configuration key"):
        resolve("full", overrides={"method": {"d": 8}})


def test_the_default_backbone_is_one() -> None:
    assert DEFAULT_BACKBONE in BACKBONES
    assert resolve("full").backbone.name == DEFAULT_BACKBONE


@pytest.mark.parametrize("missing", ["preset", "seed", "method", "backbone", "training"])
def test_a_saved_configuration_without_a_part_is_a_sentence(missing: str) -> None:
    content = resolve("full").to_json()
    assert config_from_json(content).method == resolve("full").method
    del content[missing]
    with pytest.raises(UserError, match=f"not a configuration of legcf: '{missing}'"):
        config_from_json(content)
