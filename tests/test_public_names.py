# SPDX-License-Identifier: Apache-2.0
"""`legcf.__all__` is the public interface: every name says what it is, what it takes and what it gives."""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from griffe import Docstring, DocstringSectionKind
from pydantic import BaseModel

import legcf

NAMES = [name for name in legcf.__all__ if name != "__version__"]


def callables() -> Iterator[tuple[str, Callable[..., Any], bool]]:
    """Functions, constructors and public methods, and whether what they return must be told."""
    for name in NAMES:
        found: Any = getattr(legcf, name)
        if not inspect.isclass(found):
            yield name, found, True
            continue
        if not issubclass(found, BaseModel | Exception):
            yield name, found, False
        ours = [vars(base) for base in reversed(found.__mro__) if base.__module__.startswith("legcf")]
        for part, member in {part: member for members in ours for part, member in members.items()}.items():
            method = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            if inspect.isfunction(method) and not part.startswith("_"):
                yield f"{name}.{part}", method, inspect.signature(method).return_annotation not in (None, "None")


def sections(told: object) -> dict[DocstringSectionKind, Any]:
    return {section.kind: section.value for section in Docstring(inspect.getdoc(told) or "").parse("google")}


def test_the_top_has_nothing_else() -> None:
    assert sorted(legcf.__all__) == sorted([*legcf._HOMES, "__version__"])
    assert dir(legcf) == sorted(legcf.__all__)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_explained(name: str) -> None:
    told = inspect.getdoc(getattr(legcf, name))
    assert told
    assert re.match(r"[A-Z].*[.:]$", told.partition("\n")[0]), told
    assert "```python" in told, f"{name} has no example"


@pytest.mark.parametrize(("name", "found", "returns"), [pytest.param(*one, id=one[0]) for one in callables()])
def test_every_argument_and_answer_is_explained(name: str, found: Callable[..., Any], returns: bool) -> None:
    told = sections(found)
    taken = [
        parameter for parameter in inspect.signature(found).parameters.values() if parameter.name not in ("self", "cls")
    ]
    explained = {one.name.strip("*") for one in told.get(DocstringSectionKind.parameters, [])}
    short = len(taken) <= 1 and not explained  # a sentence is enough
    if not short or inspect.isclass(found):
        assert {parameter.name for parameter in taken} == explained, name
        given = {DocstringSectionKind.returns, DocstringSectionKind.yields} & set(told)
        assert given or not returns, name


@pytest.mark.parametrize("name", NAMES)
def test_fields_of_options_are_explained(name: str) -> None:
    found = getattr(legcf, name)
    if inspect.isclass(found) and issubclass(found, BaseModel):
        assert all(field.description for field in found.model_fields.values())


def test_help_reads_well(capsys: pytest.CaptureFixture[str]) -> None:
    help(legcf.Recommender.recommend)
    told = capsys.readouterr().out
    assert "Find the best items of some users" in told
    assert "exclude_seen: Whether" in told
