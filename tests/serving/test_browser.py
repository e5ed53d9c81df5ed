"""The page as a person uses it, in Debian's chromium: mouse and keyboard, wide and on a phone, dark and light."""

import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from legcf.serving.artifact import ServingModel

pytestmark = pytest.mark.browser
pytest.importorskip("fastapi", reason="the server is an extra")
playwright = pytest.importorskip("playwright.sync_api", reason="the browser test needs playwright")

expect = playwright.expect
CHROMIUM = shutil.which("chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 60_000  # milliseconds; a busy machine is no failure


@pytest.fixture(scope="module")
def base(near_model: ServingModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    import uvicorn

    from legcf.serving.server import Settings, create_app

    file = tmp_path_factory.mktemp("near") / "toy.legcf"
    near_model.save(file)
    config = uvicorn.Config(create_app(Settings(str(file), access_log=False)), port=0, log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("Debian's chromium is not installed: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1200, "height": 800}, color_scheme="light")
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    yield page
    context.close()
    assert not complaints


def test_choose_a_user_and_ask_why(page: Any, base: str) -> None:
    page.goto(base)
    page.fill("#user-search", "u4")
    page.get_by_role("option", name="u4", exact=True).click()
    page.wait_for_selector("#results li")
    assert page.locator("#results > li").count() == 20
    assert "user u4" in page.inner_text("#results-title")
    assert page.locator("#history li").count() > 3
    page.locator("details.why summary").first.click()
    for reason in ("Because of these items", "Users with items in common add"):
        assert reason in page.locator("details.why").first.inner_text()
    page.get_by_role("button", name="Similar to").first.click()
    page.wait_for_selector("#similar[open] li")
    page.keyboard.press("Escape")
    assert page.locator("#similar[open]").count() == 0
    page.select_option("#count", "10")
    expect(page.locator("#results > li")).to_have_count(10, timeout=PATIENCE)


def test_build_a_taste_by_keyboard_alone(page: Any, base: str) -> None:
    page.goto(base)
    page.locator("input[name=mode][value=user]").focus()
    page.keyboard.press("ArrowRight")
    for wanted in ("Title 1 é", "Title 4 é"):
        page.locator("#item-search").focus()
        page.keyboard.type(wanted)
        expect(page.locator("#item-options li").first).to_contain_text(wanted, timeout=PATIENCE)
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
    expect(page.locator("#history-title")).to_contain_text("(2)", timeout=PATIENCE)
    page.wait_for_selector("#results li")
    expect(page.locator("#status")).to_contain_text("recommendations for a taste of 2 items", timeout=PATIENCE)
    titles = page.locator("#results .card-title").all_inner_texts()[:10]
    assert sum(int(title.split()[1]) % 3 == 1 for title in titles) >= 8  # two items tell the group, if not for sure
    page.get_by_role("button", name="Remove Title 1 é").click()
    expect(page.locator("#history-title")).to_contain_text("(1)", timeout=PATIENCE)


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
    assert "count in scores" in page.inner_text("#tiles")


def test_dark_by_switch_and_on_a_phone(browser: Any, base: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="dark", has_touch=True)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(f"{base}/#user=u3")
    page.wait_for_selector("#results li")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.click("#theme")
    assert page.evaluate(ground) != dark
    page.reload()
    page.wait_for_selector("#results li")
    assert page.evaluate(ground) != dark
    context.close()


def test_key_is_asked_for(browser: Any, model: ServingModel, tmp_path: Path) -> None:
    import uvicorn

    from legcf.serving.server import Settings, create_app

    model.save(tmp_path / "model")
    app = create_app(Settings(str(tmp_path / "model"), api_key="secret", access_log=False))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}")
    page.wait_for_selector("#key[open]")
    page.fill("#key-input", "secret")
    page.keyboard.press("Enter")
    expect(page.locator("#model-name")).to_have_text("toy", timeout=PATIENCE)
    context.close()
    server.should_exit = True
    thread.join()
