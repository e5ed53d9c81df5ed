# SPDX-License-Identifier: Apache-2.0
"""Write a split as LightGCN text, so that others can use the very same train, validation and test pairs."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from legcf.core.errors import UserError
from legcf.core.files import folder_written_whole
from legcf.data.ids import IdMap
from legcf.data.interactions import Dataset
from legcf.data.preparing.kernels import write_numbers
from legcf.data.preparing.splits import PARTS

_ROWS_AT_ONCE = 100_000


def export_split(dataset: Dataset, folder: Path) -> None:
    """Write train.txt, validation.txt and test.txt.

    Ids that are whole numbers stay as they are. Others are numbered from 0, and user_list.txt and item_list.txt say
    which number is which id, as LightGCN's own data does.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists and is not empty: choose another place, nothing was written.")
    with folder_written_whole(folder) as temporary:
        users = _numbers(dataset.users, temporary / "user_list.txt")
        items = _numbers(dataset.items, temporary / "item_list.txt")
        for part in PARTS:
            pairs = getattr(dataset, part)
            with open(temporary / f"{part}.txt", "wb") as file:
                for start in range(0, len(users), _ROWS_AT_ONCE):
                    bounds = pairs.indptr[start : start + _ROWS_AT_ONCE + 1]
                    row_items = items[pairs.items[bounds[0] : bounds[-1]]]
                    text = write_numbers(bounds - bounds[0], users[start : start + len(bounds) - 1], row_items)
                    file.write(text.data)


def _numbers(ids: IdMap, list_path: Path) -> NDArray[np.int64]:
    values = ids.values
    if not ids.is_text and values.dtype == np.int64 and (len(values) == 0 or int(values[0]) >= 0):
        return values.astype(np.int64)
    lines = (f"{identifier} {number}" for number, identifier in enumerate(values.tolist()))
    list_path.write_text("org_id remap_id\n" + "\n".join(lines) + "\n", encoding="utf-8", errors="surrogatepass")
    return np.arange(len(values))
