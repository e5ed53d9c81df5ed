# SPDX-License-Identifier: Apache-2.0
"""The page as a person uses it, in Debian's chromium: mouse and keyboard, wide and on a phone, dark and light."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from legcf.features.encoder import FeatureEncoder
from legcf.modelfile.attributes import Attributes, number_column, text_column
from legcf.modelfile.served_model import ServedModel
from legcf.server.state.event_log import EventLog

from ..browser import PATIENCE, chromium, opened
from ..served import ITEMS, ODD, serving

pytestmark = pytest.mark.browser
playwright = pytest.importorskip("playwright.sync_api", reason="the browser test needs playwright")

expect = playwright.expect
# on a phone the title has a line of its own, and what belongs together shares the next
SCORES_IN_THEIR_ROW = """rows => rows.length > 0 && rows.every(row => {
    const box = (part) => row.querySelector(part).getBoundingClientRect();
    const [title, actions, score, meter] = [".card-title", ".card-actions", ".score", ".meter"].map(box);
    const buttons = [...row.querySelectorAll(".card-actions button")].map((one) => one.getBoundingClientRect().right);
    const whole = row.getBoundingClientRect();
    const level = Math.abs((actions.top + actions.bottom) - (score.top + score.bottom)) < 12;
    const apart = meter.left >= Math.max(...buttons);
    const inside = score.right <= whole.right + 1 && title.height < whole.height + 1;
    return apart && level && score.left >= actions.right && inside;
})"""
expect.set_options(timeout=PATIENCE)
REFUSED = ("404", "401", "Failed to load resource")
_ALL_TITLES = """() => {{
    const titles = [...document.querySelectorAll("#results .card-title")];
    const numbers = titles.map(title => Number(title.textContent.split(" ")[1]));
    return numbers.length > 0 && numbers.every(number => {});
}}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    with opened(browser) as page:
        yield page


def test_the_start_shows_what_is_popular(page: Any, base: str) -> None:
    page.goto(base)
    expect(page.locator("#results-title")).to_have_text("Popular items")
    expect(page.locator("#results > li")).to_have_count(20)
    page.locator("input[name=mode][value=taste]").check(force=True)
    expect(page.locator("#results-note")).to_contain_text("Popular items for a start")
    expect(page.locator("#results > li")).to_have_count(20)


def test_choose_a_user_and_ask_why(page: Any, base: str) -> None:
    page.goto(base)
    page.fill("#user-search", "u4")
    page.get_by_role("option", name="u4", exact=True).click()
    page.wait_for_selector("#results li")
    assert page.locator("#results > li").count() == 20
    assert "user u4" in page.inner_text("#results-title")
    assert page.locator("#history li").count() > 3
    why = page.locator("details.why").first
    why.locator("summary").click()
    assert re.search(r"(Because they have|Popular with people who have) Title \d+", why.inner_text())
    for reason in ("What speaks for it", "of the score comes from people who have some of the same items"):
        assert reason in why.inner_text()
    assert not re.search(r"#\d|embedding", page.inner_text("#results"))
    page.get_by_role("button", name="Similar to").first.click()
    page.wait_for_selector("#similar[open] li")
    assert page.locator("#similar-list > li").evaluate_all(SCORES_IN_THEIR_ROW)
    page.keyboard.press("Escape")
    assert page.locator("#similar[open]").count() == 0
    page.select_option("#count", "10")
    expect(page.locator("#results > li")).to_have_count(10)


