# SPDX-License-Identifier: Apache-2.0
"""What the site is made of beside the pages in docs/: generated references, files from the rest of the tree, formulas.

Nothing is copied by hand. Pages of the reference come from the code (`reference`), CONTRIBUTING and the like from the
root of the tree, and a link out of docs/ leads to a copy of the file that it names.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import live
import reference
from formulas import with_formulas
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
FROM_ROOT = {
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "security.md": "SECURITY.md",
    "studies.md": "studies/README.md",
}
TREE = "tree"  # where files from outside docs/ are, in the site
_LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(?=[)#])")
_FILE_NAME = re.compile(r"\[([\w./-]+\.md)\]\(([^)\s#:]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made, copy what pages link to, and settle the navigation."""
    for path, name in FROM_ROOT.items():
        files.append(File.generated(config, path, content=(ROOT / name).read_text()))
    for path, content in reference.pages().items():
        files.append(File.generated(config, path, content=content))
    files.append(File.generated(config, "live/movielens-small.html", content=live.page()))
    for file in list(files.documentation_pages()):
        for name in sorted(_outside(file)):
            if files.get_file_from_path(f"{TREE}/{name}") is None:
                files.append(File.generated(config, f"{TREE}/{name}", abs_src_path=str(ROOT / name)))
    _settle_navigation(files, config)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    linked = _LINK.sub(lambda found: _on_site(found[1], page.file), markdown)
    folded = linked.replace("<details>", '<details markdown="1">')  # or tables in them stay as they were typed
    return _with_titles(folded, page.file, _titles(config.nav))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return with_formulas(html)


def _settle_navigation(files: Files, config: MkDocsConfig) -> None:
    """Leave out planned pages that are not there yet; a page that nobody can find is an error."""
    there = {file.src_uri for file in files.documentation_pages()}
    missing = set(config.extra["planned"]) - there
    config.nav = _without(config.nav, missing)
    lost = there - set(_paths(config.nav))
    if lost:
        raise PluginError(f"mkdocs.yml has no place in its navigation for {', '.join(sorted(lost))}.")


def _without(entry: Any, missing: set[str]) -> Any:
    """A part of the navigation without some pages, and without sections that have none left."""
    if isinstance(entry, list):
        return [kept for one in entry if (kept := _without(one, missing))]
    if isinstance(entry, dict):
        return {title: kept for title, inside in entry.items() if (kept := _without(inside, missing))}
    return None if entry in missing else entry


def _paths(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for one in entry.values() if isinstance(entry, dict) else entry:
            yield from _paths(one)


def _titles(entry: Any, title: str = "") -> dict[str, str]:
    """What the navigation calls each page."""
    if isinstance(entry, str):
        return {entry: title}
    named = entry.items() if isinstance(entry, dict) else ((title, one) for one in entry)
    return {path: found for name, inside in named for path, found in _titles(inside, name).items()}


def _with_titles(markdown: str, file: File, titles: dict[str, str]) -> str:
    """Links that show the name of a file, as they are read in the tree, show the title of its page."""

    def named(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(file.src_uri), found[2]))
        return f"[{titles.get(target, found[1])}]({found[2]}{found[3] or ''})"

    return _FILE_NAME.sub(named, markdown)


def _outside(file: File) -> Iterator[str]:
    """Files of the tree outside docs/ that a page links to."""
    for target in _LINK.findall(file.content_string):
        name = _in_tree(target, file)
        if not name.startswith("docs/") and name not in FROM_ROOT.values() and (ROOT / name).is_file():
            yield name


def _in_tree(target: str, file: File) -> str:
    """What a link of a page names, from the root of the tree."""
    home = posixpath.dirname(FROM_ROOT.get(file.src_uri, f"docs/{file.src_uri}"))
    return posixpath.normpath(posixpath.join(home, target))


def _on_site(target: str, file: File) -> str:
    """A link of a page as the site has it; what is not there stays, and fails the build."""
    name = _in_tree(target, file)
    if not (ROOT / name).is_file():
        return target
    pages = {name: path for path, name in FROM_ROOT.items()}
    place = name.removeprefix("docs/") if name.startswith("docs/") else pages.get(name, f"{TREE}/{name}")
    return posixpath.relpath(place, posixpath.dirname(file.src_uri) or ".")
