# SPDX-License-Identifier: Apache-2.0
"""Parts that other packages bring as entry points, and what is said of those that cannot be used."""

import importlib.metadata
from pathlib import Path

import pytest

from legcf.core.errors import UserError
from legcf.core.plugins import Registry, find_part


def registry() -> Registry[int]:
    return Registry("number", "legcf.numbers", lambda part: isinstance(part, int), {"one": 1, "two": 2})


def install(folder: Path, package: str, entries: str, code: str = "") -> None:
    """Put a package with these entry points where Python finds it."""
    about = folder / f"{package}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[legcf.numbers]\n{entries}\n")
    (folder / f"{package}.py").write_text(code)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_parts_of_other_packages_come_last(site: Path) -> None:
    install(site, "numbers_b", "four = numbers_b:FOUR", "FOUR = 4")
    install(site, "numbers_a", "three = numbers_a:THREE\nfive = numbers_a:FIVE", "THREE, FIVE = 3, 5")
    numbers = registry()
    assert numbers.built_in == ("one", "two")
    assert list(numbers) == ["one", "two", "five", "four", "three"]
    assert len(numbers) == 5
    assert "three" in numbers
    assert "six" not in numbers
    assert numbers["three"] == 3
    assert numbers.get("six") is None
    assert dict(numbers) == {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
    assert list(numbers) == ["one", "two", "five", "four", "three"]


def test_nothing_is_read_for_parts_of_this_package(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    real = importlib.metadata.entry_points
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **group: calls.append(group) or real(**group))
    numbers = registry()
    assert numbers["one"] == 1
    assert "two" in numbers
    assert calls == []
    assert list(numbers) == ["one", "two"]
    assert "six" not in numbers
    assert len(calls) == 1


def test_a_package_that_cannot_be_imported_is_named_when_its_part_is_used(site: Path) -> None:
    install(site, "broken", "three = broken:THREE", "import no_such_module")
    numbers = registry()
    assert "three" in numbers
    with pytest.raises(UserError, match=r"number `three` of package broken \(broken:THREE\) cannot be imported: Mod"):
        numbers["three"]


def test_a_part_of_another_kind_is_refused(site: Path) -> None:
    install(site, "text", "three = text:THREE", "THREE = 'three'")
    with pytest.raises(UserError, match=r"of package text \(text:THREE\) is not a number, but str"):
        registry()["three"]


def test_a_name_is_not_taken_over(site: Path) -> None:
    install(site, "thief", "one = thief:ONE", "ONE = 11")
    numbers = registry()
    assert numbers["one"] == 1
    with pytest.raises(UserError, match="Package thief brings a number `one`, and so does legcf itself"):
        list(numbers)


def test_two_packages_with_one_name_are_refused(site: Path) -> None:
    install(site, "first", "three = first:THREE", "THREE = 3")
    install(site, "second", "three = second:THREE", "THREE = 33")
    with pytest.raises(UserError, match="brings a number `three`, and so does package"):
        registry()["three"]


def test_what_the_studies_bring_names_its_package_where_that_is_missing(site: Path) -> None:
    numbers = Registry[int]("number", "legcf.numbers", lambda part: isinstance(part, int), {"one": 1}, ("three",))
    with pytest.raises(
        UserError, match=r"number `three` is in another package: run `pip install legcf-studies` \(in a"
    ):
        find_part("number", "three", numbers)
    with pytest.raises(UserError, match="There is no number `four`: choose one of one"):
        find_part("number", "four", numbers)
    install(site, "numbers_a", "three = numbers_a:THREE", "THREE = 3")
    numbers = Registry("number", "legcf.numbers", lambda part: isinstance(part, int), {"one": 1}, ("three",))
    assert find_part("number", "three", numbers) == 3
