# SPDX-License-Identifier: Apache-2.0
"""Every format gives the same dataset; ids come back as they went in; columns are found."""

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from legcf.core.errors import UserError
from legcf.data.catalogue.registry import REGISTRY
from legcf.data.options import DataOptions
from legcf.data.source import load_data
from tests.data.files import ROWS, WRITERS, compressed, write_lightgcn, write_table

TIMED = DataOptions(protocol="leave-last-out", min_rating=2.0, k_core=2)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    path = write_table(tmp_path_factory.mktemp("expected"), "ratings.csv")
    return {"plain": load_data(path).content_hash, "timed": load_data(path, TIMED).content_hash}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_content_hash(name: str, tmp_path: Path, expected: dict[str, str]) -> None:
    path = write_table(tmp_path, name)
    assert load_data(path).content_hash == expected["plain"]
    assert load_data(path, TIMED).content_hash == expected["timed"]


@pytest.mark.parametrize("name", [name for name in WRITERS if name != "ratings.parquet"])
def test_compressed_text_is_read_like_plain_text(name: str, tmp_path: Path, expected: dict[str, str]) -> None:
    assert load_data(compressed(write_table(tmp_path, name))).content_hash == expected["plain"]


def test_zstd(tmp_path: Path, expected: dict[str, str]) -> None:
    path = tmp_path / "ratings.csv.zst"
    pl.read_csv(write_table(tmp_path, "ratings.csv"), infer_schema=False).lazy().sink_csv(path, compression="zstd")
    assert load_data(path).content_hash == expected["plain"]


def test_order_of_rows_and_number_of_files_do_not_matter(tmp_path: Path, expected: dict[str, str]) -> None:
    (tmp_path / "parts").mkdir()
    for number, name in enumerate(("ratings.csv", "ratings.tsv", "ratings.parquet")):
        write_table(tmp_path / "parts", name, ROWS[::-1][number::3])
    assert load_data(str(tmp_path / "parts" / "ratings.*")).content_hash == expected["plain"]
    assert load_data(sorted((tmp_path / "parts").iterdir())).content_hash == expected["plain"]


def test_frames_of_polars_and_pandas(tmp_path: Path, expected: dict[str, str]) -> None:
    frame = pl.read_parquet(write_table(tmp_path, "ratings.parquet"))
    assert load_data(frame).content_hash == expected["plain"]
    columns = {name: frame[name].to_numpy() for name in frame.columns}
    assert load_data(pd.DataFrame(columns)).content_hash == expected["plain"]


def test_pandas_text_ids() -> None:
    frame = pd.DataFrame({"user": ["a", "b", "a"], "item": ["x", "x", "y"]})
    dataset = load_data(frame)
    assert dataset.users.external([0, 1]) == ["a", "b"]
    assert dataset.items.external([0, 1]) == ["x", "y"]


