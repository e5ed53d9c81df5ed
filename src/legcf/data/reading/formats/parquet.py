# SPDX-License-Identifier: Apache-2.0
"""Read Parquet: columns have types, and ids keep theirs."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from legcf.core.errors import UserError
from legcf.data.reading.formats.base import Format, Source

_ROWS_PER_BYTE, _FREE_ROWS = 64, 1 << 20  # rows of a user with sorted items take a byte or more
_MEMORY_PER_BYTE, _FREE_MEMORY = 64, 4 << 30  # address space of the trial, most of it never touched
_MAGIC = b"PAR1"
_TOO_MANY_ROWS = 3
_TRIAL = f"""
import sys
path, rows, memory = sys.argv[1], *map(int, sys.argv[2:])
import polars
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory, resource.getrlimit(resource.RLIMIT_AS)[1]))
except (ImportError, OSError, ValueError):
    pass
frame = polars.scan_parquet(path, glob=False)
if frame.select(polars.len()).collect().item() > rows:
    sys.exit({_TOO_MANY_ROWS})
for _ in frame.collect_batches():
    pass
"""


@dataclass(frozen=True)
class Parquet(Format):
    is_text: bool = False
    is_typed: bool = True

    def scan(self, source: Source, names: Sequence[str]) -> pl.LazyFrame:
        assert isinstance(source, Path)
        check_parquet(source)
        return pl.scan_parquet(source, glob=False)


def check_parquet(path: Path) -> None:
    """Decode a file in another process first: damaged bytes can make the decoder end the process that it runs in."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        first = file.read(4)
        file.seek(max(size - 4, 0))
        if first + file.read(4) != 2 * _MAGIC:
            raise UserError(
                f"{path} cannot be read: it does not begin and end as Parquet does, so it is cut off or another format."
            )
    most_rows = _FREE_ROWS + _ROWS_PER_BYTE * size
    try:
        tried = subprocess.run(
            [sys.executable, "-c", _TRIAL, str(path), str(most_rows), str(_FREE_MEMORY + _MEMORY_PER_BYTE * size)],
            capture_output=True,
            check=False,
        )
    except OSError:  # no process can be started here
        return
    if tried.returncode == _TOO_MANY_ROWS:
        raise UserError(f"{path} claims more than {most_rows:,} rows in {size:,} bytes, which no table of pairs has.")
    if tried.returncode:
        raise UserError(f"{path} is damaged: its values cannot be read to the end.")


PARQUET = Parquet("Parquet")
