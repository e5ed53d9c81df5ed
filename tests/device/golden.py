# SPDX-License-Identifier: Apache-2.0
"""Make model files of every kind, with questions and the answers of Python's Scorer: what every reader is held to.

    python -m tests.device.golden FOLDER     writes NAME.legcf and NAME.json for every kind

A JSON file holds {"questions": [{"ask", "options", "answer"}]}. Ids are text, whatever they are in the file, so that
none is rounded on the way. The answer of a question that is refused is null.
"""

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from legcf.core.arrays import FloatArray
from legcf.core.errors import UserError
from legcf.data.ids import IdMap
from legcf.data.interactions import Interactions
from legcf.features.coder import FeatureCoder, FeatureColumn
from legcf.features.encoder import FeatureEncoder, FeatureMap
from legcf.modelfile.attributes import Attributes, number_column, text_column
from legcf.modelfile.histories import PackedHistories
from legcf.modelfile.served_model import FoldIn, ServedModel
from legcf.ranking.item_lists.lists import ItemLists
from legcf.ranking.tables.embedding_table import CodebookTable, DenseTable, QuantisedTable
from legcf.ranking.tables.packing import TABLE_BITS
from legcf.ranking.tables.pooling import Pooling
from legcf.scoring.explain import Explanation, explain, explain_popular
from legcf.scoring.scorer import Request, Scored, Scorer

KEPT = Path(__file__).parents[1] / "modelfile" / "golden"  # files of former versions
USERS, ITEMS, WIDTH = 24, 130, 12
ODD_TEXTS = ("", "é ☕ 日本 \u202e", "😀", "a\nb", "\ufeffmark", "42", "-7", "<b>&'\"\\", "x" * 300)


def base(seed: int, users: int = USERS, items: int = ITEMS, width: int = WIDTH) -> ServedModel:
    """Return a model in which users are their histories, over a table in float32."""
    rng = np.random.default_rng(seed)
    pairs = histories(rng, users, items)
    popularity = pairs.item_degrees
    return ServedModel(
        items=IdMap.of(np.arange(items), "item"),
        item_rows=DenseTable(vectors(rng, items, width)),
        popularity=popularity,
        users=IdMap.of(np.arange(100, 100 + users), "user"),
        history=PackedHistories.of(pairs),
        pooling=Pooling(0.5, 0.5, popularity),
        card={"name": f"golden {seed}", "metrics": {"ndcg@20": float("nan")}},
        dtype="float32",
    )


def vectors(rng: np.random.Generator, rows: int, width: int) -> FloatArray:
    table: FloatArray = (rng.standard_normal((rows, width)) * rng.gamma(2.0, 0.3, (rows, 1))).astype(np.float32)
    return table


def histories(rng: np.random.Generator, users: int, items: int, weighted: bool = False) -> Interactions:
    """Return pairs in which the second user has nothing and the third everything; popular items come first."""
    mask = rng.random((users, items)) < np.linspace(0.5, 0.02, items)[None]
    mask[1:2] = False
    mask[2:3] = True
    rows, columns = np.nonzero(mask)
    weights = np.exp(rng.standard_normal(len(rows))).astype(np.float32) if weighted else None
    return Interactions.from_pairs(rows, columns, users, items, weights)


def coded(rng: np.random.Generator, rows: int, width: int, codes: int, terms: int) -> CodebookTable:
    columns = rng.integers(0, codes, (rows, terms)).astype(np.uint16)
    weights = rng.standard_normal((rows, terms)).astype(np.float32)
    return CodebookTable(columns, weights, vectors(rng, codes, width))


def lists(rng: np.random.Generator, items: int, density: float, levels: int, power: float) -> ItemLists:
    rows, columns = np.nonzero(rng.random((items, items)) < density)
    pairs = Interactions.from_pairs(rows, columns, items, items)
    values = rng.standard_normal(levels).astype(np.float32)
    return ItemLists(pairs, values[rng.integers(0, levels, pairs.num_pairs)], power)


def attributes(rng: np.random.Generator, items: int) -> Attributes:
    tags = rng.integers(0, 9, 2 * items)
    return Attributes(
        {
            "tag": text_column(rng.integers(0, items, 2 * items), [f"tag {tag} é" for tag in tags], items),
            "brand": text_column(np.arange(items), [str(brand) for brand in rng.integers(0, 30, items)], items),
            "price": number_column(np.where(rng.random(items) < 0.1, np.nan, np.round(rng.gamma(2, 9, items), 2))),
            "year": number_column(rng.integers(-5, 2030, items).astype(np.float64)),
            "large": number_column(rng.integers(0, 4, items) * 2.0**40),
            "half": number_column(rng.integers(0, 9, items) * 0.5),
        }
    )