def test_build_a_taste_by_keyboard_alone(page: Any, base: str) -> None:
    page.goto(base)
    page.locator("input[name=mode][value=user]").focus()
    page.keyboard.press("ArrowRight")
    for wanted in ("Title 1 é", "Title 4 é"):
        page.locator("#item-search").focus()
        page.keyboard.type(wanted)
        expect(page.locator("#item-options li").first).to_contain_text(wanted)
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
    expect(page.locator("#history-title")).to_contain_text("(2)")
    page.wait_for_selector("#results li")
    expect(page.locator("#status")).to_contain_text("recommendations for a taste of 2 items")
    titles = page.locator("#results .card-title").all_inner_texts()[:10]
    assert sum(int(title.split()[1]) % 3 == 1 for title in titles) >= 8  # two items tell the group, if not for sure
    page.get_by_role("button", name="Remove Title 1 é").click()
    expect(page.locator("#history-title")).to_contain_text("(1)")


def test_map_and_model_card(page: Any, base: str) -> None:
    page.goto(base)
    page.get_by_role("tab", name="Recommend").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#map-groups li")
    blank = "c => { const p = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; return !p.some(v => v); }"
    assert not page.locator("#map").evaluate(blank)
    page.fill("#map-search", "Title 7 é")
    page.get_by_role("option", name="Title 7 é").first.click()
    page.wait_for_selector("#map-chosen ul li")
    assert "Title 7 é" in page.inner_text("#map-chosen")
    page.locator("#map").focus()
    for key in ("+", "ArrowLeft", "-", "Enter"):
        page.keyboard.press(key)
    page.click("#tab-model")
    assert "smaller" in page.inner_text("#size") or "larger" in page.inner_text("#size")
    assert page.locator("#tiles div").count() > 5
    assert "Meta-embeddings c" in page.inner_text("#tiles")


def test_the_address_can_be_changed_and_gone_back_to(page: Any, base: str) -> None:
    page.goto(f"{base}/#user=u3")
    expect(page.locator("#results-title")).to_contain_text("user u3")
    page.evaluate("location.hash = '#user=u7'")
    expect(page.locator("#results-title")).to_contain_text("user u7")
    page.evaluate('location.hash = \'#items=["i/1","i/4"]\'')
    expect(page.locator("#results-title")).to_contain_text("a taste of 2 items")
    page.go_back()
    expect(page.locator("#results-title")).to_contain_text("user u7")
    page.evaluate("location.hash = '#map'")
    page.wait_for_selector("#map-groups li")
    page.go_back()
    expect(page.locator("#view-recommend")).to_be_visible()
    page.evaluate("location.hash = ''")
    expect(page.locator("#results-title")).to_have_text("Popular items")


def test_odd_ids_work(page: Any, base: str) -> None:
    for place, odd in enumerate(ODD):
        page.goto(f"{base}/#user={quote(odd, safe='')}")
        page.reload()
        expect(page.locator("#history-title")).to_contain_text("History")
        expect(page.locator("#results > li")).to_have_count(20)
        if place:
            continue
        page.locator("input[name=mode][value=taste]").check(force=True)
        page.fill("#item-search", "Title 82 é")  # the item called `..`
        page.get_by_role("option", name="Title 82 é").click()
        expect(page.locator("#history-title")).to_contain_text("(1)")
        page.reload()
        expect(page.locator("#history")).to_contain_text("Title 82 é")
    page.goto(f"{base}/#map")
    page.wait_for_selector("#map-groups li")
    page.fill("#map-search", "Title 82 é")
    page.get_by_role("option", name="Title 82 é").click()
    expect(page.locator("#map-chosen ul li")).to_have_count(8)


def test_unknown_users_are_told_wherever_they_come_from(browser: Any, base: str) -> None:
    with opened(browser, REFUSED) as page:
        page.goto(f"{base}/#user=stranger")
        expect(page.locator("#problem")).to_contain_text("There is no user 'stranger'")
        expect(page.locator("#results-note")).to_contain_text("There is no user 'stranger'")
        assert page.locator("#results > li").count() == 0
        page.fill("#user-search", "nobody")
        page.keyboard.press("Enter")
        expect(page.locator("#problem")).to_contain_text("There is no user 'nobody'")
        page.fill("#user-search", "u5")
        page.keyboard.press("Enter")
        expect(page.locator("#results-title")).to_contain_text("user u5")
        expect(page.locator("#problem")).to_be_hidden()
        page.evaluate('location.hash = \'#items=["i/1","gone"]\'')
        expect(page.locator("#problem")).to_contain_text("1 of the 2 items in the address are not in this model")


