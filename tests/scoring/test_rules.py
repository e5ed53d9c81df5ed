# SPDX-License-Identifier: Apache-2.0
"""Rules of requests against brute force, on random attributes; attributes in and out of a file."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from legcf.core.errors import UserError
from legcf.modelfile.attributes import Attributes, BadRule, number_column, text_column
from legcf.modelfile.served_model import ServedModel
from legcf.scoring.extend import NewItem, with_new_items
from legcf.scoring.rules import Caps, allowed_items, choose
from legcf.scoring.scorer import Request, Scorer
from legcf.server.app import create_app
from legcf.server.settings import Settings

from ..served import ITEMS, values_of

VALUES = ["tea", "café", "", "0", "true", "a|b"]
_texts = st.lists(st.lists(st.sampled_from(VALUES), max_size=3), min_size=ITEMS, max_size=ITEMS)
_numbers = st.lists(
    st.none() | st.sampled_from([0.0, 1.0, 2.5, 19.99, -3.0, 1e9]) | st.floats(-5, 5), min_size=ITEMS, max_size=ITEMS
)
_some_texts = st.sampled_from([*VALUES, "unknown", True, 0])
_some_numbers = st.sampled_from([0, 1, 2.5, 19.99, -3, "2.5", 7]) | st.floats(-6, 6)
_ends = st.none() | st.sampled_from([-3.0, 0.0, 2.5, 19.99, 1e9]) | st.floats(-6, 6)
_spans = st.tuples(_ends, _ends).map(
    lambda ends: {name: end for name, end in zip(("min", "max"), ends, strict=True) if end is not None}
)


def _conditions(scalar: st.SearchStrategy[Any], spans: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    plain = scalar | st.lists(scalar, max_size=3)
    return (
        plain
        | spans
        | (plain | spans).map(lambda condition: {"not": condition})
        | st.tuples(plain, spans, plain).map(lambda parts: {"any": parts[0], **parts[1], "not": parts[2]})
    ).filter(lambda condition: condition != {} and condition != {"not": {}})


_filters = st.fixed_dictionaries(
    {},
    optional={
        "kind": _conditions(_some_texts, st.just({"any": ["tea"]})),
        "price": _conditions(_some_numbers, _spans),
    },
).filter(bool)


def _written(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def _satisfies(own: Any, condition: Any) -> bool:
    """As the rules are written down, for one item and one attribute: a set of texts, or a number or None."""
    if isinstance(condition, dict):
        good = True
        if "min" in condition:
            good &= own is not None and own >= condition["min"]
        if "max" in condition:
            good &= own is not None and own <= condition["max"]
        if "any" in condition:
            good &= _satisfies(own, condition["any"])
        if "not" in condition:
            good &= not _satisfies(own, condition["not"])
        return good
    wanted = condition if isinstance(condition, list) else [condition]
    if isinstance(own, set):
        return any(_written(value) in own for value in wanted)
    return own is not None and any(float(value) == own for value in wanted)


def _attributes(texts: list[list[str]], numbers: list[float | None]) -> Attributes:
    pairs = [(item, value) for item, values in enumerate(texts) for value in values]
    columns: dict[str, Any] = {}
    if pairs:
        columns["kind"] = text_column(np.array([item for item, _ in pairs]), [value for _, value in pairs], ITEMS)
    if any(number is not None for number in numbers):
        columns["price"] = number_column(np.array([np.nan if number is None else number for number in numbers]))
    return Attributes(columns)


@settings(max_examples=60, deadline=None)
@given(_texts, _numbers, _filters, st.integers(0, 59), st.integers(1, 30), st.data())
def test_the_answer_is_the_best_of_what_is_allowed(
    model: ServedModel, texts: Any, numbers: Any, wanted: dict[str, Any], user: int, k: int, data: Any
) -> None:
    attributes = _attributes(texts, numbers)
    wanted = {name: condition for name, condition in wanted.items() if name in attributes.columns}
    deny = data.draw(st.lists(st.sampled_from([f"i/{item}" for item in range(ITEMS)]), max_size=3))
    own = {"kind": [set(values) for values in texts], "price": numbers}
    allowed = [
        all(_satisfies(own[name][item], condition) for name, condition in wanted.items()) for item in range(ITEMS)
    ]
    if wanted:
        assert allowed_items(attributes, wanted).tolist() == allowed
    scorer = Scorer(replace(model, attributes=attributes))
    found = scorer.recommend(Request(user=f"u{user}", k=k, filter=wanted, deny=deny))
    everything = scorer.recommend(Request(user=f"u{user}", k=ITEMS, deny=deny))
    assert found == [entry for entry in everything if allowed[int(str(entry.id)[2:])]][:k]


@settings(max_examples=30, deadline=None)
@given(_texts, _numbers)
def test_attributes_come_back_from_a_file(model: ServedModel, tmp_path_factory: Any, texts: Any, numbers: Any) -> None:
    attributes = _attributes(texts, numbers)
    path: Path = tmp_path_factory.getbasetemp() / "attributes.legcf"
    sizes = replace(model, attributes=attributes).save(path)
    back = ServedModel.load(path).attributes
    assert back is not None
    assert [values_of(back, item) for item in range(ITEMS)] == [values_of(attributes, item) for item in range(ITEMS)]
    assert back.described() == attributes.described()
    assert (sizes["attributes"] > 0) is bool(attributes.columns)


def _shop(model: ServedModel) -> Scorer:
    brands = text_column(np.arange(ITEMS), [f"b{item // 3 % 4}" for item in range(ITEMS)], ITEMS)
    return Scorer(replace(model, attributes=Attributes({"brand": brands})))


def test_columns_are_small(model: ServedModel, tmp_path: Path) -> None:
    """A few bits for each item: a brand, a price in cents, whether it is in stock."""
    rng = np.random.default_rng(0)
    prices = number_column(rng.integers(1, 200, ITEMS).astype(float))
    stock = text_column(np.arange(ITEMS), ["true" if item % 3 else "false" for item in range(ITEMS)], ITEMS)
    sizes = replace(model, attributes=Attributes({"price": prices, "in_stock": stock})).save(tmp_path / "model")
    assert sizes["attributes"] <= ITEMS * (1 + 1) + 200 + 100


@pytest.mark.parametrize("k", [1, 5, 12, 60])
@pytest.mark.parametrize("most", [1, 3])
def test_caps_take_the_best_that_have_room(model: ServedModel, k: int, most: int) -> None:
    scorer = _shop(model)
    wanted: list[Any] = []
    counts: dict[int, int] = {}
    for entry in scorer.recommend(Request(user="u4", k=ITEMS)):
        brand = int(str(entry.id)[2:]) // 3 % 4
        if counts.get(brand, 0) < most and len(wanted) < k:
            counts[brand] = counts.get(brand, 0) + 1
            wanted.append(entry)
    assert scorer.recommend(Request(user="u4", k=k, cap={"brand": most})) == wanted


def test_an_item_of_several_values_needs_room_in_all() -> None:
    tags = text_column(np.array([0, 0, 1, 2]), ["a", "b", "b", "c"], 4)
    caps = Caps(Attributes({"tag": tags}), {"tag": 1})
    assert [caps.take(item) for item in range(4)] == [True, False, True, True]  # the last has no tag


@pytest.mark.parametrize("diversity", [0.0, 0.5])
def test_caps_that_refuse_nearly_everything_take_time_in_proportion_to_the_items(diversity: float) -> None:
    """Half a second; when every refusal looked at all items again, 20 s without diversity."""
    count = 150_000
    rng = np.random.default_rng(0)
    brands = Attributes({"brand": text_column(np.arange(count), [f"b{item % 20}" for item in range(count)], count)})
    scores = np.sort(rng.random(count, dtype=np.float32))[::-1]
    vectors = rng.standard_normal((count, 8), dtype=np.float32)
    start = time.process_time()
    taken = choose(range(count), scores, vectors if diversity else None, 25, diversity, Caps(brands, {"brand": 1}))
    assert time.process_time() - start < 8
    assert sorted(item % 20 for item in taken) == list(range(20))


def test_diversity_trades_scores_for_difference(model: ServedModel) -> None:
    scorer = _shop(model)
    vectors = model.item_rows.vectors(slice(None))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def likeness(diversity: float) -> float:
        found = scorer.recommend(Request(user="u4", k=10, diversity=diversity))
        assert len({entry.id for entry in found}) == 10
        chosen = unit[[int(str(entry.id)[2:]) for entry in found]]
        return float(((chosen @ chosen.T).sum() - 10) / 90)

    plain = scorer.recommend(Request(user="u4", k=10))
    assert scorer.recommend(Request(user="u4", k=10, diversity=0.0)) == plain
    assert scorer.recommend(Request(user="u4", k=10, diversity=1e-9)) == plain
    alike = [likeness(diversity) for diversity in (0.0, 0.3, 1.0)]
    assert alike[0] > alike[1] > alike[2]


def test_the_choice_is_maximal_marginal_relevance() -> None:
    rng = np.random.default_rng(2)
    scores = np.sort(rng.random(30).astype(np.float32))[::-1]
    vectors = rng.standard_normal((30, 4)).astype(np.float32)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    relevance = (scores - scores[-1]) / (scores[0] - scores[-1])
    expected = [0]
    while len(expected) < 8:
        worth = [
            -np.inf if item in expected else 0.4 * relevance[item] - 0.6 * (unit[expected] @ unit[item]).max()
            for item in range(30)
        ]
        expected.append(int(np.argmax(worth)))
    assert choose(range(30), scores, vectors, 8, 0.6, Caps(None, {})) == expected


@pytest.mark.parametrize(
    ("wanted", "complaint"),
    [
        ({"colour": "red"}, "no attribute 'colour': they have brand"),
        ({"brand": {"min": 1}}, "'brand' holds text"),
        ({"brand": {"least": 1}}, "not known: use any, not, min, max"),
    ],
)
def test_rules_that_do_not_fit(model: ServedModel, wanted: Any, complaint: str) -> None:
    with pytest.raises(BadRule, match=complaint):
        _shop(model).recommend(Request(user="u4", filter=wanted))
    with pytest.raises(BadRule, match="knows nothing of its items"):
        Scorer(model).recommend(Request(user="u4", filter=wanted))


def test_values_that_are_none(model: ServedModel) -> None:
    """Of the wrong type, as Python lets them pass."""
    prices = number_column(np.arange(ITEMS, dtype=np.float64))
    shop = Scorer(replace(model, attributes=Attributes({"price": prices})))
    for value in (None, {"min": "few"}, {"max": [1]}):
        with pytest.raises(BadRule, match=r"'price' holds numbers, and '.*' is none"):
            shop.recommend(Request(user="u4", filter={"price": value}))
    for wrong in (5, ["price"], {5: 1}):
        with pytest.raises(BadRule, match="A filter names attributes"):
            shop.recommend(Request(user="u4", filter=wrong))  # type: ignore[arg-type]
    for cap in (None, 0, "few"):
        with pytest.raises(UserError, match="The cap of 'price'"):
            shop.recommend(Request(user="u4", cap={"price": cap}))  # type: ignore[dict-item]


def test_a_new_item_has_no_attributes(model: ServedModel) -> None:
    shop = _shop(model).model
    longer = with_new_items(shop, [NewItem("new", shop.item_rows.vectors(np.array([4]))[0])])
    assert longer.attributes is not None
    assert values_of(longer.attributes, ITEMS) == {"brand": []}
    assert allowed_items(longer.attributes, {"brand": {"not": "b0"}})[ITEMS]


def test_over_http(model: ServedModel, tmp_path: Path) -> None:
    _shop(model).model.save(tmp_path / "model")
    with TestClient(create_app(Settings(str(tmp_path / "model"), access_log=False))) as client:
        got = client.get("/recommend/u4", params={"k": 6, "filter": '{"brand": ["b1", "b2"]}', "cap": '{"brand": 3}'})
        brands = [int(item["id"][2:]) // 3 % 4 for item in got.json()["items"]]
        assert sorted(brands) == [1, 1, 1, 2, 2, 2]
        ask = {"user": "u4", "k": 6, "filter": {"brand": {"not": "b0"}}, "diversity": 0.5}
        bad = {"user": "u4", "filter": {"colour": 1}}
        content = client.post("/recommend", json={"requests": [ask, bad]}).json()
        assert 0 not in [int(item["id"][2:]) // 3 % 4 for item in content["results"][0]["items"]]
        assert content["errors"][1]["status"] == 409
        long = client.post("/recommend", json={"requests": [{**ask, "k": 80, "explain": 30}]}).json()["results"][0]
        assert {int(item["id"][2:]) // 3 % 4 for item in long["items"]} == {1, 2, 3}
        for query in ("filter={", 'filter={"brand":{"mni":1}}', 'cap={"brand":0}', "diversity=2"):
            assert client.get(f"/recommend/u4?{query}").status_code == 422
        assert client.get('/recommend/u4?filter={"x":1}').status_code == 409
        (offered,) = client.get("/api/model").json()["attributes"]
        assert offered["values"][0] == {"value": "b0", "items": 24}
