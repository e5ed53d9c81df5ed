# SPDX-License-Identifier: Apache-2.0
"""Golden files hold every part that a model file can have: a part without one fails here."""

import ast
import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path

from legcf.modelfile import attributes, codecs, served_model
from legcf.modelfile.container import read_container
from legcf.modelfile.served_model import DTYPES, ServedModel
from legcf.ranking.tables.packing import TABLE_BITS

from .golden import make_kinds, write_golden

UNWRITTEN = {"atlas", "neighbour_scale"}  # of older versions: no reader answers by them


def stored_names() -> Iterator[str]:
    """Yield a pattern for every name under which the writers store an array."""
    for module in (attributes, codecs, served_model):
        for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and _is_store(node.value):
                yield _pattern(node.slice)


def _is_store(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "store"


def _pattern(name: ast.expr) -> str:
    if isinstance(name, ast.JoinedStr):
        return "".join(".*" if isinstance(part, ast.FormattedValue) else _pattern(part) for part in name.values)
    return re.escape(ast.literal_eval(name)) if isinstance(name, ast.Constant) else ".*"


def test_every_part_that_is_written_has_a_golden_file(golden: Path) -> None:
    parts = {name for path in golden.glob("*.legcf") for name in read_container(path)[0]}
    patterns = set(stored_names())
    assert len(patterns) > 10
    assert [one for one in patterns - UNWRITTEN if not any(re.fullmatch(one, part) for part in parts)] == []


def test_every_field_of_a_model_has_a_golden_file() -> None:
    kinds = make_kinds().values()
    defaults = {field.name: field.default for field in dataclasses.fields(ServedModel)}
    used = {name for model in kinds for name in defaults if getattr(model, name) is not defaults[name]}
    assert set(defaults) - used - UNWRITTEN == set()


def test_every_key_of_the_configuration_and_kind_of_number_has_a_golden_file(golden: Path) -> None:
    configs = [json.loads(read_container(path)[1]["config"]) for path in golden.glob("*.legcf")]
    assert {config["dtype"] for config in configs} == set(DTYPES)
    assert {config["item_rows"].get("bits") for config in configs} >= set(TABLE_BITS)
    for key in ("item_ids", "user_ids"):
        assert {config[key]["kind"] for config in configs if key in config} == {"text", "range", "integers"}
    written = set(re.findall(r'config\["(\w+)"\] =', Path(served_model.__file__).read_text()))
    assert written - UNWRITTEN - {key for config in configs for key in config} == set()


def test_answers_are_the_same_each_time(golden: Path, tmp_path: Path) -> None:
    write_golden(tmp_path)
    for path in golden.glob("*.legcf"):
        for name in (path.name, f"{path.stem}.json"):
            assert (tmp_path / name).read_bytes() == (golden / name).read_bytes(), name


def test_questions_of_all_kinds_are_answered_and_refused(golden: Path) -> None:
    files = [path.with_suffix(".json") for path in golden.glob("*.legcf")]
    lines = [line for path in files for line in json.loads(path.read_text())["questions"]]
    assert len(lines) > 3000
    for ask in ("recommend", "similar", "explain"):
        assert sum(line["ask"] == ask and bool(line["answer"]) for line in lines) > 50
    for option in ("user", "items", "k", "exclude_seen", "allow", "deny", "filter", "cap", "diversity"):
        assert sum(option in line["options"] and bool(line["answer"]) for line in lines) > 5, option
    assert sum(line["answer"] is None for line in lines) > 50
