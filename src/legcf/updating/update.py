# SPDX-License-Identifier: Apache-2.0
"""Put new pairs into a trained model without training: new and much changed items are solved again in closed form.

An update is a function of the model as it was last trained and of all pairs that have come since. So updates in a row
give what one with all their pairs gives, the same pairs twice change nothing, and errors do not add up; what an update
costs grows with all that has changed since the training.
"""

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legcf.core import threads
from legcf.core.arrays import Positions
from legcf.core.errors import UserError
from legcf.data.interactions import Dataset, Interactions
from legcf.embeddings.budget import without_budget
from legcf.evaluation.evaluate import eval_users, evaluate, sample_eval_users
from legcf.evaluation.evaluator import Evaluator
from legcf.features.encoder import FeatureEncoder
from legcf.features.entity_features import EntityFeatures
from legcf.modelfile.served_model import EVENT_WEIGHTS, encoder_bytes
from legcf.ranking.builder import RankingBuilder
from legcf.ranking.item_lists.recipe import ListFitter
from legcf.ranking.ranking import Ranking
from legcf.server.state.event_log import MARK_KEY
from legcf.training.assess import ByteBudget, assess, peak_memory_mb
from legcf.training.build import Model, make_model
from legcf.training.run_folder import TrainedModel
from legcf.updating.cold import ItemTable, blended, described, known_features, with_items
from legcf.updating.lists import renewed_lists
from legcf.updating.merge import NO_CHANGES, Changes, MergedData, grown_dataset, merge
from legcf.updating.vectors import RESOLVE_SHARE, changed_vectors, new_share, settings_for, trained_vectors

LEAST_RATIO = 0.97
"""Share of the trained model's validation NDCG@20. Below it, training anew is due. A rule of thumb, not measured: in
docs/updating.md an update with a tenth of new pairs keeps 98.5 % to 99.8 % of what training on all of them gives."""
MOST_GROWTH = 0.5
"""Pairs since the training, as a share of those it had. From there on training anew is due as well. A rule of thumb,
not measured: docs/updating.md has updates with a tenth of new pairs."""
REWEIGH_GROWTH = 0.05
"""The same share, from which on the weight of the lists is chosen again: the best one depends on how many pairs the
lists were solved from. Below it, trying weights would take longer than all else. Other shares were not recorded."""
_DRIFT = "ndcg@20"  # the metric that is compared before and after


def update(
    trained: TrainedModel,
    new: Dataset | None,
    data: Dataset | None = None,
    threshold: float = RESOLVE_SHARE,
    about: ItemTable | None = None,
    changes: Changes = NO_CHANGES,
) -> TrainedModel:
    """Return `trained` with every pair of `new` and with the features `about` items, some of which nobody may have yet.

    `data` is what it was first trained on, to measure by, if it is at hand. Items are solved again of which at least
    the share `threshold` is new (`vectors.new_share`), and from `REWEIGH_GROWTH` on validation pairs choose the weight
    of the lists. `changes` are pairs that were taken back or are dislikes now. The metrics of the result say under
    `updated` what was done and whether training anew is due.
    """
    started = time.perf_counter()
    threads.use(trained.config.training.threads)
    base = trained.base or trained
    refuse_others(base)
    merged = merge(base, trained, with_items(trained, new, about), changes)
    changed = new_share(merged.train, merged.added) >= max(threshold, np.finfo(np.float64).tiny)
    features = known_features(base, trained, merged, about)
    model = _grown_model(base, merged, changed, features)
    nothing = Interactions.empty(len(merged.users), len(merged.items))
    name, protocol = str(base.metrics["dataset"]), str(base.metrics["protocol"])
    empty = Dataset(name, protocol, merged.users, merged.items, merged.train, nothing, nothing, merged.titles)
    ranking = _ranked(base, model, empty, changed, None if features is None else features.encoder)
    ranking = replace(ranking, dislikes=merged.dislikes)
    config, growth = model_config(base), merged.added.num_pairs / max(base.ranking.histories.num_pairs, 1)
    user_encoder = trained.user_encoder
    if user_encoder is not None:
        same_items = ranking.items[merged.items.find_all(trained.items)]
        user_encoder = user_encoder.facing(trained.ranking.items, same_items)
    result = TrainedModel(
        model, ranking, merged.known, config, merged.users, merged.items, merged.titles, {}, base.curve, features,
        user_encoder, base,
    )  # fmt: skip
    dataset = empty if data is None else grown_dataset(data, result)
    watching = sample_eval_users(dataset.validation, config.training.validation_users, config.seed)
    again = growth >= REWEIGH_GROWTH and _can_weigh(result, dataset)
    result = _weighed_again(result, dataset.validation, watching) if again else result
    metrics = assess(model, result.ranking, dataset, result.config, watching)
    if merged.weighed_at is not None:
        metrics["weighed_at"] = merged.weighed_at
    metrics["content_hash"] = base.metrics.get("content_hash")  # of the data, which is where held-out pairs are from
    metrics["updated"] = {
        "pairs": merged.added.num_pairs,
        "new_users": len(merged.users) - len(base.users),
        "new_items": len(merged.items) - len(base.items),
        "items_nobody_has": int((merged.train.item_degrees[len(base.items) :] == 0).sum()),
        "solved_items": int(changed.sum()),
        "threshold": threshold,
        "lists_weighed_again": again,
        "growth": growth,
        **_drift(base, growth, metrics["validation"].get(_DRIFT), dataset.validation, watching, data),
    }
    metrics["seconds"] = {"this_session": time.perf_counter() - started}
    metrics["peak_rss_mb"] = peak_memory_mb()
    kept = ["final", "best_epoch", EVENT_WEIGHTS]
    if "final" in base.metrics:  # it has seen every pair to measure by, and keeps the accuracy of what was chosen
        kept += ["validation", "test"]
    metrics |= {key: base.metrics[key] for key in kept if key in base.metrics}
    metrics |= {key: trained.metrics[key] for key in (MARK_KEY, "user_features") if key in trained.metrics}
    return replace(result, metrics=metrics)


