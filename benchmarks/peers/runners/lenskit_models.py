# SPDX-License-Identifier: Apache-2.0
"""LensKit: implicit matrix factorisation and item neighbours."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import Fit, main
from lenskit import batch
from lenskit.als import ImplicitMFScorer
from lenskit.data import from_interactions_df
from lenskit.knn import ItemKNNScorer
from lenskit.pipeline import topn_pipeline


class Model:
    def __init__(self, scorer: Any, split: dict[str, Any]) -> None:
        pairs = split["train"].tocoo()
        data = from_interactions_df(pd.DataFrame({"user_id": pairs.row, "item_id": pairs.col}))
        self.pipeline = topn_pipeline(scorer)
        self.pipeline.train(data)

    def recommend(self, users: np.ndarray, k: int) -> np.ndarray:
        found = batch.recommend(self.pipeline, users.tolist(), k, n_jobs=1)
        ranked = np.full((len(users), k), -1)
        place = {int(user): row for row, user in enumerate(users)}
        for key, items in found:
            own = items.ids()[:k]
            ranked[place[int(key.user_id)], : len(own)] = own
        return ranked

    def save(self, folder: Path) -> None:
        (folder / "scorer.pkl").write_bytes(pickle.dumps(self.pipeline.component("scorer")))


def of(kind: Any, **fixed: Any) -> Fit:
    return lambda split, settings: Model(kind(**fixed, **settings), split)


if __name__ == "__main__":
    main({"als": of(ImplicitMFScorer), "item-knn": of(ItemKNNScorer, feedback="implicit")})