def test_a_server_that_is_gone_is_told_everywhere(browser: Any, model: ServedModel, tmp_path: Path) -> None:
    gone = "The server does not answer"
    with opened(browser, ("ERR_CONNECTION_REFUSED",)) as page:
        with serving(model, tmp_path / "model") as address:
            page.goto(f"{address}/#user=u3")
            page.wait_for_selector("#results li")
            page.click("#tab-map")
            page.wait_for_selector("#map-groups li")
            page.click("#tab-recommend")
        for act in (
            lambda: page.get_by_role("button", name="Similar to").first.click(),
            lambda: page.click("#random-user"),
            lambda: page.fill("#user-search", "u4"),
            lambda: (page.click("#tab-map"), page.locator("#map").focus(), page.keyboard.press("Enter")),
            lambda: page.evaluate("location.hash = '#user=u9'"),
        ):
            act()
            expect(page.locator("#problem")).to_contain_text(gone)
            page.click("#problem-close")
            expect(page.locator("#problem")).to_be_hidden()


@pytest.mark.parametrize("width", [390, 320])
def test_dark_by_switch_and_on_a_phone(browser: Any, base: str, width: int) -> None:
    fits = "document.documentElement.scrollWidth <= innerWidth"
    with opened(browser, viewport={"width": width, "height": 844}, color_scheme="dark", has_touch=True) as page:
        page.goto(f"{base}/#user=u3")
        page.wait_for_selector("#results li")
        ground = "getComputedStyle(document.body).backgroundColor"
        dark = page.evaluate(ground)
        assert page.evaluate(fits)
        assert page.locator("#results > li").evaluate_all(SCORES_IN_THEIR_ROW)
        page.get_by_role("button", name="Similar to").first.tap()
        page.wait_for_selector("#similar[open] li")
        assert page.locator("#similar-list > li").evaluate_all(SCORES_IN_THEIR_ROW)
        page.keyboard.press("Escape")
        for tab in ("#tab-map", "#tab-model"):
            page.tap(tab)
            assert page.evaluate(fits)
        page.tap("#theme")
        assert page.evaluate(ground) != dark
        page.reload()
        page.wait_for_selector("#tiles div")
        assert page.evaluate(ground) != dark
        page.goto(f"{base}/docs")
        page.wait_for_selector(".operation")
        assert page.evaluate(fits)


def test_a_key_is_asked_for_and_a_wrong_one_called_wrong(browser: Any, model: ServedModel, tmp_path: Path) -> None:
    with serving(model, tmp_path / "model", api_key="secret") as address, opened(browser, REFUSED) as page:
        page.goto(address)
        page.wait_for_selector("#key[open]")
        expect(page.locator("#key-wrong")).to_be_hidden()
        for wrong in ("guess", "schlüssel"):
            page.fill("#key-input", wrong)
            page.keyboard.press("Enter")
            expect(page.locator("#key-wrong")).to_be_visible()
            expect(page.locator("#key-input")).to_have_value("")
        page.fill("#key-input", "secret")
        page.keyboard.press("Enter")
        expect(page.locator("#model-name")).to_have_text("toy")
        expect(page.locator("#results > li")).to_have_count(20)
        page.goto(f"{address}/docs")
        expect(page.locator("#try-key")).to_have_value("secret")  # of this tab
        expect(page.locator(".try input").first).not_to_have_value("alice")
        _try(page, "GET /similar/{item}", "200 after")


