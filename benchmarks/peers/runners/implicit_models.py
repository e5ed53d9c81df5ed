# SPDX-License-Identifier: Apache-2.0
"""implicit: ALS, BPR, logistic factorisation and item neighbours."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import Fit, main
from implicit.als import AlternatingLeastSquares
from implicit.bpr import BayesianPersonalizedRanking
from implicit.lmf import LogisticMatrixFactorization
from implicit.nearest_neighbours import BM25Recommender, CosineRecommender


class Model:
    def __init__(self, model: Any, train: sp.csr_matrix) -> None:
        self.model, self.train = model, train
        model.fit(train, show_progress=False)

    def recommend(self, users: np.ndarray, k: int) -> np.ndarray:
        return self.model.recommend(users, self.train[users], N=k)[0]

    def save(self, folder: Path) -> None:
        self.model.save(folder / "model.npz")


def of(kind: Any, **fixed: Any) -> Fit:
    return lambda split, settings: Model(kind(**fixed, **settings), split["train"])


if __name__ == "__main__":
    main(
        {
            "als": of(AlternatingLeastSquares, random_state=0),
            "bpr": of(BayesianPersonalizedRanking, random_state=0),
            "logistic": of(LogisticMatrixFactorization, random_state=0),
            "cosine": of(CosineRecommender),
            "bm25": of(BM25Recommender),
        }
    )