def encoder(rng: np.random.Generator, width: int) -> FeatureEncoder:
    coder = FeatureCoder((FeatureColumn("kind", "category", width=32),))
    return FeatureEncoder(coder, FeatureMap(vectors(rng, 32, width), np.zeros(width, dtype=np.float32)))


def solved(model: ServedModel, rng: np.random.Generator) -> ServedModel:
    """Return the model with users that are solved from their items, not summed up."""
    settings = FoldIn(*(float(value) for value in rng.random(3)), scale=1.7)
    return replace(model, pooling=None, fold_in=settings)


def make_kinds() -> dict[str, ServedModel]:
    """Return a model of every kind, by the name of the kind."""
    rng = np.random.default_rng(29)
    kinds: dict[str, ServedModel] = {}
    for dtype in ("float32", "float16", "int8"):
        kinds[f"dense-{dtype}"] = replace(base(1), dtype=dtype)
        kinds[f"codes-{dtype}"] = replace(base(2), item_rows=coded(rng, ITEMS, WIDTH, 20, 3), dtype=dtype)
    for bits in TABLE_BITS:
        kinds[f"table-{bits}-bits"] = replace(base(3), item_rows=QuantisedTable.of(vectors(rng, ITEMS, 13), bits))
    wide = base(4, USERS, 3000, 7)
    kinds["codes-many"] = replace(wide, item_rows=coded(rng, 3000, 7, 700, 2), dtype="int8")
    kinds["table-many"] = replace(wide, item_rows=QuantisedTable.of(vectors(rng, 3000, 40), 3))
    kinds["lists"] = replace(base(5), lists=lists(rng, ITEMS, 0.1, 16, 0.5), item_rows=coded(rng, ITEMS, 9, 33, 2))
    kinds["lists-one-level"] = replace(base(6), lists=lists(rng, ITEMS, 0.02, 1, 0.0))
    kinds["lists-fine"] = replace(base(6), lists=lists(rng, ITEMS, 0.2, 700, 0.4), list_bits=10)
    kinds["lists-empty"] = replace(base(6), lists=lists(rng, ITEMS, 0.0, 1, 1.0))
    kinds["lists-alone"] = replace(base(7, width=2), item_rows=DenseTable(np.zeros((ITEMS, 2), dtype=np.float32)),
                                   lists=lists(rng, ITEMS, 0.3, 200, 0.3))  # fmt: skip
    bias = rng.standard_normal(ITEMS).astype(np.float32)
    kinds["bias"] = replace(base(8), item_bias=bias)
    kinds["bias-float16"] = replace(base(8), item_bias=bias, dtype="float16")
    titles = [f"Title {item} é" for item in range(ITEMS - len(ODD_TEXTS))] + list(ODD_TEXTS)
    kinds["titles"] = replace(base(9), titles=titles)
    kinds["text-ids"] = replace(
        base(10),
        items=IdMap.of([*(f"i/{item}" for item in range(ITEMS - len(ODD_TEXTS))), *ODD_TEXTS], "item"),
        users=IdMap.of([f"u{user}" for user in range(USERS)], "user"),
    )
    kinds["integer-ids"] = replace(
        base(11),
        items=IdMap.of(rng.permutation(ITEMS) * 7 - 300, "item"),
        users=IdMap.of(rng.permutation(USERS).astype(np.uint64) * np.uint64(2**40) + np.uint64(2**63), "user"),
    )
    kinds["range-ids"] = replace(
        base(12),
        items=IdMap.of(np.arange(ITEMS) + (2**53 - 60), "item"),
        users=IdMap.of(np.arange(-USERS, 0) - 2**60, "user"),
    )
    kinds["attributes"] = replace(base(13), attributes=attributes(rng, ITEMS), titles=titles)
    kinds["weights"] = replace(base(14), history=PackedHistories.of(histories(rng, USERS, ITEMS, weighted=True)))
    for kind, model in {"with-order": kinds["weights"], "with-order-new": base(14)}.items():
        assert model.pooling is not None
        kinds[kind] = replace(model, pooling=replace(model.pooling, half_life=1.5))
    kinds["weights-lists"] = replace(kinds["weights"], lists=lists(rng, ITEMS, 0.1, 5, 0.5))
    kinds["solved"] = solved(replace(base(15), item_rows=coded(rng, ITEMS, WIDTH, 20, 3)), rng)
    kinds["solved-weights"] = solved(kinds["weights"], rng)
    kinds["solved-new"] = replace(solved(base(16), rng), users=None, history=None)
    kinds["users-coded"] = solved(
        replace(base(17), item_rows=coded(rng, ITEMS, WIDTH, 20, 3), user_rows=coded(rng, USERS, WIDTH, 20, 3)), rng
    )
    book = kinds["users-coded"].item_rows
    assert isinstance(book, CodebookTable)
    users = replace(kinds["users-coded"].user_rows, codebook=book.codebook)  # type: ignore[type-var]
    kinds["users-coded"] = replace(kinds["users-coded"], user_rows=users, dtype="int8")
    kinds["users-coded-alone"] = replace(kinds["users-coded"], history=None)
    kinds["users-table"] = replace(base(18), user_rows=QuantisedTable.of(vectors(rng, USERS, WIDTH), 4))
    kinds["users-full"] = replace(solved(base(19), rng), user_rows=DenseTable(vectors(rng, USERS, WIDTH)))
    disliked = Interactions.from_pairs(*np.nonzero(rng.random((USERS, ITEMS)) < 0.1), USERS, ITEMS)
    kinds["dislikes"] = replace(base(27), dislikes=PackedHistories.of(disliked))
    kinds["repeats"] = replace(
        kinds["weights-lists"], repeats=True, lists=lists(rng, ITEMS, 0.1, 5, 0.5).with_repeats(0.7)
    )
    kinds["no-users"] = replace(base(20), users=None, history=None)
    kinds["users-in-name"] = replace(base(20), history=None)
    kinds["features"] = replace(base(21), encoder=encoder(rng, WIDTH))
    kinds["user-features"] = replace(base(21), user_encoder=encoder(rng, WIDTH))
    kinds["one-item"] = base(22, 2, 1, 3)
    kinds["one-item-coded"] = replace(base(22, 2, 1, 3), item_rows=coded(rng, 1, 3, 1, 1))
    kinds["nobody"] = base(23, 0, 5, 3)
    kinds["everybody-alike"] = replace(base(24), item_rows=DenseTable(np.ones((ITEMS, 4), dtype=np.float32)))
    kinds["ties"] = replace(base(25), item_rows=ties(rng, ITEMS))
    kinds.update(near_ties(rng))
    kinds["zero"] = replace(base(26), item_rows=DenseTable(np.zeros((ITEMS, 4), dtype=np.float32)))
    kinds["all"] = replace(
        kinds["users-coded"], lists=lists(rng, ITEMS, 0.1, 16, 0.5), item_bias=bias, titles=titles,
        attributes=attributes(rng, ITEMS), history=kinds["weights"].history, encoder=encoder(rng, WIDTH),
    )  # fmt: skip
    return kinds


