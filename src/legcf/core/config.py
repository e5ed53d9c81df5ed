# SPDX-License-Identifier: Apache-2.0
"""Hold settings: frozen, fully resolved, unknown keys refused. The command line and the file use the same names."""

import difflib
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError, field_validator, model_validator

from legcf.core.errors import UserError
from legcf.core.files import parse_json


class Frozen(BaseModel):
    """Be the base of every configuration section."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class MethodConfig(Frozen):
    """Be the base of every method's options."""

    name: str

    @property
    def codebook_size(self) -> int:
        """Return how many vectors the entities share, 0 for a method without a codebook."""
        return 0


class BackboneConfig(Frozen):
    """Be the base of every backbone's options."""

    name: str

    @property
    def weighs_added_nodes(self) -> bool:
        """Return whether edges to added nodes enter the degrees, so that their weights must not be negative."""
        return True

    def block_widths(self, width: int) -> list[int]:
        """Return the widths of the blocks that stand side by side in a final vector, for input rows of this width."""
        return [width]


_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20}


def parse_bytes(text: int | str) -> int:
    """Return a size such as 1.6MB, 500 kB or 1600000 in bytes."""
    number = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([a-z]*)\s*", str(text).lower())
    if number is None or number[2] not in _UNITS or number[1].count(".") > 1:
        raise ValueError("give a size such as 1.6MB, 500kB or 1600000")
    size = round(float(number[1]) * _UNITS[number[2]])
    if size < 1:
        raise ValueError("a size is at least one byte")
    return size


_RENAMED_KEEP = {"best": "best-of-all"}  # as it was called while there was one kind of best


class TrainingConfig(Frozen):
    """Hold how parameters are learned; the same keys for every method."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    loss: str = "bpr"
    """bpr, softmax, cosine (softmax of directions), or squared over all pairs without sampling"""
    temperature: float = Field(1.0, gt=0)
    """divides the scores in the loss; about 0.1 suits cosines"""
    negatives: int = Field(5, ge=1)
    """negatives per pair (bpr) or shared by a batch (softmax, cosine); squared draws none"""
    negative_pool: int | None = Field(None, ge=1)
    """with bpr, a batch draws its negatives from this many items, drawn anew for each batch; null: all"""
    negative_weight: float = Field(1.0, gt=0)
    """how much a negative weighs beside a positive; for squared, any pair not in the data"""
    user_power: float = 0.0
    """p: a pair weighs degree^−p of its user"""
    item_power: float = 0.0
    """p: a pair weighs degree^−p of its item"""
    order: Literal["interaction", "user"] = "interaction"
    """every pair once per epoch, or a uniform user and one of its items"""
    batch_size: int = Field(2048, ge=1)
    """pairs per step; with bpr each brings all its negatives; squared takes all pairs at once"""
    learning_rate: float = Field(1e-3, gt=0)
    """step size of Adam"""
    scale_lr_by_rms: bool = False
    """multiply the learning rate by each parameter's root mean square at the start"""
    beta2: float = Field(0.999, ge=0, lt=1)
    """β₂, how long Adam remembers squared gradients"""
    schedule: Literal["constant", "cosine"] = "constant"
    """cosine goes to zero at a stage's last step"""
    l2: float = Field(0.0, ge=0)
    """weight of the squared norms"""
    l2_on: Literal["rows", "final", "parameters"] = "rows"
    """the batch's input rows or final vectors (per pair), or all parameters of the embedding layer"""
    exclude_target: bool = False
    """learn a pair from its user's vector without that pair; for backbones that can (history)"""
    edge_folds: int = Field(0, ge=0, le=16)
    """learn pairs from the graph without their edges, left out in this many folds; 0: off"""
    gradient_clip: float | None = Field(None, gt=0)
    """clip every gradient entry to ± this"""
    epochs: int = Field(1000, ge=0)
    """most epochs of a stage"""
    epochs_of_large: int = Field(0, ge=0)
    """the same where bytes allow larger codes than usual; 0: no other number"""
    patience: int = Field(10, ge=1)
    """evaluations without a better validation result that end a stage"""
    monitor: str = Field(
        "ndcg@20",
        description="validation metric that picks the best epoch; tables, lists and their settings are picked by the"
        " geometric mean of it and of recall at the same length",
    )
    evaluate_every: int = Field(1, ge=1)
    """epochs between validations"""
    validation_users: int | None = Field(None, ge=1)
    """validate on this many users (a seeded draw) instead of all while training"""
    continue_from: Literal["best", "last"] = "best"
    """which weights the next stage starts from"""
    keep: Literal["best-of-all", "last-stage", "last"] = "best-of-all"
    """which weights the run ends with: the best of all stages, the best of its last stage, or the last"""
    propagation: Literal["auto", "basis", "stepwise"] = "auto"
    """train on the propagated basis where the layer allows it, or propagate at every step"""
    memory_cap_mb: float = Field(1024, gt=0)
    """cap for the basis in memory and for the work arrays of basis and assignment update"""
    checkpoint_seconds: float = Field(10, ge=0)
    """least time between checkpoints: what a killed run loses at most, beside its epoch"""
    max_minutes: float | None = Field(None, gt=0)
    """end the run after the epoch that passes this time"""
    seconds: float | None = Field(None, gt=0)
    """have the whole run done in this time: the best that it allows, from the preset `fast` upwards"""
    clock: Literal["wall", "cpu"] = "wall"
    """what max_minutes counts: time that passes, or that of the cores, which other work does not use up"""
    threads: int | None = Field(None, ge=1)
    """threads to use; by default as many as affinity and the container's quota allow"""

    @model_validator(mode="after")
    def _folds_go_with(self) -> "TrainingConfig":
        if self.edge_folds == 1:
            raise ValueError("edge_folds = 1 would leave out every edge; use 0 for none, or at least 2")
        if self.edge_folds and self.order == "user":
            raise ValueError("edge_folds needs order = interaction and a loss that takes pairs in batches")
        return self


