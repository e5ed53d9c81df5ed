# SPDX-License-Identifier: Apache-2.0
"""The contract of the formats that come with legcf."""

from collections.abc import Sequence
from pathlib import Path

from legcf.testing.formats import FormatContract
from tests.data.files import WRITERS

Pairs = Sequence[tuple[str, str]]


class _Written(FormatContract):
    """With the writer that the other tests of data use."""

    writer: str

    def write(self, path: Path, pairs: Pairs) -> None:
        WRITERS[self.writer](path, [(user, item, "5.0", "1000000000") for user, item in pairs])


class TestCsv(_Written):
    suffix, writer = ".csv", "ratings.csv"


class TestTsv(_Written):
    suffix, writer = ".tsv", "ratings.tsv"


class TestRecBole(_Written):
    suffix, writer = ".inter", "ratings.inter"


class TestMovieLens(_Written):
    suffix, writer = ".dat", "ratings.dat"


class TestML100K(_Written):
    suffix, writer = ".data", "u.data"
