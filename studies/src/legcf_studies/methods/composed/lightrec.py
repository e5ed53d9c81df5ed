# SPDX-License-Identifier: Apache-2.0
"""Sum one codeword from each of a few codebooks, chosen on residuals (LightRec).

Lian et al., "LightRec: A Memory and Search-Efficient Recommender System", WWW 2020. A teacher table X is trained first.
For book b the residual x of an entity picks k_b = argmax of its similarity to the codewords C_b; x then loses
C_b[k_b]; and E0 = Σ_b C_b[k_b]. Values are those of the hard choice, gradients those of the soft one
(straight-through). At the end the codes are fixed, and teacher and similarities are dropped.
"""

from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
import torch
from pydantic import Field
from torch import nn

from legcf.data.interactions import Interactions
from legcf.embeddings.base import EmbeddingLayer, normal
from legcf.embeddings.budget import Budgeted, solved, stored_values, too_small
from legcf.embeddings.full import DEFAULT_RANKING, DEFAULT_TRAINING
from legcf_studies.methods.common import PAPER_TRAINING, ComparisonRow, ones_at, take_saved_shapes

_BLOCK = 8192  # entities coded at a time where no gradient is needed


class LightRecConfig(Budgeted):
    name: Literal["lightrec"] = "lightrec"
    dim: int = Field(64, ge=1, description="width of a codeword")
    books: int | None = Field(None, ge=1, description="B, codebooks; as many as the budget allows if null")
    codewords: int = Field(256, ge=2, le=256, description="K, codewords in a book; a code is one byte")
    similarity: Literal["bilinear", "euclidean"] = Field("bilinear", description="what a codeword is chosen by")
    temperature: float = Field(0.9, gt=0, description="τ of the softmax whose gradient is used")
    distil: float = Field(1e-9, ge=0, description="weight of the squared difference from the teacher's scores")
    start: Literal["kmeans", "normal"] = Field("kmeans", description="first codewords: residual k-means, or N(0, 0.1²)")
    teacher_epochs: int = Field(100, ge=0, description="most epochs of the teacher")
    code_epochs: int = Field(101, ge=0, description="most epochs in which codes and codebooks are learned together")
    recode_every: int = Field(1, ge=1, description="steps between recomputations of all codes")


