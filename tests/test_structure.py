# SPDX-License-Identifier: Apache-2.0
"""The tree is as docs/architecture.md draws it, and one name is one thing."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import legcf
import legcf_studies

ROOT = Path(__file__).parents[1]
MAPS = {
    Path(legcf.__file__).parent: ROOT / "docs" / "architecture.md",
    Path(legcf_studies.__file__).parent: ROOT / "studies" / "README.md",
}
"""Folders of the packages, and where their modules are named."""
MOST_LINES, MOST_MODULES, MOST_AT_THE_TOP = 400, 14, 1
NO_VERBS = frozenset(
    re.findall(
        r"\w+",
        """a an the this these that those it its their what whatever whether which who whom whose where when while how
        why if as so such of off for from to into in on at by with without beside between among about after before than
        then and or but not no none nothing nobody anything something someone everyone one two three all any both each
        every either some many few more most less least other another same only also there here yes""",
    )
)
VERBS = {"apply", "breed", "bring", "embed", "feed", "focus", "multiply", "need", "proceed", "seed", "spread", "string"}
LICENCE = "SPDX-License-Identifier: Apache-2.0"


def modules(source: Path) -> set[str]:
    return {path.relative_to(source).as_posix() for path in source.rglob("*.py")}


def named_in_the_map(page: Path) -> list[str]:
    """`folder/file.py` of every line under the headings of folders."""
    text = page.read_text().partition("## The map")[2].partition("\n## ")[0]
    folder, found = "", []
    for line in text.splitlines():
        if line.startswith("**"):
            heading = re.match(r"\*\*`(.+/)`\*\*", line)
            folder = heading[1] if heading else ""
        elif line.startswith("    "):
            found += [f"{folder}{name}.py" for name in line.split()]
    return found


def public_names(module: Path) -> Iterator[str]:
    """Classes, constants and types that a module defines for others."""
    for node in ast.parse(module.read_text()).body:
        names: list[ast.expr] = []
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            names = [name for target in node.targets for name in getattr(target, "elts", [target])]
        elif isinstance(node, ast.AnnAssign):
            names = [node.target]
        yield from (name.id for name in names if isinstance(name, ast.Name) and name.id[0].isupper())


@pytest.mark.parametrize("source", MAPS)
def test_the_map_names_every_module_once(source: Path) -> None:
    named, there = named_in_the_map(MAPS[source]), modules(source)
    assert len(named) == len(set(named))
    assert sorted({module for module in there if not module.endswith("__init__.py")} - set(named)) == []
    assert sorted(set(named) - there) == []


def test_no_class_or_constant_is_defined_twice() -> None:
    homes = defaultdict(list)
    for module in (source / module for source in MAPS for module in modules(source)):
        for name in set(public_names(module)):
            if not name.startswith("_"):
                homes[name].append(module)
    assert {name: sorted(where) for name, where in homes.items() if len(where) > 1} == {}


@pytest.mark.parametrize("source", MAPS)
def test_folders_and_modules_are_of_a_size_one_can_see(source: Path) -> None:
    lengths = {module: len((source / module).read_text().splitlines()) for module in modules(source)}
    assert {module: length for module, length in lengths.items() if length > MOST_LINES} == {}
    folders = Counter(str(Path(module).parent) for module in lengths if not module.endswith("__init__.py"))
    assert {folder: count for folder, count in folders.items() if count > MOST_MODULES} == {}
    assert folders["."] <= MOST_AT_THE_TOP


def test_docstrings_begin_with_a_verb() -> None:
    """Nouns in the plural, participles and words that never begin an order are found; other nouns are not."""
    found = []
    for module in (source / module for source in MAPS for module in modules(source)):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                first = re.match(r"\W*([A-Za-z]+)", ast.get_docstring(node) or "Do")
                word = first[1].lower() if first else ""
                plural = word.endswith("s") and not word.endswith("ss")
                if word in NO_VERBS or (word not in VERBS and (plural or word.endswith(("ed", "ing", "ly")))):
                    found.append(f"{module}:{getattr(node, 'lineno', 1)} {word}")
    assert found == []


def test_every_source_file_names_its_licence() -> None:
    files = [
        path for folder in ("benchmarks", "src", "studies", "tests", "tools") for path in (ROOT / folder).rglob("*.*")
    ]
    sources = [path for path in files if path.suffix in {".css", ".html", ".js", ".py"}]
    assert len(sources) > 100
    first_lines = {path: path.read_text().split("\n", 2)[:2] for path in sources}
    assert [path for path, lines in first_lines.items() if not any(LICENCE in line for line in lines)] == []


def test_what_is_at_the_top_is_there() -> None:
    assert all(getattr(legcf, name) is not None for name in legcf.__all__)