def ties(rng: np.random.Generator, items: int) -> CodebookTable:
    """Return codes that many items share."""
    table = coded(rng, items, WIDTH, 6, 2)
    return replace(table, columns=table.columns[np.arange(items) % 9], values=table.values[np.arange(items) % 9])


NEAR = ("near-codes", "near-codes-lists", "near-dense", "near-table", "near-table-fine")
"""Kinds that say nothing of explanations: what is next to nothing may be a reason or not."""


def near_ties(rng: np.random.Generator) -> dict[str, ServedModel]:
    """Return models of every kind of table whose scores lie one or a few float32 steps apart, or not at all."""
    steps = (1 + rng.integers(-2, 3, (ITEMS, 1)) * np.float32(2.0**-23)).astype(np.float32)
    repeated = np.arange(ITEMS) % 9
    codes = coded(rng, ITEMS, 70, 40, 3)
    codes = replace(codes, columns=codes.columns[repeated], values=codes.values[repeated] * steps)
    dense = DenseTable(vectors(rng, ITEMS, 67)[repeated] * steps)
    table = QuantisedTable.of(vectors(rng, ITEMS, 66), 3)
    table = replace(table, values=table.values[repeated], scales=table.scales[repeated])
    small = lists(rng, ITEMS, 0.3, 9, 0.5)
    small = replace(small, weights=small.weights * np.float32(1e-6))
    weighted = PackedHistories.of(histories(rng, USERS, ITEMS, weighted=True))
    bias = (rng.standard_normal(ITEMS) * 1e-7).astype(np.float32)
    models = (
        replace(base(28), item_rows=codes),
        replace(base(28), item_rows=codes, lists=small, history=weighted),
        replace(base(29), item_rows=dense, item_bias=bias, history=weighted),
        replace(base(30), item_rows=table, lists=small),
        replace(base(31), item_rows=replace(table, values=table.values % 2, bits=1), lists=small),
    )
    return dict(zip(NEAR, models, strict=True))


