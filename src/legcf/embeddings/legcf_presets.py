# SPDX-License-Identifier: Apache-2.0
"""Hold the presets of LEGCF: the paper's, the release's, and ours."""

from typing import Any

_WARM_METHOD = {"start": "als", "signed": True, "update": "none"}
# Training of a codebook that starts from a factorisation. Measured on Gowalla, one epoch, 8,000 validation users
# (recall@20 / ndcg@20; docs/study.md, section 4): negatives weighing 8 times a positive 0.1633 / 0.0953, once 0.1614 /
# 0.0955, a tenth 0.1582 / 0.0934; pairs weighted by item degree^+0.25 (item_power −0.25) 0.1636 / 0.0958, by
# degree^−0.25 0.1579 / 0.0924; all of these with user degree^−0.75 and rate 0.05, three epochs 0.1685 / 0.0995. Other
# numbers of negatives, batch sizes and β₂ have no measurement in the study.
_WARM_TRAINING = {
    "loss": "softmax", "negatives": 512, "negative_weight": 8.0, "user_power": 0.75, "item_power": -0.25,
    "batch_size": 4096, "scale_lr_by_rms": True, "beta2": 0.99, "schedule": "cosine",
}  # fmt: skip
# The rate was set with the backbone history; the study has no comparison of rates there.
_ITEMS_ONLY: dict[str, dict[str, Any]] = {
    "method": {**_WARM_METHOD, "coded": "items"},
    "backbone": {"name": "history"},
    "training": {**_WARM_TRAINING, "learning_rate": 0.015, "exclude_target": True, "epochs": 4},
}
# Larger batches and a larger rate than the paper's, so that a run takes minutes; not compared with other sizes.
GRAPH_TRAINING = {
    "batch_size": 8192, "negative_pool": 2048, "learning_rate": 1e-2, "epochs": 20, "patience": 3,
    "validation_users": 10_000,
}  # fmt: skip

LEGCF_PRESETS: dict[str, dict[str, Any]] = {
    # The text: Xavier, one normalisation, S ≥ 0, Alg. 1, 5 negatives, about 2,048 triplets a step.
    "paper": {
        "method": {"c": 500, "anchor_weight": 0.5, "update": "pinv"},
        "training": {
            "batch_size": 410, "learning_rate": 1e-3, "l2": 5e-4, "monitor": "ndcg@5", "continue_from": "last",
            "keep": "last-stage",
        },
    },
    # The release: tanh, item bias, two normalisations, N(0, 1), w* = 0.9, uniform users, clip ± 3.
    "official": {
        "method": {
            "c": 500, "anchor_weight": 0.9, "distinct_others": True, "codebook": "normal", "normalise": "twice",
            "tanh": True, "item_bias": True, "update": "pinv", "update_at": "start",
        },
        "training": {
            "batch_size": 410, "learning_rate": 1e-3, "l2": 5e-4, "monitor": "ndcg@5", "order": "user",
            "gradient_clip": 3.0, "continue_from": "last", "keep": "last-stage",
        },
    },
    # The paper's model with its update mended: the expanded graph, METIS anchors, BPR, larger batches.
    "graph": {"method": {"c": 500, "update": "pinv-refit"}, "training": GRAPH_TRAINING},
    # The same with an update that chooses and fits together.
    "graph-pursuit": {"method": {"c": 500, "update": "matching-pursuit"}, "training": GRAPH_TRAINING},
    # Users and items both coded and no graph at all, in training or after: h = S · E_meta.
    "graph-free": {
        "method": {**_WARM_METHOD, "c": 500},
        "backbone": {"layers": 0},
        "training": {**_WARM_TRAINING, "learning_rate": 0.05, "epochs": 5, "validation_users": 10_000},
    },
    # Smallest to serve: items have all values, users are their histories, nobody else's history is needed.
    "items-only": _ITEMS_ONLY,
    # Good in seconds: a narrow factorisation of few rounds, coded and not trained, and lists of few candidates in
    # what a megabyte has left. Nothing is chosen on validation but the weight of popularity (docs/peers.md). Lists with
    # a ridge of 2, dropout of ½ and a weight of 0.35 have 0.1744 / 0.1038, 0.0639 / 0.0365, 0.2800 / 0.1606 and
    # 0.2482 / 0.1995 on validation of Gowalla, Yelp2018, LastFM and ml-1m (seed 5); with a ridge of 4, none and 0.25
    # 0.1695 / 0.1014, 0.0633 / 0.0358, 0.2698 / 0.1564 and 0.2435 / 0.1961; with a weight of 0.5 0.1742 / 0.1030,
    # 0.0634 / 0.0363, 0.2809 / 0.1612 and 0.2512 / 0.2025.
    "fast": {
        "method": {
            **_ITEMS_ONLY["method"], "largest_c": 500, "dim": 32,
            "als": {"alpha": 20.0, "rounds": 4, "gradient_steps": 2},
        },
        "backbone": {"name": "history"},
        "training": {"epochs": 0, "validation_users": 500, "propagation": "stepwise"},  # there are no steps to save
        "ranking": {
            "bytes": "auto", "lists": None, "list_ridge": 2.0, "list_dropout": 0.5, "list_candidates": 32,
            "list_weight": 0.35, "fit_weight": False, "popularity_weight": None,
        },
    },
    # Our best, chosen on validation (docs/study.md): one file that needs nothing else. Vectors are codes or a table
    # of few bits, whichever ranks better, and item lists hold what they lose. On Gowalla one epoch trains the 966
    # meta-embeddings of 1.66 MB; those of 4 MB (four an item) have 0.1899 / 0.1119 on validation after one, and
    # 0.1925 / 0.1134 after four (seed 51). Other numbers were not measured. Codes from two rounds: √(recall · NDCG) of
    # 0.1646, 0.1633 and 0.1608 on held-out fifths of Gowalla's training and validation pairs (three splits), from four
    # rounds 0.1631, 0.1634 and 0.1600; half the negatives of twice the weight in batches of half the size, in a tenth
    # less time: 0.1641, 0.1615 and 0.1608. Lists with half of a history dropped and a ridge of 2, against a ridge of 1
    # alone: +1.2 % ± 0.3 and +1.5 % ± 0.3 on two held-out fifths of Gowalla's pairs, +1.3 % ± 0.2 and +0.4 % ± 0.3 on a
    # fifth and validation of ml-1m, level on LastFM and Yelp2018 (docs/reproduction/study-tables.md, section 11).
    "default": {
        **_ITEMS_ONLY,
        "method": {**_ITEMS_ONLY["method"], "coding_rounds": 2},
        "training": {
            **_ITEMS_ONLY["training"], "validation_users": 5_000, "epochs": 1, "epochs_of_large": 4,
        },
        "ranking": {
            "bytes": "auto", "search_representation": True, "lists": None, "fit_lists": True, "list_ridge": 2.0,
            "list_dropout": 0.5,
        },
    },
}  # fmt: skip
