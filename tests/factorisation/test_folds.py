# SPDX-License-Identifier: Apache-2.0
"""Folds hold out everyone's pairs once, are judged as dense matrices are, and settle what a factorisation needs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legcf.data.interactions import Interactions
from legcf.factorisation import folds as module
from legcf.factorisation.als import AlsSettings, factorise
from legcf.factorisation.folds import Fold, best_factorisation, folds
from legcf.factorisation.history_vectors import history_items
from tests.helpers import planted, random_interactions


def _keys(pairs: Interactions) -> np.ndarray:
    return pairs.users().astype(np.int64) * pairs.num_items + pairs.items


@settings(max_examples=20, deadline=None)
@given(users=st.integers(1, 30), items=st.integers(1, 30), seed=st.integers(0, 99))
def test_few_pairs_are_all_held_out_once(users: int, items: int, seed: int) -> None:
    train = random_interactions(users, items, 0.4, seed=seed)
    made = folds(train, np.random.default_rng(seed))
    for fold in made:
        assert np.array_equal(np.sort(np.concatenate([_keys(fold.seen), _keys(fold.hidden)])), np.sort(_keys(train)))
        assert (np.abs(fold.hidden.user_degrees - train.user_degrees / 5) <= 1).all()
    assert np.array_equal(np.sort(np.concatenate([_keys(fold.hidden) for fold in made])), np.sort(_keys(train)))


def test_where_pairs_are_enough_one_fold_does(monkeypatch: pytest.MonkeyPatch) -> None:
    train = random_interactions(30, 30, 0.4, seed=1)
    monkeypatch.setattr(module, "_ENOUGH_PAIRS", train.num_pairs // 5)
    assert len(folds(train, np.random.default_rng(0))) in (1, 2)
    monkeypatch.setattr(module, "MANY_PAIRS", 100)
    fold = folds(train, np.random.default_rng(0))[0]
    assert fold.seen.num_pairs + fold.hidden.num_pairs < train.num_pairs


def test_a_fold_is_judged_as_dense_matrices_are() -> None:
    fold = folds(random_interactions(40, 60, 0.3, seed=2), np.random.default_rng(0))[0]
    chosen = AlsSettings(alpha=5.0, regularisation=1.0)
    vectors = factorise(fold.seen, 6, np.random.default_rng(7), chosen)
    items = history_items(fold.seen, *vectors)
    known, wanted = (part.to_scipy().toarray() > 0 for part in (fold.seen, fold.hidden))
    history = known / np.sqrt(np.maximum(known.sum(1, keepdims=True), 1) * np.maximum(known.sum(0), 1))
    scores = np.where(known, -np.inf, history @ items @ items.T)
    gains, recalls, ndcgs = 1 / np.log2(np.arange(2, 22)), [], []
    for user in np.flatnonzero(wanted.any(axis=1)):
        hits = wanted[user][np.argsort(-scores[user], kind="stable")[:20]]
        recalls.append(hits.sum() / wanted[user].sum())
        ndcgs.append(hits @ gains / gains[: wanted[user].sum()].sum())
    assert fold.score(vectors) == pytest.approx(np.sqrt(np.mean(recalls) * np.mean(ndcgs)), rel=0.02)


def test_what_is_found_is_no_worse_than_the_first_guess_and_the_same_again() -> None:
    dataset = planted(60, 80)
    found = [best_factorisation(dataset, 8, np.random.default_rng(3), AlsSettings(rounds=2)) for _ in range(2)]
    assert found[0] == found[1]
    assert found[0].rounds == 2
    assert found[0].alpha is not None
    rng = np.random.default_rng(3)
    tried_on = [Fold(dataset.train, dataset.validation), *folds(dataset.train, rng)[:2]]
    seed = int(rng.integers(2**32))

    def both(trial: AlsSettings, rounds: int) -> float:
        trial = trial.model_copy(update={"rounds": rounds})
        scores = [fold.score(factorise(fold.seen, 8, np.random.default_rng(seed), trial)) for fold in tried_on]
        return scores[0] + sum(scores[1:]) / len(scores[1:])

    assert both(found[0], rounds=8) >= 0.98 * both(AlsSettings(alpha=10.0, regularisation=20.0), rounds=8)


def test_without_pairs_to_find_the_first_guess_stays() -> None:
    dataset = planted(60, 80)
    train = Interactions.from_pairs(np.arange(3), np.arange(3), 60, 80)
    nothing = type(dataset)(
        "few", "ratio", dataset.users, dataset.items, train, Interactions.empty(60, 80), Interactions.empty(60, 80)
    )
    chosen = best_factorisation(nothing, 2, np.random.default_rng(0), AlsSettings(rounds=1))
    assert np.isfinite(chosen.regularisation)
