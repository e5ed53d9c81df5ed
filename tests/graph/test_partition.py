# SPDX-License-Identifier: Apache-2.0
"""Communities: balanced, seeded, remembered by content, and complete even where METIS is not."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from legcf.core.errors import UserError
from legcf.graph.adjacency import bipartite
from legcf.graph.partition import communities
from tests.helpers import COMMUNITIES, planted, random_interactions

pymetis = pytest.importorskip("pymetis", reason="it has no wheel for Windows")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEGCF_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def files(cache: Path) -> list[Path]:
    return sorted(cache.rglob("*.npy"))


def test_planted_communities_are_found() -> None:
    found = communities(bipartite(planted().train), COMMUNITIES, seed=1)
    numbers = np.arange(80) % COMMUNITIES
    for true in range(COMMUNITIES):
        members = np.concatenate([found[:80][numbers == true], found[80:][numbers == true]])
        assert len(np.unique(members)) == 1


def test_parts_are_balanced_and_none_is_empty() -> None:
    adjacency = bipartite(random_interactions(150, 150, 0.05, seed=2))
    sizes = np.bincount(communities(adjacency, 10, seed=0), minlength=10)
    assert sizes.min() > 0
    assert sizes.max() <= 2 * 300 / 10


def test_remembered_by_content_number_and_seed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adjacency = bipartite(planted().train)
    first = communities(adjacency, 5, seed=0)
    assert len(files(cache)) == 1
    with monkeypatch.context() as patch:
        patch.setattr(pymetis, "part_graph", lambda *_, **__: pytest.fail("computed again"))
        assert np.array_equal(communities(adjacency, 5, seed=0), first)
    communities(adjacency, 6, seed=0)
    communities(adjacency, 5, seed=1)
    communities(bipartite(planted(seed=1).train), 5, seed=0)
    assert len(files(cache)) == 4


def test_a_damaged_cache_is_computed_again(cache: Path) -> None:
    adjacency = bipartite(planted().train)
    first = communities(adjacency, 5, seed=0)
    for damage in (b"", b"not numpy", files(cache)[0].read_bytes()[:150]):
        files(cache)[0].write_bytes(damage)
        assert np.array_equal(communities(adjacency, 5, seed=0), first)


def test_a_cache_that_cannot_be_written_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("LEGCF_CACHE", str(tmp_path / "file"))
    assert len(communities(bipartite(planted().train), 5, seed=0)) == 160


def test_the_seed_decides() -> None:
    adjacency = bipartite(random_interactions(600, 600, 0.01, seed=4))
    draws = {communities(adjacency, 10, seed=seed).tobytes() for seed in range(4)}
    assert len(draws) > 1


def test_one_community() -> None:
    assert not communities(bipartite(planted().train), 1, seed=0).any()


@pytest.mark.parametrize("count", [10, 25])
def test_as_many_communities_as_nodes_warns(count: int) -> None:
    adjacency = bipartite(random_interactions(5, 5, 0.5, seed=0))
    with pytest.warns(UserWarning, match="every node becomes its own"):
        assert np.array_equal(communities(adjacency, count, seed=0), np.arange(10))


def test_nodes_without_edges_and_many_parts_leave_none_empty() -> None:
    adjacency = bipartite(random_interactions(40, 40, 0.02, seed=6))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = communities(adjacency, 60, seed=0)
    assert len(np.unique(found)) == 60
    assert found.dtype == np.int32


def test_windows_without_metis_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(ModuleNotFoundError):
        communities(bipartite(planted().train), COMMUNITIES, seed=1)
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(UserError, match="no wheel for Windows"):
        communities(bipartite(planted().train), COMMUNITIES, seed=1)
