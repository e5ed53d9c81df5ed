# SPDX-License-Identifier: Apache-2.0
"""Read what a run's folder says of itself, for people too, and what it answers from, without opening it. No torch."""

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
SHOWN_METRICS = ("recall@20", "ndcg@20", "recall@10", "ndcg@10")
"""The metrics that a person looks for first."""
_NUMBERS = ("test", "validation", "seconds")  # of the metrics, whose values are numbers


def open_answers(run: Path) -> Scorer | None:
    """Return what answers for a model file or a run; None where only the run itself can answer.

    That is where it has no such file, or one of another model: written before the model was replaced.
    """
    if run.is_file():
        return Scorer.load(run)
    if not (run / ANSWERS).exists() or not (run / DESCRIPTION).exists():
        return None
    described = read_description(run)
    scorer = Scorer.load(run / ANSWERS)
    return scorer if scorer.model.card.get(DIGEST) == described.get(DIGEST) else None


def read_description(folder: Path) -> dict[str, Any]:
    """Return model.json of a run, checked to be one."""
    description = read_json(folder / DESCRIPTION)
    check_format(folder / DESCRIPTION, description)
    try:
        metrics, name = description["metrics"], description["config"]["method"]["name"]
        numbers = [one for key in _NUMBERS for one in metrics[key].values()]
        for line in description["curve"]:
            numbers += [line["epoch"], line["seconds"], line.get("validation", {}).get("ndcg@20", 0)]
        is_whole = all(isinstance(one, int | float) for one in numbers) and isinstance(name, str)
        summary(metrics)
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError):
        is_whole = False
    if not is_whole:
        raise UserError(f"{folder / DESCRIPTION} is damaged; take another copy or train again.")
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


def summary(metrics: dict[str, Any]) -> dict[str, Any]:
    """Return the lines of a result that a person looks for first."""
    test = metrics["test"]
    return {
        **{f"test {name}": test[name] for name in SHOWN_METRICS if name in test},
        "validation ndcg@20": metrics["validation"].get("ndcg@20", "no pairs to validate by"),
        **({"measured on (users)": test["judged_users"]} if "judged_users" in test else {}),
        **({"best epoch of each stage": best} if (best := best_epochs(metrics)) else {}),
        **({"trained once more on all (pairs)": metrics["final"]["pairs"]} if "final" in metrics else {}),
        "values stored (the paper's count)": metrics["num_params"],
        "bytes stored": metrics["storage_bytes"],
        "times smaller than the full table": metrics["full_table_bytes"] / max(metrics["storage_bytes"], 1),
        **({"kept within these seconds": _kept(metrics["within"])} if "within" in metrics else {}),
        "seconds": metrics["seconds"].get("whole", metrics["seconds"]["this_session"]),
        "peak memory, MB": metrics["peak_rss_mb"],
        "preset": metrics["preset"],
        "seed": str(metrics["seed"]),
    }


def method_title(asked: str, kept: str) -> str:
    """Name the method of a run, and the one that its model was kept as where that is another."""
    return asked if asked == kept else f"{asked}, kept as {kept},"


def best_epochs(metrics: Mapping[str, Any]) -> str:
    """Name the best epoch of every stage and the one that was kept; nothing for runs of one stage."""
    stages, kept = metrics.get("best_epochs") or {}, (metrics.get("best_epoch") or {}).get("stage")
    if len(stages) < 2:
        return ""
    return ", ".join(f"{name} {best['epoch']}{' (kept)' if name == kept else ''}" for name, best in stages.items())


def _kept(within: Mapping[str, Any]) -> str:
    since = f", since {within['since']}" if "since" in within else ""
    return f"{within['seconds']:g} s: {within['kept']}{since}"