@pytest.mark.parametrize(
    ("ids", "is_text"),
    [
        (["0", "7", "18446744073709551615"], False),
        (["-5", "9223372036854775807"], False),
        (["007", "7"], True),
        (["18446744073709551616", "1"], True),
        (["-1", "18446744073709551615"], True),
        (["+1", "1"], True),
        (["ä", "𝔘", "\u202e", "a b", '"', "nan"], True),
    ],
)
def test_ids_come_back_exactly(ids: list[str], is_text: bool, tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    pl.DataFrame({"user": ids, "item": ids[::-1]}).write_csv(path)
    dataset = load_data(path)
    assert dataset.users.is_text == is_text
    assert sorted(map(str, dataset.users.values.tolist())) == sorted(ids)
    assert sorted(map(str, dataset.items.values.tolist())) == sorted(ids)
    assert [str(value) for value in dataset.users.external(np.arange(len(ids)))] == [
        str(value) for value in dataset.users.values.tolist()
    ]


def test_columns_are_found_by_synonym_or_given(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("When,Customer ID,ASIN,note\n1,u1,i1,x\n2,u1,i2,y\n3,u2,i1,z\n")
    found = load_data(path)
    assert found.users.external([0, 1]) == ["u1", "u2"]
    given = load_data(path, DataOptions(user_col="note", item_col="When"))
    assert given.users.external([0]) == ["x"]
    assert given.items.external([0]) == [1]
    with pytest.raises(UserError, match="no column 'other'"):
        load_data(path, DataOptions(user_col="other"))


def test_min_rating_filters_and_duplicates_merge(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("user,item,rating\n1,1,5\n1,2,3.5\n1,1,4\n2,1,1\n")
    dataset = load_data(path, DataOptions(min_rating=3.5))
    assert (dataset.num_users, dataset.num_items) == (1, 2)
    assert sum(part.num_pairs for part in (dataset.train, dataset.validation, dataset.test)) == 2
    with pytest.raises(UserError, match="more than once"):
        load_data(path, DataOptions(duplicates="error"))


def test_k_core_leaves_only_busy_users_and_items(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    # Item 9 falls first, then user 3, then item 8.
    pairs = [(user, item) for user in (1, 2) for item in (1, 2, 3)] + [(3, 9), (3, 8), (1, 8)]
    path.write_text("user,item\n" + "".join(f"{user},{item}\n" for user, item in pairs))
    dataset = load_data(path, DataOptions(k_core=2))
    assert dataset.users.values.tolist() == [1, 2]
    assert dataset.items.values.tolist() == [1, 2, 3]
    with pytest.raises(UserError, match="k_core=5"):
        load_data(path, DataOptions(k_core=5))


def test_titles_from_a_second_file_and_from_the_table(tmp_path: Path) -> None:
    path = write_table(tmp_path, "ratings.dat")
    titles = tmp_path / "movies.dat"
    titles.write_bytes("0::Les Misérables: one::Drama\n1::Zwei::War\n".encode("latin-1"))
    dataset = load_data(path, DataOptions(titles=str(titles)))
    assert dataset.titles is not None
    assert dataset.titles[:3] == ["Les Misérables: one", "Zwei", "2"]
    same = tmp_path / "pairs.csv"
    same.write_text("user,item,title\n1,b,Bee\n1,a,Ay\n2,b,Bee\n")
    assert load_data(same).titles == ["Ay", "Bee"]


def test_lightgcn_folder(tmp_path: Path) -> None:
    folder = write_lightgcn(tmp_path / "graph", "5 10 30 20\n\n7\t10  99\r\n", "7 20 30\n5\n")
    dataset = load_data(folder, DataOptions(protocol="lightgcn"))
    assert dataset.users.values.tolist() == [5, 7]
    assert dataset.items.values.tolist() == [10, 20, 30, 99]
    assert dataset.train.of(0).tolist() == [0, 1, 2]
    assert dataset.test.of(1).tolist() == [1, 2]
    assert dataset.validation.num_pairs == 0
    packed = tmp_path / "packed"
    packed.mkdir()
    for part in ("train", "test"):
        compressed(folder / f"{part}.txt").rename(packed / f"{part}.txt.gz")
    assert load_data(packed, DataOptions(protocol="lightgcn")).content_hash == dataset.content_hash


def test_lightgcn_folder_without_test_is_split_by_ratio(tmp_path: Path) -> None:
    folder = write_lightgcn(tmp_path / "graph", "1 1 2 3 4 5 6 7 8 9 10\n", None)
    dataset = load_data(folder)
    assert dataset.protocol == "ratio"
    assert (dataset.train.num_pairs, dataset.validation.num_pairs, dataset.test.num_pairs) == (7, 1, 2)


def test_cold_users_and_items_can_be_kept_or_dropped(tmp_path: Path) -> None:
    folder = write_lightgcn(tmp_path / "graph", "1 10 11\n2 10\n", "1 12\n2 11\n3 10\n")
    kept = load_data(folder, DataOptions(protocol="lightgcn", cold="keep"))
    assert (kept.num_users, kept.num_items, kept.test.num_pairs) == (3, 3, 3)
    dropped = load_data(folder, DataOptions(protocol="lightgcn", cold="drop"))
    assert (dropped.num_users, dropped.num_items, dropped.test.num_pairs) == (2, 2, 1)


def test_published_data_has_its_published_sizes(shared_data: Path) -> None:
    lastfm = load_data(shared_data / "lastfm")
    assert (lastfm.num_users, lastfm.num_items) == (1_880, 4_489)
    assert lastfm.name == "lastfm"
    gowalla = load_data(shared_data / "gowalla", DataOptions(protocol="lightgcn"))
    assert (gowalla.num_users, gowalla.num_items) == (29_858, 40_981)
    assert (gowalla.train.num_pairs, gowalla.test.num_pairs) == (810_128, 217_242)
    assert gowalla.content_hash == REGISTRY["gowalla"].pairs_hash


def test_movielens_small_comes_with_titles() -> None:
    dataset = load_data("movielens-small")
    assert (dataset.num_users, dataset.num_items) == (671, 9_066)
    assert dataset.titles is not None
    assert dataset.titles[dataset.items.position(1)] == "Toy Story"


def test_data_does_not_need_torch() -> None:
    import subprocess
    import sys

    code = "import sys, legcf.data.source; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


HEADERLESS = "3,x,5\n4,x,3\n4,y,1\n"


def test_a_table_without_header_is_refused_and_then_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text(HEADERLESS)
    for options in (DataOptions(), DataOptions(user_col="3", item_col="x"), DataOptions(user_col="3", item_col="5")):
        with pytest.raises(
            UserError, match=r"seems to have no header, for its first line is '3', 'x', '5'.*header=False"
        ):
            load_data(path, options)
    dataset = load_data(path, DataOptions(header=False))
    assert dataset.users.values.tolist() == [3, 4]
    assert dataset.items.values.tolist() == ["x", "y"]
    assert dataset.provenance["kept"]["rows"] == 3
    swapped = load_data(path, DataOptions(header=False, user_col="2", item_col="1", rating_col="3", min_rating=3))
    assert (swapped.users.values.tolist(), swapped.items.values.tolist()) == (["x"], [3, 4])
    assert load_data(path, DataOptions(header=True, user_col="3", item_col="x")).provenance["kept"]["rows"] == 2


def test_no_advice_about_text_ids_without_header_loses_the_first_row(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("ann,apple\nbob,pear\nbob,apple\n")
    with pytest.raises(UserError, match="`header=False` if the first line is a row like the others"):
        load_data(path)
    with pytest.raises(UserError, match=r"item id that is called like its column.*header=False"):
        load_data(path, DataOptions(user_col="ann", item_col="apple"))
    assert load_data(path, DataOptions(header=False)).users.values.tolist() == ["ann", "bob"]
    assert load_data(path, DataOptions(user_col="ann", item_col="apple", header=True)).users.values.tolist() == ["bob"]


def test_numbers_among_the_names_of_columns_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("user,item,2020\n1,2,3\n")
    assert load_data(path).users.values.tolist() == [1]
    path.write_text("kunde,artikel,2020\n1,2,3\n")
    assert load_data(path, DataOptions(user_col="kunde", item_col="artikel")).users.values.tolist() == [1]


def test_a_repeated_header_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("user,item\na,b\nuser,item\nc,d\n")
    with pytest.raises(UserError, match=r"pairs\.csv, line 3 repeats the header"):
        load_data(path)


def test_titles_without_header_lose_no_row(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("user,item\n1,7\n1,8\n")
    titles = tmp_path / "titles.csv"
    titles.write_text("7,Seven\n8,Eight\n")
    for options in (DataOptions(titles=str(titles)), DataOptions(titles=str(titles), title_col="Seven")):
        with pytest.raises(UserError, match="put one above it, such as `item,title`"):
            load_data(tmp_path / "pairs.csv", options)
    titles.write_text("item,title\n7,Seven\n8,Eight\n")
    assert load_data(tmp_path / "pairs.csv", DataOptions(titles=str(titles))).titles == ["Seven", "Eight"]


def test_long_delimiters_know_headers_too(tmp_path: Path, expected: dict[str, str]) -> None:
    text = write_table(tmp_path, "ratings.csv").read_text().replace(",", "||")
    (tmp_path / "long.csv").write_text(text)
    assert load_data(tmp_path / "long.csv", DataOptions(delimiter="||")).content_hash == expected["plain"]
    (tmp_path / "bare.csv").write_text(text.split("\n", 1)[1])
    bare = DataOptions(delimiter="||", header=False)
    assert load_data(tmp_path / "bare.csv", bare).content_hash == expected["plain"]


def test_the_blame_falls_on_the_right_one_of_several_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user,item,rating\n1,2,3\n")
    (tmp_path / "b.csv").write_text("uid,iid,stars\n1,2,3\n1,3,good\n")
    with pytest.raises(UserError, match=r"b\.csv, line 3 has 'good' where a rating should be \(column 'stars'\)"):
        load_data([tmp_path / "a.csv", tmp_path / "b.csv"], DataOptions(min_rating=1))
