# SPDX-License-Identifier: Apache-2.0
"""Cornac: BPR and EASE."""

from typing import Any

import cornac
import numpy as np
from common import ByScores, Fit, main


def of(kind: Any, arrays: tuple[str, ...], **fixed: Any) -> Fit:
    def fit(split: dict[str, Any], settings: dict[str, Any]) -> ByScores:
        train = split["train"]
        pairs = train.tocoo()
        data = cornac.data.Dataset.from_uir(list(zip(pairs.row, pairs.col, pairs.data, strict=True)), seed=0)
        model = kind(**fixed, **settings).fit(data)
        items = np.array(list(data.iid_map))  # in cornac's own order
        users = data.uid_map

        def scores(asked: np.ndarray) -> np.ndarray:
            out = np.zeros((len(asked), train.shape[1]), dtype=np.float32)
            for row, user in enumerate(asked.tolist()):
                if user in users:
                    out[row, items] = model.score(users[user])
            return out

        return ByScores(train, scores, {name: np.asarray(getattr(model, name)) for name in arrays})

    return fit


if __name__ == "__main__":
    main(
        {
            "bpr": of(cornac.models.BPR, ("u_factors", "i_factors", "i_biases"), seed=0, verbose=False),
            "ease": of(cornac.models.EASE, ("B",), seed=0, verbose=False),
        }
    )
