# SPDX-License-Identifier: Apache-2.0
"""Sizes of LEGCF's codes that follow from a model file's room."""

from legcf.embeddings.legcf import Legcf, LegcfConfig
from legcf.training.registry import resolve


def _config(**given: object) -> LegcfConfig:
    config = resolve(overrides={"method": given}).method
    assert isinstance(config, LegcfConfig)
    return config


def test_more_codes_where_there_is_room() -> None:
    config = _config()
    assert Legcf.within(config, 1_600_000, 41_000) == config
    larger = Legcf.within(config, 4_000_000, 41_000)
    assert larger.t == 4
    assert 2000 < (larger.c or 0) < 3000
    assert Legcf.within(config, 10**8, 41_000).c == 4096


def test_what_was_set_stays() -> None:
    for given in ({"c": 500}, {"t": 2}, {"budget": 100_000}):
        config = _config(**given)
        assert Legcf.within(config, 4_000_000, 41_000) == config
