# SPDX-License-Identifier: Apache-2.0
"""RecTools: EASE and PureSVD."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import Fit, main
from rectools import Columns
from rectools.dataset import Dataset
from rectools.models import EASEModel, PureSVDModel


class Model:
    def __init__(self, model: Any, arrays: list[str], split: dict[str, Any]) -> None:
        pairs = split["train"].tocoo()
        frame = pd.DataFrame({Columns.User: pairs.row, Columns.Item: pairs.col, Columns.Weight: 1.0})
        frame[Columns.Datetime] = pd.Timestamp("2020-01-01")
        self.data = Dataset.construct(frame)
        self.model, self.arrays = model.fit(self.data), arrays
        self.known = set(pairs.row.tolist())

    def recommend(self, users: np.ndarray, k: int) -> np.ndarray:
        able = [user for user in users.tolist() if user in self.known]
        ranked = np.full((len(users), k), -1)
        if not able:
            return ranked
        found = self.model.recommend(users=able, dataset=self.data, k=k, filter_viewed=True)
        place = {user: row for row, user in enumerate(users.tolist())}
        rows = found[Columns.User].map(place).to_numpy()
        ranked[rows, found[Columns.Rank].to_numpy() - 1] = found[Columns.Item].to_numpy()
        return ranked

    def save(self, folder: Path) -> None:
        for name in self.arrays:
            np.save(folder / name, getattr(self.model, name))


def of(kind: Any, arrays: list[str], **fixed: Any) -> Fit:
    return lambda split, settings: Model(kind(**fixed, **settings), arrays, split)


if __name__ == "__main__":
    main(
        {
            "ease": of(EASEModel, ["weight"], recommend_use_gpu_ranking=False),
            "svd": of(PureSVDModel, ["user_factors", "item_factors"], recommend_use_gpu_ranking=False),
        }
    )
