# SPDX-License-Identifier: Apache-2.0
"""The documentation as a site: it builds without a warning, asks no other host for anything, every page has a place."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import legcf
from tests.browser import chromium, opened

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools" / "site"))


def build(config: Path, folder: Path) -> "subprocess.CompletedProcess[str]":
    """As `make docs` does. It must not be quiet: warnings that are not shown do not count for --strict."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(config), "--site-dir", str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.parametrize("target", ["nowhere.md", "index.md#nowhere", "/index.html"])
def test_a_broken_link_fails(target: str, tmp_path: Path) -> None:
    settings = f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: pages\nnav: [index.md]\nhooks: []\nplugins: []\n"
    (tmp_path / "mkdocs.yml").write_text(settings)
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "index.md").write_text(f"# Start\n\n[a link]({target})\n")
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 1
    assert target in done.stderr


@pytest.mark.slow
def test_pages_ask_no_other_host(site: Path) -> None:
    loaded = re.compile(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(?:https?:)?//[^"]+"')
    for page in site.rglob("*.html"):
        assert loaded.findall(page.read_text()) == [], page
    styles = "".join(sheet.read_text() for sheet in site.rglob("*.css"))
    assert re.findall(r"url\([\"']?(?:https?:)?//", styles) == []


@pytest.mark.slow
def test_a_live_page_is_on_the_site(site: Path) -> None:
    assert 'src="live/movielens-small.html"' in (site / "device.html").read_text()
    assert 'id="model"' in (site / "live" / "movielens-small.html").read_text()


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize(
    "look",
    [{"color_scheme": "dark"}, {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}],
    ids=["dark", "phone"],
)
def test_the_live_page_recommends(site: Path, look: dict[str, Any]) -> None:
    with chromium() as browser, opened(browser, offline=True, **look) as page:
        page.goto((site / "device.html").as_uri())
        frame = 'iframe[src^="live/"]'  # beside that of the search
        page.locator(frame).evaluate("frame => frame.scrollIntoView()")  # then it loads
        live = page.frame_locator(frame)
        live.locator("#item-search").fill("Toy Story")
        live.locator("#item-options li").first.click()
        live.locator("#status", has_text="recommendations for a taste of 1 item").wait_for(state="attached")
        assert live.locator("#results > li").count() == 20
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.slow
def test_the_reference_of_python_begins_with_what_one_needs_first(site: Path) -> None:
    headings = re.findall(r'<h2 id="legcf\.[^"]*\.(\w+)"', (site / "reference" / "python.html").read_text())
    assert headings[:2] == ["Recommender", "Scorer"]


@pytest.mark.slow
def test_search_works_from_a_folder(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.js").read_text().removeprefix("var __index = "))
    found = {entry["location"].partition("#")[0] for entry in index["docs"] if "matching pursuit" in entry["text"]}
    assert "how-it-works.html" in found
    assert (site / "assets" / "iframe-worker.js").exists()


@pytest.mark.slow
def test_references_name_what_there_is(site: Path) -> None:
    from legcf.cli.app import COMMANDS
    from legcf.core.config import RankingConfig, TrainingConfig
    from legcf.training.registry import METHODS

    text = {path.stem: path.read_text() for path in (site / "reference").glob("*.html")}
    assert all(f"legcf {name}" in text["cli"] for name in COMMANDS)
    assert all(f"training.{key}" in text["configuration"] for key in TrainingConfig.model_fields)
    assert all(f"ranking.{key}" in text["configuration"] for key in RankingConfig.model_fields)
    assert all(name in text["configuration"] for name in METHODS)
    assert all(name in text["python"] for name in legcf.__all__)
    assert "/recommend/{user}" in text["http"]
    assert "item_rows.columns" in text["file-format"]


@pytest.mark.slow
def test_formulas_are_drawn(site: Path) -> None:
    page = (site / "how-it-works.html").read_text()
    assert page.count("<math") > 10
    assert 'class="arithmatex"' not in page


def navigation(pages: list[str], nav: Any, planned: list[str]) -> Any:
    from hooks import _settle_navigation

    config = SimpleNamespace(nav=nav, extra={"planned": planned})
    files = SimpleNamespace(documentation_pages=lambda: [SimpleNamespace(src_uri=page) for page in pages])
    _settle_navigation(files, config)  # type: ignore[arg-type]
    return config.nav


def test_planned_pages_may_be_missing_and_others_must_have_a_place() -> None:
    from mkdocs.exceptions import PluginError

    nav = [{"Start": "index.md"}, {"Guides": [{"Rules": "rules.md"}]}]
    assert navigation(["index.md"], nav, ["rules.md"]) == [{"Start": "index.md"}]
    assert navigation(["index.md", "rules.md"], nav, ["rules.md"]) == nav
    with pytest.raises(PluginError, match=r"lost\.md"):
        navigation(["index.md", "rules.md", "lost.md"], nav, [])


def test_links_lead_to_places_of_the_site() -> None:
    from hooks import _on_site, _with_titles

    page = SimpleNamespace(src_uri="results.md")
    assert _on_site("../benchmarks/results/bench_core.json", page) == "tree/benchmarks/results/bench_core.json"  # type: ignore[arg-type]
    assert _on_site("../CONTRIBUTING.md", page) == "contributing.md"  # type: ignore[arg-type]
    assert _on_site("data.md", page) == "data.md"  # type: ignore[arg-type]
    titles = {"findings.md": "What holds"}
    assert _with_titles("[findings.md](findings.md#x)", page, titles) == "[What holds](findings.md#x)"  # type: ignore[arg-type]
    assert _with_titles("[so](findings.md)", page, titles) == "[so](findings.md)"  # type: ignore[arg-type]
    root = SimpleNamespace(src_uri="contributing.md")
    assert _on_site("docs/architecture.md", root) == "architecture.md"  # type: ignore[arg-type]
