# SPDX-License-Identifier: Apache-2.0
"""Synthetic graphs: the communities and sizes that were asked for, the same for the same seed."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.planted_graph import planted
from legcf.core.errors import UserError
from legcf.data.catalogue.synthetic import PRESETS, Planted, write_csv, write_folder
from legcf.data.options import DataOptions
from legcf.data.source import load_data


def test_pairs_stay_in_their_community_but_for_noise() -> None:
    dataset = planted(300, 200, 6000, 5, np.random.default_rng(0), noise=0.1)
    train = dataset.train
    inside = np.mean(train.users() % 5 == train.items % 5)
    assert 0.85 < inside < 0.97
    pure = planted(300, 200, 3000, 5, np.random.default_rng(0), noise=0.0).train
    assert np.all(pure.users() % 5 == pure.items % 5)


def test_degrees_fall_off_and_nobody_is_alone() -> None:
    shape = Planted(1000, 800, 20_000, 8)
    assert shape.degrees.sum() == 20_000
    assert np.all(np.diff(shape.degrees) <= 0)
    assert shape.degrees[0] > 5 * np.median(shape.degrees) / 2
    dataset = planted(1000, 800, 20_000, 8, np.random.default_rng(1))
    parts = (dataset.train, dataset.validation, dataset.test)
    assert abs(sum(part.num_pairs for part in parts) - 20_000) < 50
    assert np.all(sum(part.user_degrees for part in parts) > 0)
    assert np.all(sum(part.item_degrees for part in parts) > 0)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 5), st.integers(0, 400), st.floats(0, 1))
def test_any_size_works_or_is_refused(users: int, items: int, communities: int, pairs: int, noise: float) -> None:
    possible = communities <= min(users, items) and max(users, items) <= pairs <= users * items // 2
    if not possible:
        with pytest.raises(UserError):
            Planted(users, items, pairs, communities, noise)
        return
    dataset = planted(users, items, pairs, communities, np.random.default_rng(0), noise)
    assert (dataset.num_users, dataset.num_items) == (users, items)


def test_the_same_seed_gives_the_same_files(tmp_path: Path) -> None:
    shape = Planted(60, 50, 700, 4)
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert write_folder(shape, seed, tmp_path / name, quiet=True) >= 700
        write_csv(shape, seed, tmp_path / f"{name}.csv", quiet=True)
    assert (tmp_path / "a" / "train.txt").read_bytes() == (tmp_path / "b" / "train.txt").read_bytes()
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert (tmp_path / "a.csv").read_bytes() != (tmp_path / "c.csv").read_bytes()


def test_folder_and_table_hold_the_same_pairs(tmp_path: Path) -> None:
    shape = Planted(60, 50, 700, 4)
    write_folder(shape, 3, tmp_path / "folder", quiet=True)
    write_csv(shape, 3, tmp_path / "table.csv", quiet=True)
    options = DataOptions(protocol="ratio")
    assert (
        load_data(tmp_path / "folder", options).content_hash == load_data(tmp_path / "table.csv", options).content_hash
    )
    # No test item is unseen in train, so that the folder loads with the default options.
    assert load_data(tmp_path / "folder").protocol == "legcf"


def test_blocks_do_not_change_what_is_covered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from legcf.data.catalogue import synthetic

    monkeypatch.setattr(synthetic, "_PAIRS_A_BLOCK", 50)
    write_folder(Planted(60, 50, 700, 4), 3, tmp_path / "folder", quiet=True)
    dataset = load_data(tmp_path / "folder")
    assert (dataset.num_users, dataset.num_items) == (60, 50)


def test_presets_have_the_sizes_of_the_paper() -> None:
    assert (PRESETS["yelp2020"].num_users, PRESETS["yelp2020"].num_items) == (71_135, 45_063)
    assert PRESETS["amazon-book"].num_pairs == 2_984_108
    assert PRESETS["1e8"].num_pairs == 100_000_000
