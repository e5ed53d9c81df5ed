# SPDX-License-Identifier: Apache-2.0
"""irspack: iALS, RP3beta and SLIM."""

from typing import Any

from common import ByScores, Fit, main
from irspack.recommenders import DenseSLIMRecommender, IALSRecommender, RP3betaRecommender, SLIMRecommender


def factors(split: dict[str, Any], settings: dict[str, Any]) -> ByScores:
    model = IALSRecommender(split["train"], random_seed=0, **settings).learn()
    arrays = {"users": model.get_user_embedding(), "items": model.get_item_embedding()}
    return ByScores(split["train"], model.get_score, arrays)


def weights(kind: Any) -> Fit:
    def fit(split: dict[str, Any], settings: dict[str, Any]) -> ByScores:
        model = kind(split["train"], **settings).learn()
        return ByScores(split["train"], model.get_score, {"weights": model.W})

    return fit


if __name__ == "__main__":
    main(
        {
            "ials": factors,
            "rp3beta": weights(RP3betaRecommender),
            "slim": weights(SLIMRecommender),
            "dense-slim": weights(DenseSLIMRecommender),
        }
    )
