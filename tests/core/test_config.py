# SPDX-License-Identifier: Apache-2.0
"""Configuration: resolved completely, checked completely, with a hint for what was mistyped."""

import json
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from legcf.core import config as configuration
from legcf.core.config import RENAMED_KEYS, merged, migrated, parse_assignments
from legcf.core.errors import UserError
from legcf.training.registry import COMMON_SECTIONS, METHODS, config_from_json, resolve

NESTED = st.recursive(
    st.integers(), lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3), max_leaves=8
)
SETTINGS = st.dictionaries(st.sampled_from("abc"), NESTED, max_size=3)


@given(SETTINGS, SETTINGS, SETTINGS)
def test_merging_is_associative_and_leaves_its_input_alone(first: dict, second: dict, third: dict) -> None:
    copies = json.dumps([first, second, third])
    assert merged(merged(first, second), third) == merged(first, merged(second, third))
    assert merged(first) == merged({}, first) == first
    assert json.dumps([first, second, third]) == copies


def test_assignments_as_typed() -> None:
    typed = [
        "training.epochs=5",
        "training.learning_rate=1e-2",
        "method.tanh=true",
        "training.threads=null",
        "a.b=text",
    ]
    assert parse_assignments(typed) == {
        "training": {"epochs": 5, "learning_rate": 0.01, "threads": None},
        "method": {"tanh": True},
        "a": {"b": "text"},
    }
    with pytest.raises(UserError, match="key=value"):
        parse_assignments(["training.epochs"])


def test_later_settings_win() -> None:
    config = resolve(preset="paper", overrides={"training": {"batch_size": 99}})
    assert config.training.batch_size == 99
    assert config.training.monitor == "ndcg@5"


@pytest.mark.parametrize("preset", ["paper", "official", "default"])
@pytest.mark.parametrize("method", ["legcf", "full"])
def test_comes_back_from_its_json(method: str, preset: str) -> None:
    config = resolve(method, preset=preset, seed=4, data={"source": "x"})
    again = config_from_json(json.loads(json.dumps(config.to_json())))
    assert again == config
    assert resolve(method, preset=preset, seed=5, data={"source": "x"}) != config


def test_frozen() -> None:
    with pytest.raises(ValidationError):
        resolve().training.epochs = 3  # type: ignore[misc]


@pytest.mark.parametrize("content", [{}, {"method": 1}, {"method": {"name": "legcf"}}, {"method": {"name": ["x"]}}])
def test_json_that_is_no_configuration(content: dict) -> None:
    with pytest.raises(UserError):
        config_from_json(content)


def test_names_cannot_be_changed_by_options() -> None:
    with pytest.raises(UserError, match="--method"):
        resolve(overrides={"method": {"name": "full"}})


def test_options_that_do_not_go_together_are_one_clean_sentence() -> None:
    with pytest.raises(UserError) as error:
        resolve(method="autoemb", overrides={"method": {"widths": [2, 300]}})
    assert str(error.value).startswith(
        "What is set under `method` is not possible: the candidate width 300 is above dim"
    )
    assert "{" not in str(error.value)


@pytest.fixture
def nothing_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "_reported_keys", set())


@pytest.mark.parametrize("former", sorted(RENAMED_KEYS))
@pytest.mark.usefixtures("nothing_reported")
def test_former_keys_mean_what_they_meant_and_are_reported_once(former: str) -> None:
    owner, old = former.split(".")
    method = owner if owner in METHODS else "legcf"
    section = "method" if owner in METHODS else owner
    new_section, new = RENAMED_KEYS[former].split(".")
    assert old not in (METHODS[method].layer.Config if section == "method" else COMMON_SECTIONS[section]).model_fields
    usual = resolve(method).to_json()
    value = usual[new_section][new]
    with pytest.warns(FutureWarning, match=f"`{section}.{old}` is called `{new_section}.{new}` now") as reported:
        again = [resolve(method, overrides={section: {old: value}}) for _ in range(2)]
    assert len(reported) == 1
    assert [one.to_json() for one in again] == [usual] * 2
    saved = resolve(method).to_json()
    saved[section][old] = saved[new_section].pop(new)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert migrated(saved) == usual, "saved runs load in silence"
        assert config_from_json(saved) == resolve(method)


@pytest.mark.usefixtures("nothing_reported")
def test_a_key_under_both_names_is_refused() -> None:
    with pytest.raises(UserError, match=r"`training\.beta2` is set twice"), pytest.warns(FutureWarning):
        resolve(overrides={"training": {"adam_memory": 0.9, "beta2": 0.99}})