class RankingConfig(Frozen):
    """Hold what ranks beside a model's vectors; the same keys for every method."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    norm_power: float = Field(1.0, ge=0, le=1)
    """power of a vector's length that counts in ranking: 1 all of it, 0 none"""
    bytes: int | str | None = Field(
        None,
        description="size of the model file to make the most of, such as 1.6MB;"
        " auto: 1MB or 48 bytes per item, whichever is more, and the names",
    )
    search_representation: bool = False
    """choose on validation what the items' vectors are made of: codes, or tables in few bits"""
    bits: int | None = Field(None, ge=1, le=8)
    """bits per value of the items' vectors; null: codes stay codes, in bytes"""
    lists: float | None = Field(0.0, ge=0)
    """entries of item lists, per item on average; 0: none; null: as many as `bytes` allows"""
    fit_lists: bool = False
    """choose ridge, powers and weight of the lists on validation"""
    list_ridge: float = Field(1.0, gt=0)
    """λ, the ridge of the lists' regressions, in units of their mean diagonal"""
    list_dropout: float = Field(0.0, ge=0, lt=1)
    """share of a history that these regressions leave out at random, in expectation: popular items speak less loudly"""
    list_user_power: float = Field(0.5, ge=0)
    """p: a user weighs degree^−p in these regressions"""
    list_power: float = Field(0.0, ge=0, le=4)
    """p: what a user's lists add is multiplied by degree^−p"""
    list_weight: float = Field(0.5, gt=0, le=1000)
    """standard deviation of the lists' scores, as a multiple of that of the inner products"""
    list_candidates: int | None = Field(None, ge=1)
    """items that may speak for an item; null: many, and weights solved again for those kept"""
    fit_weight: bool = True
    """choose the weight of the lists on validation, where there is any"""
    list_bits: int = Field(4, ge=1, le=8)
    """bits per weight in the lists"""
    popularity_weight: float | None = Field(0.0, ge=0)
    """standard deviation of log popularity in the scores, as a multiple of that of the inner products; null: chosen
    on validation"""
    half_life_items: float | Literal["auto"] | None = Field(None)
    """items of a user's history after which an item counts half as much as the last one, by the order of times; auto:
    chosen on validation pairs that are later; null: all count alike"""
    repeat_weight: float | None = Field(None, ge=0, le=1000)
    """what an item adds to its own score for those who have it, as a multiple of the standard deviation of the inner
    products; null: what users have is not shown, or with `repeat` = allow chosen on validation"""

    @field_validator("half_life_items")
    @classmethod
    def _is_positive(cls, half_life: float | str | None) -> float | str | None:
        if isinstance(half_life, float) and not 1e-9 <= half_life <= 1e12:  # what a model file can hold
            raise ValueError("a half-life is a number of items above 0, auto or null")
        return half_life

    @field_validator("bytes")
    @classmethod
    def _is_a_size(cls, size: int | str | None) -> int | str | None:
        return size if size is None or size == "auto" else parse_bytes(size)

    @property
    def chooses(self) -> bool:
        """Return whether validation has anything to choose of tables and lists."""
        return self.search_representation or self.fit_lists

    @property
    def has_lists(self) -> bool:
        return self.lists is None or self.lists > 0

    @model_validator(mode="after")
    def _goes_together(self) -> "RankingConfig":
        if self.lists is None and self.bytes is None:
            raise ValueError("lists = null asks for as many entries as `bytes` allows, and there is no such size")
        return self


