# SPDX-License-Identifier: Apache-2.0
"""README and docs do what they say."""

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from legcf.cli.app import COMMANDS, app_for
from tests.cli.typed import legcf
from tests.documents import ROOT, Shell, furnish, typed, words

DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    *(
        path.relative_to(ROOT).as_posix()
        for place in ("docs", "docs/reproduction")
        for path in sorted((ROOT / place).glob("*.md"))
    ),
]
MOST_WORDS, MOST_WORDS_OF_THE_README = 30_000, 900
_CALL = re.compile(rf"(?<![\w/.-])legcf ({'|'.join(COMMANDS)})\b([^|&;\n`]*)")
_INLINE = re.compile(rf"(?<!`)`legcf ({'|'.join(COMMANDS)})\b([^`]*)`(?!`)")


@pytest.fixture(scope="session")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as documents expect it, with one small run for those that do not train it themselves."""
    folder = tmp_path_factory.mktemp("documents")
    furnish(folder)
    answer = legcf("train", folder / "interactions.csv", "--quiet", "--out", folder / "runs" / "mine")
    assert answer.code == 0, answer.err
    return folder


@pytest.fixture
def shell(furnished: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shell]:
    folder = tmp_path / "folder"
    shutil.copytree(furnished, folder)
    document = request.node.callspec.params.get("document") if hasattr(request.node, "callspec") else None
    if document and "--out runs/mine" in (ROOT / document).read_text():
        shutil.rmtree(folder / "runs" / "mine")
    shell = Shell(folder)
    yield shell
    shell.close()


def follow(document: str, shell: Shell) -> None:
    """Type what a document says, and see that it works and prints what is written."""
    for one in typed(document):
        if one.runs:
            code, output = shell.run(one.command)
            assert code == 0, f"{one.command}\n{output}"
            assert words(one.printed or "") - words(output) == set(), f"{one.command}\n{output}"


@pytest.mark.parametrize(
    "document", [name for name in DOCUMENTS if any(one.runs for one in typed((ROOT / name).read_text()))]
)
def test_every_block_runs(document: str, shell: Shell) -> None:
    follow((ROOT / document).read_text(), shell)


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        ("```sh\nlegcf data info interactions.csv --data-set x\n```\n", "No such option"),
        ("```sh\nhead -n 1 interactions.csv\nhead -n 1 elsewhere.csv\n```\n", "No such file"),
        ("```python\nfrom legcf import Recomender\n```\n", "Recomender"),
        ("```console\n$ legcf --version\nlegcf nonsense\n```\n", "legcf --version"),
    ],
)
def test_a_block_that_does_not_work_is_found(block: str, complaint: str, shell: Shell) -> None:
    with pytest.raises(AssertionError, match=complaint):
        follow(f"{block}", shell)


def command_for(name: str, arguments: list[str]) -> tuple[Any, list[str]]:
    """The command that is asked for, and what stands behind its name."""
    command: Any = typer.main.get_command(app_for([name]))
    command = command.commands[name]
    while hasattr(command, "commands") and arguments and arguments[0] in command.commands:
        command, arguments = command.commands[arguments[0]], arguments[1:]
    return command, arguments


@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_that_are_not_run_could_be(document: str) -> None:
    for one in typed((ROOT / document).read_text()):
        command = re.sub(r"\\\n|[12]?> \S+", " ", one.command)
        for name, rest in _CALL.findall(re.sub(r"\s#.*", "", command)):
            found, arguments = command_for(name, shlex.split(rest))
            found.make_context(name, arguments)  # refuses what it does not know, and misses what it needs
        for target in re.findall(r"^make (\S+)", command, re.MULTILINE):
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), command
        for script in re.findall(r"python ((?:benchmarks|tools)/\S+\.py)", command):
            assert (ROOT / script).is_file(), command


@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_in_sentences_have_the_options_they_name(document: str) -> None:
    for name, rest in _INLINE.findall((ROOT / document).read_text()):
        command, _ = command_for(name, rest.split())
        known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
        named = set(re.findall(r"(?<!\S)--[a-z][a-z-]*", rest))
        assert named <= known | {"--help"}, f"{document}: legcf {name}{rest}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_command_hides_in_a_block_that_is_not_run(document: str) -> None:
    plain = re.sub(r"^```.*?^```$", "", (ROOT / document).read_text(), flags=re.MULTILINE | re.DOTALL)
    hidden = re.findall(r"(?:\n\n|\A)((?:    \$? ?(?:legcf|python|pip|make|curl|from|import) .*\n)+)", plain)
    assert hidden == [], f"{document}: write commands as ```sh or ```python"


def test_documents_are_short_enough_to_be_read() -> None:
    """Pages in docs/reproduction are reports and tables, which nobody reads from the beginning."""
    pages = [page for page in (ROOT / "docs").rglob("*.md") if "reproduction" not in page.parts]
    words_of = {page.name: len(page.read_text().split()) for page in pages}
    assert sum(words_of.values()) <= MOST_WORDS, sorted(words_of.items(), key=lambda one: -one[1])
    assert len((ROOT / "README.md").read_text().split()) <= MOST_WORDS_OF_THE_README
