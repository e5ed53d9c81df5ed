# SPDX-License-Identifier: Apache-2.0
"""Fit rows to a factorisation to start from, for layers whose table is linear in what they learn."""

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
from pydantic import Field
from scipy.linalg import cho_factor, cho_solve

from legcf.assignment.dictionary import balance
from legcf.core.arrays import FloatArray
from legcf.core.errors import UserError
from legcf.data.interactions import Interactions
from legcf.embeddings.base import EmbeddingLayer
from legcf.embeddings.budget import Budgeted
from legcf.factorisation.als import AlsSettings, factorise

_RIDGE = 1e-3  # relative to the mean use of a row: one that hardly any entity uses stays near zero

FITTED: dict[str, Any] = {"method": {"start": "als"}}


class FittedConfig(Budgeted):
    """Hold the options of a layer that can start from a factorisation."""

    start: Literal["drawn", "als"] = Field("drawn", description="first values: drawn, or fitted to a factorisation")
    als: AlsSettings = Field(AlsSettings(), description="settings of that factorisation")
    score_scale: float = Field(10.0, gt=0, description="multiplies the factorisation's scores, for the softmax")


def start_from_als(layer: EmbeddingLayer[Any], train: Interactions, rng: np.random.Generator) -> None:
    """Give a linear layer the values whose rows are nearest to those of a factorisation."""
    linear, config = layer.linear_basis(), layer.config
    if linear is None:
        raise UserError(
            f"method.start = als needs rows that are sums, and those of {config.name} with these settings are not;"
            " set start = drawn."
        )
    rows = factorised_rows(train, config, layer.width, rng)
    selection, values = linear
    values.data.copy_(torch.from_numpy(least_squares(selection, rows)))


def factorised_rows(train: Interactions, config: FittedConfig, width: int, rng: np.random.Generator) -> FloatArray:
    """Return the rows of users and items in a factorisation, both sides of equal size."""
    users, items = factorise(train, width, rng, config.als)
    rows: FloatArray = np.vstack(balance(users, items, power=0.5)[:2]) * np.float32(config.score_scale) ** 0.5
    return rows


def least_squares(selection: sp.csr_matrix, rows: FloatArray) -> FloatArray:
    """Return argmin ‖selection · values − rows‖², with a small ridge where it leaves freedom."""
    gram = (selection.T @ selection).toarray().astype(np.float64)
    gram[np.diag_indices(len(gram))] += _RIDGE * max(float(np.trace(gram)) / len(gram), np.finfo(np.float64).tiny)
    solved: FloatArray = cho_solve(cho_factor(gram), (selection.T @ rows).astype(np.float64)).astype(np.float32)
    return solved