SECTIONS = ("method", "backbone", "training", "ranking")
"""The sections of a configuration whose keys people set."""


class RunConfig(Frozen):
    """Hold everything that decides a run; `method` and `backbone` have the name and the options of each."""

    preset: str
    seed: int = Field(0, ge=0)
    method: SerializeAsAny[MethodConfig]
    backbone: SerializeAsAny[BackboneConfig]
    training: TrainingConfig
    ranking: RankingConfig = RankingConfig()
    data: dict[str, Any] = Field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


RENAMED_KEYS = {
    "training.ranking_length": "ranking.norm_power",
    "training.adam_memory": "training.beta2",
    "training.leave_out": "training.exclude_target",
    "training.relative_rate": "training.scale_lr_by_rms",
    "ranking.length": "ranking.norm_power",
    "ranking.choose": "ranking.search_representation",
    "legcf.d": "method.dim",
    "legcf.joined": "method.meta_nodes",
    "autoemb.afresh": "method.reinitialise",
    "cel.average": "method.average_gradients",
    "cel.nearest": "method.nearest_clusters",
    "cel.splits": "method.splits_at_once",
    "cel.stay": "method.stay_probability",
    "cerp.kept": "method.max_entries",
    "ciess.cost": "method.size_penalty",
    "ciess.remember": "method.replay_rows",
    "ciess.walk": "method.walk_steps",
    "dhe.width": "method.hidden",
    "double-hash.private": "method.private_rows",
    "esapn.every": "method.decide_every",
    "esapn.judged": "method.reward_timing",
    "esapn.judging_pairs": "method.reward_pairs",
    "esapn.recent": "method.recent_losses",
    "optembed.judges": "method.eval_users",
    "pep.kept": "method.max_entries",
}
"""Former keys and what they are called now: `section.key`, or `name.key` for the section `method` of one method."""

_DROPPED_KEYS = {f"{section}.{key}" for section in ("training", "ranking") for key in ("neighbours", "fit_neighbours")}
"""Keys that are no more: up to format 1, those of ranking stood among the training's."""

_reported_keys: set[str] = set()


def current_key(key: str, method: Any, report: bool = True) -> str:
    """Return what `section.key` is called now; a former key, of `method` too, is reported once in a process.

    Without `report` it is not: saved runs are read in silence.
    """
    section, _, option = key.partition(".")
    former = f"{method}.{option}" if section == "method" else key
    current = RENAMED_KEYS.get(former, key)
    if report and former in RENAMED_KEYS and former not in _reported_keys:
        _reported_keys.add(former)
        warnings.warn(f"The key `{key}` is called `{current}` now.", FutureWarning, stacklevel=3)
    return current