class LightRec(EmbeddingLayer[LightRecConfig]):
    """Give E0 = X while the teacher is trained, Σ_b C_b[codes] after it."""

    Config = LightRecConfig
    summary = "sum of codewords chosen on residuals, learned straight-through from a full teacher"
    citation = "Lian et al., LightRec: A Memory and Search-Efficient Recommender System, WWW 2020"
    comparison_rows: ClassVar[dict[str, ComparisonRow]] = {"lightrec": ComparisonRow("LightRec")}
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # The release: 4 books of 256 codewords, width 32, plain softmax at τ = 0.9, L2 1e-3, codes at every step.
        "official": {
            "method": {"dim": 32, "books": 4, "start": "normal"},
            "training": {"learning_rate": 1e-3, "l2": 1e-3, "epochs": 0},
        },
        "paper": {"method": {"dim": 128}, "training": PAPER_TRAINING},
        # Codes are dear beside a step, so they are learned in a few epochs and their codewords in the others.
        "default": {
            "method": {"teacher_epochs": 12, "code_epochs": 3, "recode_every": 10, "similarity": "euclidean"},
            "training": {**DEFAULT_TRAINING, "epochs": 10}, "ranking": DEFAULT_RANKING,
        },
    }  # fmt: skip

    codes: torch.Tensor

    def __init__(self, config: LightRecConfig, num_users: int, num_items: int) -> None:
        super().__init__(config, num_users, num_items)
        self.books = solved(self.config.books)
        self.codebook = nn.Parameter(torch.zeros(self.books * config.codewords, config.dim))
        square = config.dim if config.similarity == "bilinear" else 0
        self.teacher = nn.Parameter(torch.zeros(self.num_entities, config.dim))
        self.similarity = nn.Parameter(torch.zeros(self.books, square, square))
        self.register_buffer("codes", torch.zeros(self.num_entities, self.books, dtype=torch.uint8))
        self.coded = False  # whether rows come from codes: the teacher's stage says no
        self.recodes = False  # whether codes are chosen anew, with a gradient for the choice
        take_saved_shapes(self, "teacher", "similarity")
        self.register_load_state_dict_post_hook(lambda layer, _: setattr(layer, "coded", layer.coded or layer.frozen))  # type: ignore[no-untyped-call]
        self._trained_values = sum(parameter.numel() for parameter in self.parameters())

    @property
    def frozen(self) -> bool:
        """Tell whether the codes are final, and what chose them is gone."""
        return self.teacher.numel() == 0

    @classmethod
    def sized(cls, config: LightRecConfig, num_users: int, num_items: int) -> LightRecConfig:
        """Find B with B·K·d + N·B/4 within the budget: a code is a byte, a fourth of a value."""
        entities = num_users + num_items
        if config.books is not None:
            return config
        allowed = stored_values(config.budget or "legcf", entities)
        books = 4 * allowed // (4 * config.codewords * config.dim + entities)
        if books < 1:
            raise too_small(allowed, config.codewords * config.dim + -(-entities // 4))
        return config.model_copy(update={"books": books})

    def initialise(self, train: Interactions, rng: np.random.Generator) -> None:
        self.teacher.data.copy_(normal(tuple(self.teacher.shape), 0.1, rng))
        self.codebook.data.copy_(normal(tuple(self.codebook.shape), 0.1, rng))
        if self.config.similarity == "bilinear":
            self.similarity.data.copy_(torch.eye(self.config.dim).expand_as(self.similarity))

    def encode(self, vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the codes of vectors, and their straight-through sum of codewords."""
        residual, total, codes = vectors, torch.zeros_like(vectors), []
        for book, words in enumerate(torch.split(self.codebook, self.config.codewords)):
            shares = torch.softmax(self._affinity(residual, words, book) / self.config.temperature, dim=1)
            best = shares.argmax(dim=1)
            soft = shares @ words
            codeword = soft + (words[best] - soft).detach() if shares.requires_grad else words[best]
            residual, total = residual - codeword, total + codeword
            codes.append(best)
        return torch.stack(codes, dim=1).to(torch.uint8), total

    def decode(self, codes: torch.Tensor) -> torch.Tensor:
        return nn.functional.embedding_bag(self.offsets(codes), self.codebook, mode="sum")

    @torch.no_grad()
    def recode(self) -> None:
        """Code the teacher's vectors by the codebooks there are."""
        for start in range(0, self.num_entities, _BLOCK):
            self.codes[start : start + _BLOCK] = self.encode(self.teacher[start : start + _BLOCK])[0]

    @torch.no_grad()
    def freeze(self) -> None:
        """Keep the codes, and drop what chose them."""
        self.recode()
        for parameter in (self.teacher, self.similarity):
            parameter.grad = None
            parameter.data = torch.zeros(0)
        self.coded, self.recodes = True, False

    def _affinity(self, residual: torch.Tensor, words: torch.Tensor, book: int) -> torch.Tensor:
        if self.config.similarity == "bilinear":
            return residual @ self.similarity[book] @ words.T
        return 2 * residual @ words.T - words.square().sum(dim=1) - residual.square().sum(dim=1, keepdim=True)

    def offsets(self, codes: torch.Tensor) -> torch.Tensor:
        return codes.long() + torch.arange(self.books) * self.config.codewords

    def table(self) -> torch.Tensor:
        return self.rows(slice(None))

    def rows(self, ids: slice | torch.Tensor) -> torch.Tensor:
        if not self.coded:
            return self.teacher[ids]
        if self.recodes:
            self.codes[ids], rows = self.encode(self.teacher[ids].detach())
            return rows
        return self.decode(self.codes[ids])

    def penalty(self) -> torch.Tensor | None:
        """Return ‖U Eᵀ − U_t E_tᵀ‖² by d × d Gram matrices, while there is a teacher to learn from."""
        if not self.coded or self.frozen or not self.config.distil:
            return None
        learned, taught = self.decode(self.codes), self.teacher.detach()
        users, items = learned[: self.num_users], learned[self.num_users :]
        own_users, own_items = taught[: self.num_users], taught[self.num_users :]
        difference = (
            ((users.T @ users) * (items.T @ items)).sum()
            - 2 * ((own_users.T @ users) * (own_items.T @ items)).sum()
            + ((own_users.T @ own_users) * (own_items.T @ own_items)).sum()
        )
        return self.config.distil * difference

    def linear_basis(self) -> tuple[sp.csr_matrix, nn.Parameter] | None:
        return (ones_at(self.offsets(self.codes).numpy(), len(self.codebook)), self.codebook) if self.frozen else None

    def num_params(self) -> int:
        """Count B·K·d codeword values, and the codes' bytes as fourths of a value."""
        return self.codebook.numel() + -(-self.codes.numel() // 4)

    def total_trainable(self) -> int:
        """Count teacher and similarities too, which serving does without."""
        return self._trained_values