def is_defined(model: ServedModel, ask: str, options: Mapping[str, Any]) -> bool:
    """Return whether the file format prescribes the answer to the last bit, so that no two scores are too near.

    It does not where users are solved for, items are weighed by their order, or lists are made unlike themselves.
    """
    in_order = model.pooling is not None and (model.pooling.half_life is None or not options.get("items"))
    return ask == "recommend" and in_order and not options.get("diversity")


def questions(model: ServedModel, rng: np.random.Generator) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what is asked of a model: the name of the question and its options."""
    items = [str(identifier) for identifier in model.items.values.tolist()]
    users = [] if model.users is None else [str(identifier) for identifier in model.users.values.tolist()]
    some = [items[index] for index in rng.integers(0, len(items), 5)]
    few = some[:2]
    yield "recommend", {}
    for user in users:
        yield "recommend", {"user": user}
        yield "recommend", {"user": user, "k": 7, "exclude_seen": False}
    for user in users[:4]:
        yield "recommend", {"user": user, "items": few}
        yield "explain", {"user": user, "item": items[-1]}
        yield "explain", {"user": user, "items": some, "item": items[0]}
    yield "recommend", {"user": "nobody by this name"}
    for spelling in ("nothing by this name", f"0{items[0]}", f"+{items[0]}", f" {items[0]}", ""):
        yield "recommend", {"items": [spelling]}
    for k in (0, 1, 3, len(items), len(items) + 5):
        yield "recommend", {"items": few, "k": k}
    yield "recommend", {"items": [*some, *few], "k": 10}
    yield "recommend", {"items": few, "allow": [*some, *items[:9]]}
    yield "recommend", {"items": few, "allow": []}
    yield "recommend", {"items": few, "deny": items[::2]}
    yield "recommend", {"items": few, "allow": items[:9], "deny": items[:4], "exclude_seen": False}
    for diversity in (0.3, 0.8):
        yield "recommend", {"items": some, "diversity": diversity, "k": 6}
    for item in [*few, items[0], items[-1]]:
        yield "similar", {"item": item, "k": 9}
        yield "explain", {"items": some, "item": item}
    yield "explain", {"item": items[0]}
    yield from _questions_of_attributes(few)


def _questions_of_attributes(few: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield filters and caps; a model without attributes refuses them."""
    filters: list[Mapping[str, Any]] = [
        {"tag": "tag 3 é"}, {"tag": ["tag 1 é", "tag 2 é", "none such"]}, {"tag": {"not": "tag 4 é"}},
        {"brand": 3}, {"brand": {"any": ["1", "2", "3", "4", "5"], "not": ["2"]}},
        {"price": {"min": 5, "max": 20}}, {"price": {"max": 9.5}}, {"price": {"not": {"min": 9.5}}},
        {"year": {"min": 0}, "tag": {"not": ["tag 5 é"]}}, {"large": 2.0**40}, {"half": [0.5, "1.5"]},
        {"tag": {"min": 3}}, {"price": "cheap"}, {"price": {"about": 3}}, {"colour": "red"},
    ]  # fmt: skip
    for condition in filters:
        yield "recommend", {"items": few, "filter": condition, "k": 12}
    for cap in ({"tag": 1}, {"brand": 1, "year": 2}, {"price": 1}, {"colour": 1}):
        yield "recommend", {"items": few, "cap": cap, "k": 30}
    yield "recommend", {"items": few, "cap": {"tag": 2}, "filter": {"year": {"min": 0}}, "diversity": 0.4, "k": 8}


def answer(scorer: Scorer, ask: str, options: dict[str, Any]) -> Any:
    """Return the Scorer's answer as JSON has it; None where it refuses."""
    try:
        return _ASKED[ask](scorer, options)
    except UserError:
        return None


