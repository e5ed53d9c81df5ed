# SPDX-License-Identifier: Apache-2.0
"""Use pages without a server as a person does: from a file with the network off, and from a static host."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from legcf.data.ids import IdMap
from legcf.device.page import write_folder, write_page
from legcf.modelfile.attributes import Attributes, text_column
from legcf.modelfile.served_model import ServedModel
from legcf.scoring.scorer import Request, Scorer
from tests.served import ITEMS

from ..browser import PATIENCE, chromium, hosted, opened

pytestmark = pytest.mark.browser
expect = pytest.importorskip("playwright.sync_api", reason="the browser test needs playwright").expect
expect.set_options(timeout=PATIENCE)
GROUP = 3  # items of a group are alike: those whose numbers leave the same remainder


@pytest.fixture(scope="module")
def alone(model: ServedModel) -> ServedModel:
    """Return a model without users, with an attribute to filter by."""
    halves = text_column(np.arange(ITEMS), ["low" if item < ITEMS // 2 else "high" for item in range(ITEMS)], ITEMS)
    return replace(model, users=None, user_rows=None, history=None, attributes=Attributes({"half": halves}))


@pytest.fixture(scope="module")
def content(alone: ServedModel, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("page") / "model.legcf"
    alone.save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def address(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "page é.html"
    size = write_page(content, path)
    assert size == path.stat().st_size
    return path.as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


def pick(page: Any, title: str) -> None:
    """Search for a title and choose it, by keyboard."""
    page.locator("#item-search").focus()
    page.keyboard.type(title)
    expect(page.locator("#item-options li").first).to_contain_text(title)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#history")).to_contain_text(title)


@pytest.mark.parametrize(
    "look",
    [
        {},
        {"color_scheme": "dark"},
        {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True},
    ],
    ids=["light", "dark", "phone"],
)
def test_a_file_is_searched_picked_from_explained_and_remembers(
    browser: Any, address: str, alone: ServedModel, look: dict[str, Any]
) -> None:
    with opened(browser, offline=True, **look) as page:
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address)
        expect(page.locator("#results-title")).to_have_text("Popular items")
        expect(page.locator("#results > li")).to_have_count(20)
        expect(page.locator("#model-line")).to_have_text(f"{ITEMS} items in 4 kB")
        expect(page.locator("#mode")).to_be_hidden()
        expect(page.locator("#tab-map")).to_have_count(0)
        for title in ("Title 1 é", "Title 4 é"):
            pick(page, title)
        expect(page.locator("#status")).to_contain_text("recommendations for a taste of 2 items")
        expected = [one.name for one in Scorer(alone).recommend(Request(items=["i/1", "i/4"]))]
        assert page.locator("#results .card-title").all_inner_texts() == expected
        why = page.locator("details.why").first
        why.locator("summary").click()
        expect(why).to_contain_text("What speaks for it")
        page.get_by_role("button", name="Similar to").first.click()
        page.wait_for_selector("#similar[open] li")
        similar = [
            one.name for one in Scorer(alone).similar_items(Scorer(alone).model.items.values[_number(expected[0])], 12)
        ]
        assert page.locator("#similar-list .card-title").all_inner_texts() == similar
        page.keyboard.press("Escape")
        wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        assert page.evaluate(wide)
        page.reload()
        expect(page.locator("#history-title")).to_have_text("Your taste (2)")
        page.goto("about:blank")
        page.goto(address)  # without what the address said
        expect(page.locator("#history-title")).to_have_text("Your taste (2)")
        page.get_by_role("button", name="Remove Title 1 é").click()
        expect(page.locator("#history-title")).to_have_text("Your taste (1)")
        assert {url.partition("#")[0] for url in requests if not url.startswith("data:")} <= {address, "about:blank"}


def _number(title: str) -> int:
    return int(title.split()[1])


def test_rules_variety_and_the_card(browser: Any, address: str) -> None:
    with opened(browser, offline=True) as page:
        page.goto(address)
        pick(page, "Title 1 é")
        page.locator("#rules summary").click()
        page.get_by_label("half", exact=True).select_option("low")
        page.wait_for_function(
            f"""() => {{
                const titles = [...document.querySelectorAll("#results .card-title")].map(one => one.textContent);
                return titles.length > 0 && titles.every(title => Number(title.split(" ")[1]) < {ITEMS // 2});
            }}"""
        )
        page.get_by_role("tab", name="Model").click()
        expect(page.locator("#tiles")).to_contain_text("toy")
        page.get_by_role("button", name="Switch between light and dark").click()
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_titles_ids_and_attributes_are_text_whatever_they_look_like(
    browser: Any, alone: ServedModel, tmp_path: Path
) -> None:
    harm = "<img src=x onerror=harm()></script><script>harm()</script>\u2028\u202e${harm()}"
    names = ["__proto__", "constructor", harm, "toString", "\u2028", "a\0b", "'\"><svg onload=harm()>"]
    ids = [*names, *(f"i/{item}" for item in range(len(names), ITEMS))]
    titles = [f"{harm} {'long ' * 10_000}", *(f"{name} title" for name in ids[1:])]
    columns = {
        name: text_column(np.arange(ITEMS), [names[item % len(names)] for item in range(ITEMS)], ITEMS)
        for name in ("__proto__", harm)
    }
    card = {"name": harm, "__proto__": {"harmed": 1}, "curve": [], "metrics": {harm: harm}}
    hostile = replace(alone, items=IdMap.of(ids, "item"), titles=titles, attributes=Attributes(columns), card=card)
    hostile.save(tmp_path / "model.legcf")
    write_page((tmp_path / "model.legcf").read_bytes(), tmp_path / "page.html")
    with opened(browser, offline=True) as page:
        page.goto((tmp_path / "page.html").as_uri())
        expect(page.locator("#results > li")).to_have_count(20)
        for name in ("constructor", "toString"):
            pick(page, f"{name} title")
        page.locator("#rules summary").click()
        for place in range(len(columns)):
            page.locator(f"#rule-{place}").select_option("__proto__")
        expect(page.locator("#results .card-title").first).to_be_visible()
        items = Scorer(hostile).recommend(
            Request(items=["constructor", "toString"], filter=dict.fromkeys(columns, "__proto__"), k=20)
        )
        expect(page.locator("#results > li")).to_have_count(len(items))
        assert page.locator("#results .card-title").all_text_contents() == [one.name for one in items]
        page.locator("#item-search").fill("onload")
        expect(page.locator("#item-options li").first).to_contain_text("<svg")
        page.get_by_role("tab", name="Model").click()
        expect(page.locator("#tiles")).to_be_visible()
        assert page.locator("[onerror], [onload], #results script").count() == 0
        assert page.evaluate("[typeof harm, ({}).harmed]") == ["undefined", None]


def test_a_page_may_ask_nobody(browser: Any, address: str, base: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("#results > li")
    asking = "url => fetch(url).then(() => 'sent', () => 'refused')"
    assert page.evaluate(asking, base) == "refused"
    context.close()


def test_a_folder_is_kept_for_days_without_a_network(browser: Any, content: bytes, tmp_path: Path) -> None:
    size = write_folder(content, tmp_path)
    assert size == sum(file.stat().st_size for file in tmp_path.iterdir())
    with hosted(tmp_path) as host, opened(browser) as page:
        page.goto(host)
        page.wait_for_selector("#results > li")
        page.evaluate("navigator.serviceWorker.ready")
        pick(page, "Title 7 é")
        page.context.set_offline(True)
        page.reload()
        expect(page.locator("#history-title")).to_have_text("Your taste (1)")
        expect(page.locator("#results > li")).to_have_count(20)


def test_a_damaged_model_is_a_sentence_on_the_page(browser: Any, content: bytes, tmp_path: Path) -> None:
    damaged = bytearray(content)
    damaged[-1] ^= 1
    write_page(bytes(damaged), tmp_path / "page.html")
    with opened(browser, offline=True) as page:
        page.goto((tmp_path / "page.html").as_uri())
        expect(page.locator("#problem-text")).to_contain_text("is damaged")
