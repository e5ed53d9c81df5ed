# SPDX-License-Identifier: Apache-2.0
"""Check what every table format promises (`data/reading/formats/base.py`): it gives the pairs that a CSV file gives."""

import gzip
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from polars.testing import assert_frame_equal

from legcf.data.options import DataOptions
from legcf.data.reading.formats import FORMATS, PAIR_NAMES
from legcf.data.source import load_data

PAIRS = [
    (str(1000 + user), f"item {item}") for user in range(12) for item in range(30) if (user * 7 + item * 3) % 5 < 3
]


class FormatContract(ABC):
    """Inherit this, set `suffix` to that of the format's files, and write one in `write`."""

    suffix: ClassVar[str]

    @abstractmethod
    def write(self, path: Path, pairs: Sequence[tuple[str, str]]) -> None:
        """Write a file of user and item ids."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / f"pairs{self.suffix}"
        self.write(path, PAIRS)
        return path

    def test_gives_the_dataset_that_csv_gives(self, path: Path) -> None:
        same = path.with_name("same.csv")
        same.write_text("user,item\n" + "".join(f"{user},{item}\n" for user, item in PAIRS))
        assert load_data(path).content_hash == load_data(same).content_hash

    def test_text_may_be_bytes_or_compressed(self, path: Path) -> None:
        form = FORMATS[self.suffix].suited(path, DataOptions())
        if not form.is_text:
            pytest.skip(f"{self.suffix} is not a text format.")
        from_bytes, from_path = (form.scan(source, PAIR_NAMES).collect() for source in (path.read_bytes(), path))
        assert_frame_equal(from_bytes, from_path, check_row_order=True)
        packed = path.with_name(path.name + ".gz")
        packed.write_bytes(gzip.compress(path.read_bytes()))
        assert load_data(packed).content_hash == load_data(path).content_hash

    def test_numbered_rows_are_those_of_the_file(self, path: Path) -> None:
        form = FORMATS[self.suffix].suited(path, DataOptions())
        numbered = list(form.rows(path, PAIR_NAMES))
        if not numbered:
            pytest.skip(f"{self.suffix} does not number its rows.")
        assert len(numbered) == len(PAIRS)
        assert [number for number, _ in numbered] == sorted({number for number, _ in numbered})
        assert all(set(pair) <= set(row.values()) for pair, (_, row) in zip(PAIRS, numbered, strict=True))