def _try(page: Any, title: str, status: str) -> str:
    panel = page.locator(".operation", has=page.get_by_role("heading", name=title, exact=True))
    panel.get_by_role("button", name="Send").click()
    expect(panel.locator("form [role=status]")).to_contain_text(status)
    answer: str = panel.locator(".answer").inner_text()
    return answer


def test_everything_in_the_documentation_can_be_tried(page: Any, base: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{base}/docs")
    expect(page.locator(".try input").first).not_to_have_value("alice")  # ids of this model, not of the document
    titles = page.locator(".operation h2").all_inner_texts()
    assert "POST /recommend" in titles
    for title in titles:
        assert _try(page, title, "200 after")
    assert '"results": [' in page.locator(".operation", has_text="POST /recommend").locator(".answer").inner_text()
    assert "curl" in page.locator(".command").first.inner_text()
    assert all(url.startswith(base) for url in asked)


@pytest.fixture(scope="module")
def shop(listed_model: ServedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that is told of events, with a kind and a price for every item."""
    folder = tmp_path_factory.mktemp("shop")
    EventLog(folder / "log", create=True).close()
    kinds = text_column(np.arange(ITEMS), [f"kind {item % 2}" for item in range(ITEMS)], ITEMS)
    known = Attributes({"kind": kinds, "price": number_column(np.arange(ITEMS, dtype=np.float64))})
    with serving(replace(listed_model, attributes=known), folder / "model", events=str(folder / "log")) as address:
        yield address


def _numbers(page: Any) -> list[int]:
    return [int(title.split()[1]) for title in page.locator("#results .card-title").all_inner_texts()]


def test_attributes_are_filters(page: Any, shop: str) -> None:
    page.goto(f"{shop}/#user=u4")
    expect(page.locator("#results > li")).to_have_count(20)
    page.locator("#rules summary").click()
    page.get_by_label("kind", exact=True).select_option("kind 1")
    expect(page.locator("#rules-count")).to_have_text("(1)")
    page.wait_for_function(_ALL_TITLES.format("number % 2 === 1"))
    page.get_by_label("price, at most").fill("60")
    page.keyboard.press("Tab")
    expect(page.locator("#rules-count")).to_have_text("(2)")
    page.wait_for_function(_ALL_TITLES.format("number % 2 === 1 && number <= 60"))
    page.get_by_label("How kind is to be").select_option("not")
    page.wait_for_function(_ALL_TITLES.format("number % 2 === 0 && number <= 60"))
    page.get_by_label("price, at least").fill("100")
    page.keyboard.press("Tab")
    expect(page.locator("#results-note")).to_have_text("Nothing is left to recommend.")


def test_variety_changes_the_list(page: Any, shop: str) -> None:
    page.goto(f"{shop}/#user=u7")
    expect(page.locator("#results > li")).to_have_count(20)
    before = _numbers(page)
    slider = page.get_by_label("Variety")
    slider.focus()
    slider.press("End")
    page.wait_for_function(
        "before => [...document.querySelectorAll('#results .card-title')].map(title => title.textContent.split(' ')[1])"
        ".join() !== before && document.querySelectorAll('#results > li').length === 20",
        arg=",".join(map(str, before)),
    )
    assert {number % 3 for number in _numbers(page)} > {number % 3 for number in before}
    slider.press("Home")
    page.wait_for_function(
        "before => [...document.querySelectorAll('#results .card-title')].map(title => title.textContent.split(' ')[1])"
        ".join() === before",
        arg=",".join(map(str, before)),
    )


def test_add_to_history_goes_through_events(page: Any, shop: str, base: str) -> None:
    page.goto(f"{shop}/#user=u10")
    expect(page.locator("#results > li")).to_have_count(20)
    count = int(re.search(r"\d+", page.inner_text("#history-title"))[0])  # type: ignore[index]
    title = page.locator("#results .card-title").first.inner_text()
    page.get_by_role("button", name=f"Add {title} to the history").click()
    expect(page.locator("#history-title")).to_have_text(f"History ({count + 1})")
    expect(page.locator("#history")).to_contain_text(title)
    page.wait_for_selector("#results li")
    assert title not in page.locator("#results .card-title").all_inner_texts()
    page.reload()
    expect(page.locator("#history-title")).to_have_text(f"History ({count + 1})")
    page.goto(f"{base}/#user=u10")  # a server that takes none
    expect(page.locator("#results > li")).to_have_count(20)
    assert page.get_by_role("button", name="to the history").count() == 0


def test_what_tells_the_server_can_be_tried_too(browser: Any, shop: str) -> None:
    with opened(browser, REFUSED) as page:
        page.goto(f"{shop}/docs")
        expect(page.locator(".try input").first).not_to_have_value("alice")
        for title in ("POST /interactions", "PUT /items/{item}", "PUT /items"):
            assert '"model"' in _try(page, title, "200 after")
        for title in ("DELETE /items/{item}", "DELETE /items"):
            assert "no description" in _try(page, title, "404 after")


@pytest.mark.parametrize("width", [390, 320])
def test_what_can_be_done_with_an_item_does_not_lie_below_its_score_on_a_phone(
    browser: Any, shop: str, width: int
) -> None:
    with opened(browser, viewport={"width": width, "height": 844}, has_touch=True) as page:
        page.goto(f"{shop}/#user=u4")
        expect(page.get_by_role("button", name="to the history").first).to_be_visible()
        assert page.locator("#results > li").evaluate_all(SCORES_IN_THEIR_ROW)


def test_a_model_of_all_pairs_shows_the_accuracy_it_was_chosen_by(
    browser: Any, listed_model: ServedModel, tmp_path: Path
) -> None:
    final = {"final": {"pairs": 9}, "test": {"ndcg@20": 0.25, "recall@20": 0.5}, "validation": {"ndcg@20": 0.125}}
    chosen = replace(listed_model, card={**listed_model.card, "metrics": final})
    with serving(chosen, tmp_path / "model") as address, opened(browser) as page:
        page.goto(f"{address}/#model")
        expect(page.locator("#accuracy")).to_contain_text("chosen as")
        expect(page.locator("#accuracy")).to_contain_text("test ndcg@20")
        expect(page.locator("#accuracy")).to_contain_text("0.2500")


@pytest.mark.parametrize("width", [390, 320])
def test_filters_fit_on_a_phone(browser: Any, shop: str, width: int) -> None:
    with opened(browser, viewport={"width": width, "height": 844}, has_touch=True) as page:
        page.goto(f"{shop}/#user=u3")
        page.wait_for_selector("#results li")
        page.locator("#rules summary").tap()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.locator("#results > li").evaluate_all(SCORES_IN_THEIR_ROW)


def test_people_without_items_are_asked_who_they_are(
    browser: Any, listed_model: ServedModel, encoder: FeatureEncoder, tmp_path: Path
) -> None:
    phone: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
    knowing = replace(listed_model, user_encoder=encoder)
    with serving(knowing, tmp_path / "model") as address, opened(browser, **phone) as page:
        page.goto(address)
        page.locator("input[name=mode][value=taste]").check(force=True)
        page.get_by_label("kind", exact=True).fill("group 2")
        page.keyboard.press("Tab")
        expect(page.locator("#results-title")).to_have_text("Recommendations for somebody like this")
        page.wait_for_function(_ALL_TITLES.format("number % 3 === 2"))
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.locator("#results").get_by_role("button", name="to a taste").first.tap()
        expect(page.locator("#results-title")).to_have_text("Recommendations for a taste of 1 item")
        expect(page.get_by_label("kind", exact=True)).to_be_disabled()
    with serving(listed_model, tmp_path / "other") as address, opened(browser) as page:
        page.goto(f"{address}/#items=[]")
        expect(page.locator("#results > li")).to_have_count(20)
        expect(page.locator("#about")).to_be_hidden()
