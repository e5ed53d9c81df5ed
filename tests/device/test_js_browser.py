# SPDX-License-Identifier: Apache-2.0
"""Ask the JavaScript reader in Debian's chromium, on a page and in a Worker: its answers are the Scorer's."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..browser import chromium, hosted, opened
from .conftest import READER
from .golden import differences

pytestmark = pytest.mark.browser

HERE = Path(__file__).parent
ON_THE_PAGE = """async (name) => {
    const { Legcf } = await import("./legcf.js"), { answers } = await import("./answers.js");
    const { questions } = await (await fetch(`${name}.json`)).json();
    return JSON.stringify(answers(await Legcf.load(await fetch(`${name}.legcf`)), questions));
}"""
IN_A_WORKER = """async (name) => {
    globalThis.worker ??= new Worker("./worker.js", { type: "module" });
    const bytes = await (await fetch(`${name}.legcf`)).arrayBuffer();
    const { questions } = await (await fetch(`${name}.json`)).json();
    const { data } = await new Promise((resolve) => { worker.onmessage = resolve; worker.postMessage({ bytes, questions }, [bytes]); });
    if (data.error) throw new Error(data.error);
    return JSON.stringify(data.answers);
}"""  # noqa: E501


@pytest.fixture(scope="module")
def page(golden: Path) -> Iterator[Any]:
    """Open an empty page of a host that has the reader and the golden files."""
    for source in (READER, HERE / "answers.js", HERE / "worker.js"):
        shutil.copy(source, golden)
    (golden / "index.html").write_text("<!doctype html><link rel=icon href=data:,><title>golden</title>")
    with chromium() as browser, hosted(golden) as address, opened(browser) as page:
        page.goto(address)
        yield page


@pytest.mark.parametrize("program", [ON_THE_PAGE, IN_A_WORKER], ids=["page", "worker"])
def test_answers_are_those_of_the_scorer(page: Any, golden: Path, program: str) -> None:
    for path in sorted(golden.glob("*.legcf")):
        questions = json.loads(path.with_suffix(".json").read_text())["questions"]
        answers = json.loads(page.evaluate(program, path.stem))
        assert len(answers) == len(questions)
        for question, answer in zip(questions, answers, strict=True):
            assert differences(question["answer"], answer) == [], (path.stem, question["ask"], question["options"])
