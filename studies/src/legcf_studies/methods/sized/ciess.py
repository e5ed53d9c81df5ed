# SPDX-License-Identifier: Apache-2.0
"""Find a whole width between 1 and d for every entity by an actor and its critics (CIESS).

Qu et al., "Continuous Input Embedding Size Search For Recommender Systems", SIGIR 2023. The layer is a table with
prefix masks; the search is `training/recipes/ciess.py`, the agent `training/recipes/td3.py`.
"""

from typing import Any, ClassVar, Literal

from pydantic import Field

from legcf.embeddings.budget import solved
from legcf.embeddings.full import DEFAULT_RANKING, DEFAULT_TRAINING
from legcf_studies.methods.common import PAPER_TRAINING, ComparisonRow
from legcf_studies.methods.sized.widths import WidthConfig, WidthTable

# The whole run within 15 minutes of two cores on Gowalla.
_QUICK: dict[str, dict[str, Any]] = {
    "method": {
        "dim": 64, "target": 0.064, "fit": "every", "size_penalty": 0.5, "start": "pretrained", "popularity": "log",
        "pretrain_epochs": 3, "episodes": 4, "episode_steps": 6, "trial_steps": 16, "updates": 60,
        "replay_rows": 8192, "hidden": 64, "discount": 0.0,
    },
    "training": {**DEFAULT_TRAINING, "epochs": 12, "max_minutes": 14}, "ranking": DEFAULT_RANKING,
}  # fmt: skip


class CiessConfig(WidthConfig):
    name: Literal["ciess"] = "ciess"
    target: float = Field(0.05, gt=0, le=1, description="most values, as a share of N·d, unless a budget says it")
    fit: Literal["every", "last"] = Field(
        "last", description="scale sizes down to the target at every trial, or only if no trial met it"
    )
    size_penalty: float = Field(0.05, ge=0, description="λ, what size costs in the reward q − λ((a − 1)/d)²")
    held_out: float = Field(0.1, gt=0, lt=1, description="share of training pairs that rewards are measured on")
    pretrain_epochs: int = Field(20, ge=0, description="epochs of the full table that the best qualities come from")
    episodes: int = Field(30, ge=0, description="M, episodes; each begins with all sizes at d")
    episode_steps: int = Field(11, ge=1, description="T, trials of an episode")
    trial_steps: int = Field(2000, ge=1, description="gradient steps that a trial of sizes is trained for")
    start: Literal["fresh", "pretrained"] = Field(
        "fresh", description="what trials and retraining start from: new values, or the full table on principal axes"
    )
    popularity: Literal["count", "log"] = Field("count", description="the agent sees a degree or its logarithm")
    walk_steps: int = Field(5, ge=0, description="steps of the random walk around a proposed size")
    noise: float = Field(6.0, ge=0, description="deviation of the exploration noise, in sizes; one draw per trial")
    updates: int = Field(1, ge=1, description="updates of each agent after a trial")
    replay_rows: int | None = Field(None, ge=1, description="a side's transitions that a trial remembers; all if null")
    hidden: int = Field(256, ge=1, description="width of the hidden layers of actor and critics")
    discount: float = Field(0.99, ge=0, lt=1, description="γ, the weight of a later reward")
    search_share: float = Field(0.6, gt=0, lt=1, description="share of training.max_minutes that the search may take")


class Ciess(WidthTable[CiessConfig]):
    """Give E0_x = W_x ⊙ m(a_x), with m(a) a row of a 1s and then 0s; #Param = Σ a_x."""

    Config = CiessConfig
    summary = "a width of its own for every entity, found by reinforcement learning (TD3)"
    citation = "Qu et al., CIESS, SIGIR 2023"
    comparison_rows: ClassVar[dict[str, ComparisonRow]] = {"ciess": ComparisonRow("CIESS", "one size", False)}
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # The release's settings for LightGCN; its λ = 1e-4 has a ½ (so 5e-5 here).
        "official": {
            "training": {
                "negatives": 1, "batch_size": 10_000, "learning_rate": 0.03, "schedule": "cosine", "l2": 5e-5,
                "epochs": 100, "patience": 5,
            }
        },
        # The release's search in the LEGCF paper's loop, at the size of its Table 2 (4 values per entity).
        "paper": {"method": {"target": 0.032, "size_penalty": 0.5, "initial": "xavier"}, "training": PAPER_TRAINING},
        "quick": _QUICK,
        "default": _QUICK,
    }  # fmt: skip

    @property
    def allowed(self) -> int:
        """Return the most that Σ a_x may be."""
        return solved(self.config.allowed_values(self.num_entities))
