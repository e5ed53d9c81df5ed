# SPDX-License-Identifier: Apache-2.0
"""What was kept of a source is told, whatever was left out; data with next to nothing in it has a fitting answer."""

from pathlib import Path

import pytest

from legcf.core.errors import UserError
from legcf.core.files import read_json, write_json
from legcf.data.options import DataOptions
from legcf.data.preparing.prepared import open_prepared
from legcf.data.source import load_data, load_training_data, prepare_source
from legcf.data.summary import summarise, what_was_kept
from tests.data.files import write_lightgcn

RATED = "user,item,rating,time\n" + "".join(
    f"{user},{item},{1 + (user + item) % 5},2024-01-{item + 1:02d}\n" for user in range(6) for item in range(8)
)


@pytest.fixture
def rated(tmp_path: Path) -> Path:
    path = tmp_path / "shop.csv"
    path.write_text(RATED + "0,0,1,2024-01-01\n")
    return path


def test_ratings_are_ignored_unless_asked_for(rated: Path) -> None:
    told = what_was_kept(load_data(rated))
    assert told.startswith("shop: 49 rows → 6 users, 8 items, 48 pairs; 1 duplicate merged; ratings ignored")
    assert "--min-rating" in told
    assert told.endswith("Protocol ratio: 30 train, 6 validation, 12 test.")


def test_what_was_left_out_is_counted(rated: Path) -> None:
    rated.write_text(rated.read_text() + "9,0,5,2024-01-01\n")
    dataset = load_data(rated, DataOptions(min_rating=2, k_core=2, protocol="leave-last-out"))
    kept = dataset.provenance["kept"]
    too_low = sum(int(line.split(",")[2]) < 2 for line in rated.read_text().splitlines()[1:])
    assert (kept["rows"], kept["rated_too_low"], kept["users_dropped"]) == (50, too_low, 1)
    assert not kept["ratings_ignored"]
    assert what_was_kept(dataset).startswith(
        f"shop: 50 rows → 6 users, 8 items, {49 - too_low} pairs; {too_low} rows rated below 2.0 left out; "
        "1 user dropped; times read as ISO 8601. Protocol leave-last-out"
    )


def test_a_prepared_folder_remembers(rated: Path, tmp_path: Path) -> None:
    prepared = prepare_source(rated, tmp_path / "ready", quiet=True)
    assert what_was_kept(prepared) == what_was_kept(load_data(tmp_path / "ready")) == what_was_kept(load_data(rated))
    assert summarise(prepared)["kept"]["duplicates_merged"] == 1


def test_a_folder_prepared_before_anything_was_counted(rated: Path, tmp_path: Path) -> None:
    prepare_source(rated, tmp_path / "ready", quiet=True)
    manifest = read_json(tmp_path / "ready" / "manifest.json")
    del manifest["provenance"]["kept"]
    write_json(tmp_path / "ready" / "manifest.json", manifest)
    opened = open_prepared(tmp_path / "ready")
    assert what_was_kept(opened).startswith("shop: 6 users, 8 items, 48 pairs. Protocol ratio")
    assert summarise(opened)["kept"] == {}


def test_lightgcn_folders_too(tmp_path: Path) -> None:
    folder = write_lightgcn(tmp_path / "graph", "1 10 11\n2 10\n", "1 12\n2 11\n")
    told = what_was_kept(load_data(folder, DataOptions(cold="drop")))
    assert (
        told
        == "graph: 5 rows → 2 users, 2 items, 4 pairs; 1 item dropped. Protocol legcf: 3 train, 1 validation, 0 test."
    )


@pytest.mark.parametrize("rows", [["a,x"], ["a,x", "b,x", "c,x"], ["a,x"] * 4])
def test_one_item_is_nothing_to_choose_from(rows: list[str], tmp_path: Path) -> None:
    (tmp_path / "few.csv").write_text("\n".join(["user,item", *rows]) + "\n")
    assert load_data(tmp_path / "few.csv").num_items == 1
    with pytest.raises(UserError, match=r"few has only one item, 'x'.*nothing to recommend; at least two items"):
        load_training_data(tmp_path / "few.csv")


@pytest.mark.parametrize(
    ("rows", "sizes"),
    [
        (["a,x", "b,y"], (2, 2, 2)),
        (["a,x", "a,y"], (1, 2, 2)),
        (["a,v", "a,w", "a,x", "a,y", "a,z"], (1, 5, 5)),
        (["a,x", "a,y", "b,x"] * 3, (2, 2, 3)),
    ],
)
@pytest.mark.parametrize("protocol", ["ratio", "leave-last-out", "temporal"])
def test_next_to_nothing_is_split_with_something_to_train_on(
    rows: list[str], sizes: tuple[int, int, int], protocol: str, tmp_path: Path
) -> None:
    lines = [f"{row},{time}" for time, row in enumerate(rows)]
    (tmp_path / "few.csv").write_text("\n".join(["user,item,time", *lines]) + "\n")
    dataset = load_training_data(tmp_path / "few.csv", DataOptions(protocol=protocol))
    kept = dataset.provenance["kept"]
    assert (kept["users"], kept["items"], kept["pairs"]) == sizes
    assert kept["duplicates_merged"] == len(rows) - sizes[2]
    assert dataset.train.num_pairs > 0
