# SPDX-License-Identifier: Apache-2.0
"""Who is compared: projects with their environments, and the models of each with their settings."""

from dataclasses import dataclass, field
from typing import Any

TRIALS = 9
"""Settings that a tuned row chooses from on validation: about as many as `default` makes vectors with."""


@dataclass(frozen=True)
class Project:
    label: str
    runner: str
    """The script in `runners/`."""
    package: str
    """Its name among what is installed; the environment's pins are `requirements/<package>.txt`."""


@dataclass(frozen=True)
class ComparisonRow:
    project: str
    model: str
    label: str
    settings: dict[str, Any] | list[dict[str, Any]] = field(default_factory=dict)
    most_items: int | None = None
    """Beyond so many items it is not tried: a matrix of items by items would not fit."""

    @property
    def key(self) -> str:
        return f"{self.project}-{self.label}".lower().replace(" ", "-").replace("(", "").replace(")", "")


PROJECTS = {
    "legcf": Project("legcf", "legcf_models.py", "legcf"),
    "implicit": Project("implicit", "implicit_models.py", "implicit"),
    "lenskit": Project("LensKit", "lenskit_models.py", "lenskit"),
    "recbole": Project("RecBole", "recbole_models.py", "recbole"),
    "irspack": Project("irspack", "irspack_models.py", "irspack"),
    "rectools": Project("RecTools", "rectools_models.py", "rectools"),
    "cornac": Project("Cornac", "cornac_models.py", "cornac"),
}

_DENSE = 12_000
_LEARNED = {"embedding_size": 64, "train_batch_size": 2048, "epochs": 300, "stopping_step": 5, "eval_step": 2}

ROWS = (
    ComparisonRow("legcf", "default", "default"),
    ComparisonRow("legcf", "fast", "fast"),
    ComparisonRow(
        "legcf", "default", "default, untrained",
        {"training": {"epochs": 0}, "ranking": {"search_representation": False, "fit_lists": False}},
    ),
    ComparisonRow("legcf", "popularity", "popularity"),
    ComparisonRow("legcf", "item-knn", "item-knn"),
    ComparisonRow("legcf", "ease", "ease"),
    ComparisonRow("legcf", "als", "als 128"),
    ComparisonRow("implicit", "als", "ALS 128", {"factors": 128}),
    ComparisonRow("implicit", "als", "ALS 128 α=20", {"factors": 128, "alpha": 20.0}),
    ComparisonRow(
        "implicit", "als", "ALS 128 (tuned)",
        [{"factors": 128, "alpha": alpha, "regularization": ridge} for alpha in (2, 8, 32) for ridge in (0.1, 1, 10)],
    ),
    ComparisonRow("implicit", "bpr", "BPR 128", {"factors": 128}),
    ComparisonRow("implicit", "logistic", "logistic 32", {"factors": 32}),
    ComparisonRow("implicit", "cosine", "cosine 100", {"K": 100}),
    ComparisonRow("lenskit", "als", "ImplicitMF 128", {"embedding_size": 128}),
    ComparisonRow("lenskit", "item-knn", "ItemKNN 100", {"max_nbrs": 100}),
    ComparisonRow("recbole", "ItemKNN", "ItemKNN 100", {"k": 100}),
    ComparisonRow("recbole", "EASE", "EASE", {}, _DENSE),
    ComparisonRow("recbole", "BPR", "BPR 64", _LEARNED),
    ComparisonRow("recbole", "LightGCN", "LightGCN 64", _LEARNED),
    ComparisonRow("recbole", "SimpleX", "SimpleX 64", _LEARNED),
    ComparisonRow("irspack", "ials", "iALS 128", {"n_components": 128, "alpha0": 0.1, "reg": 1e-3}),
    ComparisonRow(
        "irspack", "rp3beta", "RP3beta (tuned)",
        [{"alpha": alpha, "beta": beta, "top_k": 100} for alpha in (0.6, 0.8, 1.0) for beta in (0.3, 0.5, 0.7)],
    ),
    ComparisonRow("irspack", "slim", "SLIM", {"alpha": 0.05, "l1_ratio": 0.01, "top_k": 100}, _DENSE),
    ComparisonRow(
        "rectools", "ease", "EASE (tuned)",
        [{"regularization": ridge} for ridge in (3.0, 10.0, 30.0, 100.0, 200.0, 300.0, 500.0, 1000.0, 3000.0)],
        _DENSE,
    ),
    ComparisonRow("rectools", "svd", "PureSVD 128", {"factors": 128}),
    ComparisonRow(
        "cornac", "bpr", "BPR 128 (tuned)",
        [
            {"k": 128, "max_iter": 50, "learning_rate": rate, "lambda_reg": ridge}
            for rate in (0.02, 0.05, 0.1) for ridge in (0.003, 0.01, 0.03)
        ],
    ),
)  # fmt: skip