def with_current_keys(content: Mapping[str, Any], method: Any, report: bool = True) -> dict[str, Any]:
    """Return settings by section and key with former keys under their names of today (see `current_key`)."""
    result = {section: {} if isinstance(values, Mapping) else values for section, values in content.items()}
    for section, values in content.items():
        for key, value in values.items() if isinstance(values, Mapping) else ():
            current = current_key(f"{section}.{key}", method, report)
            if current in _DROPPED_KEYS:
                if value:
                    raise UserError(
                        f"{current} = {value!r} is not possible: legcf no longer adds what neighbours took; item lists "
                        "replace it (ranking.lists, or the preset default)."
                    )
                continue
            target, _, name = current.partition(".")
            if not isinstance(result.setdefault(target, {}), dict):
                raise UserError(f"`{target}` must hold keys and values.")
            if name in result[target]:
                raise UserError(f"`{current}` is set twice, once under its former name: leave that out.")
            is_renamed = current == "training.keep" and isinstance(value, str)
            result[target][name] = _RENAMED_KEEP.get(value, value) if is_renamed else value
    return result


def migrated(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a saved run as they are written now, whatever version wrote them."""
    if not isinstance(content, Mapping):
        raise UserError("This is not a configuration of legcf: it is no object of sections.")
    method = content.get("method")
    result = with_current_keys(content, method.get("name") if isinstance(method, Mapping) else None, report=False)
    if isinstance(result.get("training"), dict):
        result.setdefault("ranking", {})  # up to format 1 its keys stood among the training's
    return result


Section = TypeVar("Section", bound=BaseModel)


def validated(
    section: type[Section], values: Mapping[str, Any], where: str, spelled: Callable[[str], str] | None = None
) -> Section:
    """Build a section, turning the first complaint into a sentence that names the key.

    `spelled` says how a key is called where the values came from; by default as in a config file, `where.key`.
    """
    try:
        return section.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in (where, *first["loc"]) if part)
        if first["type"] == "extra_forbidden":
            raise UserError(unknown_key(key, (f"{where}.{name}" for name in section.model_fields))) from error
        message = first["msg"].removeprefix("Value error, ")
        if not first["loc"]:  # options that do not go together; the input is the whole section
            raise UserError(f"What is set under `{where}` is not possible: {message}.") from error
        message = message[:1].lower() + message[1:]
        if spelled is not None:
            raise UserError(f"{spelled(str(first['loc'][0]))} {first['input']} is not possible: {message}.") from error
        raise UserError(f"{key} = {first['input']!r} is not possible: {message}.") from error


def unknown_key(key: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = difflib.get_close_matches(key, names, n=1)
    hint = f"did you mean `{close[0]}`?" if close else f"known keys are {', '.join(names)}."
    return f"Unknown configuration key `{key}`: {hint}"


def merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Merge nested dictionaries; later ones win."""
    result: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            if isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
                result[key] = merged(result[key], value)
            else:
                result[key] = merged(value) if isinstance(value, Mapping) else value
    return result


def parse_assignments(texts: Iterable[str]) -> dict[str, Any]:
    """Return `training.learning_rate=0.01` lines, as typed after --set, as a nested dictionary."""
    result: dict[str, Any] = {}
    for text in texts:
        key, value = key_and_value(text, "--set", "training.epochs=5")
        result = merged(result, nested(key, value_from_text(value)))
    return result


def nested(key: str, value: Any) -> dict[str, Any]:
    """Return a value under a key such as `training.epochs`, a dictionary for each of its parts."""
    first, _, rest = key.partition(".")
    return {first: nested(rest, value) if rest else value}


def key_and_value(text: str, option: str, example: str) -> tuple[str, str]:
    """Split what was typed after an option as key=value."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UserError(f"`{option} {text}` is not of the form section.key=value, for instance {option} {example}.")
    return key.strip(), value.strip()


def value_from_text(text: str) -> Any:
    """Return the value of a text: a number, true, null, a list in brackets; whatever is not JSON is text."""
    try:
        return parse_json(text)
    except ValueError:
        return text
