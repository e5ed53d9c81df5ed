# SPDX-License-Identifier: Apache-2.0
"""Ask the JavaScript reader in Node: on every golden file its answers are the Scorer's."""

import json
import subprocess
from pathlib import Path

import pytest

from .conftest import NODE, READER, needs_node
from .golden import differences

HERE = Path(__file__).parent
pytestmark = needs_node


@pytest.fixture(scope="module")
def answered(golden: Path) -> Path:
    """Let Node answer all questions, in NAME.node.json beside each file."""
    subprocess.run([str(NODE), str(HERE / "node_answers.js"), str(READER), str(golden)], check=True, timeout=300)
    return golden


def test_answers_are_those_of_the_scorer(answered: Path) -> None:
    names = [path.stem for path in answered.glob("*.legcf")]
    assert len(names) > 40
    for name in names:
        questions = json.loads((answered / f"{name}.json").read_text())["questions"]
        answers = json.loads((answered / f"{name}.node.json").read_text())
        assert len(answers) == len(questions)
        for question, answer in zip(questions, answers, strict=True):
            assert differences(question["answer"], answer) == [], (name, question["ask"], question["options"])


PROGRAM = """
import { readFileSync } from "node:fs";
const { Legcf } = await import(process.argv[1]);
const bytes = readFileSync(process.argv[2]);
const report = [];
const buffer = Uint8Array.from(bytes).buffer;
for (const source of [bytes, buffer, new Blob([bytes]), new Response(bytes)]) {
  const model = await Legcf.load(source);
  report.push(model.recommend({ user: model.users.at(0), k: 5 }).map(({ id }) => id));
}
const fail = async (work) => { try { await work(); } catch (error) { return error.message; } return null; };
const model = await Legcf.load(bytes);
const nulls = [];
for (const [ask, names, request] of [
  ["recommend", ["items", "k", "excludeSeen", "allow", "deny", "filter", "cap"], { user: model.users.at(0) }],
  ["recommend", ["user", "diversity"], { items: [0, 1] }],
  ["similar", ["k"], { item: 3 }],
  ["explain", ["user", "items"], { item: 3 }],
]) {
  const answer = JSON.stringify(model[ask](request));
  for (const none of [null, undefined]) {
    for (const name of names) nulls.push(JSON.stringify(model[ask]({ ...request, [name]: none })) === answer);
  }
}
console.log(JSON.stringify({
  report,
  untouched: Buffer.compare(bytes, readFileSync(process.argv[2])) === 0,
  facts: [model.numItems, model.numUsers, model.card.name, model.name(3)],
  attributes: model.attributes().map(({ name, kind }) => [name, kind]),
  history: model.history(model.users.at(0)).length,
  several: model.explain({ items: [0, 1], item: [2, 3] }).map(({ item }) => item),
  missing: await fail(() => Legcf.load(new Response("", { status: 404 }))),
  nothing: await fail(() => Legcf.load(undefined)),
  nulls,
  wide: await fail(() => model.recommend({ diversity: 2 })),
  unknown: await fail(() => model.recommend({ items: ["nothing"] })),
}));
"""


def test_sources_facts_and_sentences(golden: Path) -> None:
    found = subprocess.run(
        [str(NODE), "--input-type=module", "-e", PROGRAM, str(READER), str(golden / "all.legcf")],
        check=True,
        capture_output=True,
        timeout=60,
    )
    report = json.loads(found.stdout)
    assert report["report"][0]
    assert all(answer == report["report"][0] for answer in report["report"])
    assert report["untouched"]
    assert report["facts"] == [130, 24, "golden 17", "Title 3 é"]
    numbers = [[name, "number"] for name in ("price", "year", "large", "half")]
    assert report["attributes"] == [["tag", "text"], ["brand", "text"], *numbers]
    assert report["history"] > 5
    assert report["several"] == [2, 3]
    assert "404" in report["missing"]
    assert report["nothing"] == "Give the model as bytes, a Response or a Blob."
    assert len(report["nulls"]) == 24
    assert all(report["nulls"]), "null is not asked for"
    assert report["wide"] == "Diversity is a number from 0 to 1."
    assert report["unknown"] == 'Unknown item id "nothing": ids of this model look like "0", "1", "2".'