def _recommend(scorer: Scorer, options: dict[str, Any]) -> Any:
    return [_scored(one) for one in scorer.recommend(Request(**options))]


def _similar(scorer: Scorer, options: dict[str, Any]) -> Any:
    return [_scored(one) for one in scorer.similar_items(options["item"], options["k"])]


def _explain(scorer: Scorer, options: dict[str, Any]) -> Any:
    profile = scorer.profile(Request(options.get("user"), options.get("items", ())))
    position = scorer.model.items.position(options["item"])
    if scorer.fallback(profile) is None:
        return _explained(explain(scorer, profile, [position])[0])
    popular = Scored(scorer.model.items.external([position])[0], float(scorer.model.popularity[position]), "")
    return _explained(explain_popular([popular])[0])


_ASKED: dict[str, Callable[[Scorer, dict[str, Any]], Any]] = {
    "recommend": _recommend, "similar": _similar, "explain": _explain,
}  # fmt: skip


def _scored(one: Scored) -> dict[str, Any]:
    return {"id": str(one.id), "score": one.score, "name": one.name, "fallback": one.fallback}


def _explained(one: Explanation) -> dict[str, Any]:
    shared = [
        {"meta": part.meta, "contribution": part.contribution, "examples": [_scored(item) for item in part.examples]}
        for part in one.shared
    ]
    because = [_scored(item) for item in one.because]
    return {"item": str(one.item), "score": one.score, "neighbours": one.list_score, "shared": shared,
            "because": because, "text": one.text}  # fmt: skip


def write_golden(folder: Path) -> list[str]:
    """Write a file of every kind, and those that were kept of former versions, with questions and answers.

    Return the names of the files.
    """
    for name, model in make_kinds().items():
        model.save(folder / f"{name}.legcf")
    for path in KEPT.glob("*.legcf"):
        shutil.copyfile(path, folder / f"kept-{path.name}")
    names = sorted(path.stem for path in folder.glob("*.legcf"))
    for seed, name in enumerate(names):
        scorer = Scorer.load(folder / f"{name}.legcf")
        asked = list(questions(scorer.model, np.random.default_rng(seed)))
        asked = [(ask, options) for ask, options in asked if ask == "recommend" or name not in NEAR]
        lines = [
            {"ask": ask, "options": options, "answer": answer(scorer, ask, options)}
            for ask, options in asked
            if ask == "explain" or is_defined(scorer.model, ask, options) or _is_clear(scorer, ask, options)
        ]
        (folder / f"{name}.json").write_text(json.dumps({"questions": lines}))
    return names


def _is_clear(scorer: Scorer, ask: str, options: dict[str, Any]) -> bool:
    """Return whether no two scores, the first that is left out included, are so near that rounding orders them.

    Sums in float32 differ in the last digit with the order in which a machine's library adds. Equal scores are clear.
    """
    whole = {key: value for key, value in options.items() if key not in {"cap", "diversity"}}
    scores = [one["score"] for one in answer(scorer, ask, {**whole, "k": len(scorer.model.items)}) or []]
    gaps = -np.diff(scores)
    return not bool(((gaps > 0) & (gaps < 1e-6 * max(map(abs, scores), default=0))).any())


def differences(expected: Any, found: Any, largest: float | None = None) -> list[str]:
    """Return where an answer differs from the golden one. Scores may differ by 1e-4 of the largest in the answer."""
    if largest is None:
        largest = max(map(abs, _numbers(expected)), default=0.0)
    if isinstance(expected, dict) and isinstance(found, dict):
        pairs = [(f".{key}", expected[key], found.get(key)) for key in expected]
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = [(f"[{index}]", one, other) for index, (one, other) in enumerate(zip(expected, found, strict=True))]
    elif isinstance(expected, float) and isinstance(found, int | float):
        return [] if abs(expected - found) <= 1e-4 * largest else [f": {found} instead of {expected}"]
    else:
        return [] if expected == found else [f": {found!r} instead of {expected!r}"]
    return [f"{where}{text}" for where, one, other in pairs for text in differences(one, other, largest)]


def _numbers(answer: Any) -> Iterator[float]:
    if isinstance(answer, float):
        yield answer
    elif isinstance(answer, dict | list):
        for part in answer.values() if isinstance(answer, dict) else answer:
            yield from _numbers(part)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    print("\n".join(write_golden(target)))