def refuse_others(base: TrainedModel) -> None:
    """Refuse models whose users are not their histories: there new pairs change more than vectors of items."""
    if base.ranking.pooling is None or base.config.ranking.norm_power != 1:
        raise UserError(
            f"A model of {base.config.method.name} on {base.config.backbone.name} cannot be updated, for its users are"
            " more than their histories: train again, with the default preset if it is to be updated later."
        )
    if base.config.ranking.half_life_items is not None:
        raise UserError(
            "A model with ranking.half_life_items cannot be updated, for it does not keep when its pairs were: train"
            " again with the new ones."
        )


def model_config(base: TrainedModel) -> Any:
    """Return the settings with all sizes fixed: a budget gives other sizes for other numbers of users and items."""
    config = base.config
    return config.model_copy(update={"method": without_budget(config.method)})


def _grown_model(
    base: TrainedModel, merged: MergedData, changed: NDArray[np.bool_], features: EntityFeatures | None
) -> Model:
    items, pooling = trained_vectors(base)
    settings = settings_for(base.model.layer.als_settings, items, base.ranking.histories, pooling)
    solved = np.flatnonzero(changed | described(base, features, len(merged.items)))
    vectors = changed_vectors(items, base.ranking.histories, merged.train, solved, pooling, settings)
    if features is not None:
        vectors = blended(vectors, solved, merged.train.item_degrees, len(base.items), features)
    config = model_config(base)

    def fill(model: Any) -> None:
        model.layer.take_items(base.model.layer, solved, vectors)
        if model.backbone.learns:
            learned: Any = base.model.backbone
            model.backbone.load_state_dict(learned.state_dict())

    return make_model(config, merged.train, fill)


def _ranked(
    base: TrainedModel, model: Model, dataset: Dataset, changed: NDArray[np.bool_], encoder: FeatureEncoder | None
) -> Ranking:
    settings, lists = base.config.ranking, base.ranking.lists
    budget = ByteBudget.of(base.config, dataset)
    byte_budget = None if budget is None else budget.left(base.config.method)
    if byte_budget is not None and encoder is not None:
        byte_budget = max(byte_budget - encoder_bytes(encoder), 0)  # the file keeps to its size with the map in it
    if lists is not None and lists.scale:
        builder = RankingBuilder(settings, byte_budget)
        ranking = builder.quantised(model.ranking())
        own, entries = lists.repeat_weight, builder.entries(ranking)
        renewed = renewed_lists(lists.without_repeats(), dataset.train, changed, settings, entries)
        if base.ranking.repeats:
            return replace(ranking, lists=renewed.with_repeats(own), repeats=True)
        return replace(ranking, lists=renewed)
    # No lists, or of a run that does not say how they were scaled: as after a training.
    return RankingBuilder(settings, byte_budget, ListFitter(dataset.train)).build(model.ranking(), None).ranking


def _can_weigh(result: TrainedModel, dataset: Dataset) -> bool:
    lists = result.ranking.lists
    has_lists = lists is not None and lists.num_entries > 0 and lists.scale > 0
    fixed = result.ranking.repeats  # what an item adds to its own score was weighed with the others
    return has_lists and not fixed and result.config.ranking.fit_weight and dataset.validation.num_pairs > 0


def _weighed_again(result: TrainedModel, validation: Interactions, watching: Positions | None) -> TrainedModel:
    """Choose the weight of the lists as a training does."""
    config, lists = result.config, result.ranking.lists
    assert lists is not None
    evaluator = Evaluator(validation, config.training.monitor, watching)

    def objective(ranking: Ranking, facts: dict[str, Any]) -> float:
        return evaluator.selection_score(evaluator.metrics(ranking))

    tuned = RankingBuilder(config.ranking).with_list_weight(result.ranking, lists, config.ranking, objective)
    return replace(result, ranking=tuned.ranking, config=config.model_copy(update={"ranking": tuned.config}))


def _drift(
    base: TrainedModel,
    growth: float,
    after: float | None,
    left: Interactions,
    watching: Positions | None,
    data: Dataset | None,
) -> dict[str, Any]:
    """Compare the updated model with the trained one on the validation pairs that are left, and say if training is due.

    If all validation pairs are still held out and all users are evaluated, the score stored at training time is reused.
    """
    ratio = None
    if after is not None and data is not None:
        kept = Interactions(left.indptr[: len(base.users) + 1], left.items, len(base.items))
        all_held_out = watching is None and left.num_pairs == data.validation.num_pairs
        before = base.metrics["validation"].get(_DRIFT) if all_held_out else None
        if before is None:
            users = eval_users(kept) if watching is None else watching
            before = evaluate(base.ranking, kept, (20,), users, metrics=("ndcg",))[_DRIFT]
        ratio = after / before if before else None
    is_worse = ratio is not None and ratio < LEAST_RATIO
    return {"validation_ratio": ratio, "retrain": is_worse or growth >= MOST_GROWTH}
