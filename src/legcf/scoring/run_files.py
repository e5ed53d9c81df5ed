# SPDX-License-Identifier: Apache-2.0
"""Read what a run's folder says of itself, and what it answers from, without opening the model. No torch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from legcf.core.errors import UserError
from legcf.core.files import read_json
from legcf.scoring.scorer import Scorer

RUN_FORMAT = "legcf-model"
RUN_FORMAT_VERSION = 2
_READABLE = (1, 2)  # up to 1, settings and weight of ranking stood among those of training
MODEL, DESCRIPTION = "model.safetensors", "model.json"
ANSWERS = "answers.legcf"
"""The model file that a run answers from; runs of earlier versions have none."""
DIGEST = "sha256"
"""Names the checksum of `MODEL`, in the description of a run and in the card of the file that answers for it."""
_PARTS = ("config", "metrics", "curve")


def open_answers(run: Path) -> Scorer | None:
    """Return what answers for a model file or a run; None where only the run itself can answer.

    That is where it has no such file, or one of another model: written before the model was replaced.
    """
    if run.is_file():
        return Scorer.load(run)
    if not (run / ANSWERS).exists() or not (run / DESCRIPTION).exists():
        return None
    described = read_description(run)
    if not all(part in described for part in _PARTS):
        return None
    scorer = Scorer.load(run / ANSWERS)
    return scorer if scorer.model.card.get(DIGEST) == described.get(DIGEST) else None


def read_description(folder: Path) -> dict[str, Any]:
    """Return model.json of a run, checked to be one."""
    description = read_json(folder / DESCRIPTION)
    check_format(folder / DESCRIPTION, description)
    return dict(description)


def check_format(path: Path, facts: Any) -> None:
    """Refuse what no legcf wrote, and what a later one wrote."""
    if not isinstance(facts, Mapping) or facts.get("format") != RUN_FORMAT:
        raise UserError(f"{path} was not written by legcf; give a folder that `legcf train` made.")
    if facts.get("format_version") not in _READABLE:
        raise UserError(
            f"{path} has format version {facts.get('format_version')}, this legcf reads up to {RUN_FORMAT_VERSION};"
            " train again."
        )
