# SPDX-License-Identifier: Apache-2.0
"""Build legcf.h with the system's compiler and hold it to Python's answers and to damaged files."""

import json
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from legcf.scoring.scorer import Request, Scorer

from .golden import is_defined

SOURCE = Path(str(files("legcf.device")))
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1")
COMPILER = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
MOST_SECONDS = 20  # of a program that a damaged file might hang; it takes milliseconds

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler here: install gcc to test legcf.h")


def build(to: Path, *options: str) -> Path:
    assert COMPILER is not None
    subprocess.run([COMPILER, *STRICT, *options, "-o", str(to), str(SOURCE / "legcf-c.c"), "-lm"], check=True)
    return to


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("c") / "legcf-c", *SANITIZED)


def test_the_header_alone_compiles_without_a_warning(tmp_path: Path) -> None:
    source = tmp_path / "alone.c"
    source.write_text(f'#include "{SOURCE / "legcf.h"}"\nint main(void) {{ return 0; }}\n')
    for more in ((), ("-DLEGCF_NO_CHECKSUM",)):
        assert COMPILER is not None
        subprocess.run([COMPILER, *STRICT, *more, "-c", str(source), "-o", str(tmp_path / "alone.o")], check=True)


def test_the_header_asks_for_no_memory_and_no_files() -> None:
    text = (SOURCE / "legcf.h").read_text()
    assert not any(f"{name}(" in text for name in ("malloc", "calloc", "realloc", "fopen", "printf", "exit"))


def line_of(model: Any, ask: str, options: dict[str, Any]) -> str | None:
    """Return the request as the program reads it; None where C has no such question."""
    find = model.items.find
    if ask == "similar":
        return f"s {options['k']} 0 0 1 {find(options['item'])}"
    if ask != "recommend" or options.keys() & {"filter", "cap", "diversity"} or options.get("k") == 0:
        return None
    items = [find(item) for item in options.get("items", ())]
    if items and model.pooling is not None and model.pooling.half_life is not None:
        return None  # the caller weighs items by their order, as `relative`
    if None in items or ("user" in options and (items or model.user_rows is not None or model.history is None)):
        return None
    hidden = {find(item) for item in options.get("deny", ())}
    if "allow" in options:
        hidden |= set(range(len(model.items))) - {find(item) for item in options["allow"]}
    head = (
        f"{options.get('k', 20)} {int(not options['exclude_seen']) if 'exclude_seen' in options else -1} {len(hidden)} "
    )
    head += "".join(f"{item} " for item in sorted(hidden))
    if "user" in options:
        user = model.users.find(options["user"])
        return None if user is None else f"u {head}{user}"
    return f"r {head}{len(items)} {' '.join(map(str, items))}"


def asked(program: Path, model: Path, lines: list[str]) -> list[tuple[list[int], list[float]]]:
    run = subprocess.run(
        [program, "--answers", model],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
    )
    assert run.returncode == 0, run.stderr
    words = [line.split() for line in run.stdout.splitlines()]
    return [([int(item) for item in line[1::2]], [float(score) for score in line[2::2]]) for line in words]


def test_every_golden_file_is_answered_as_python_does(program: Path, golden: Path) -> None:
    folder, kinds = golden, sorted(path.stem for path in golden.glob("*.legcf"))
    compared = 0
    for kind in kinds:
        scorer = Scorer.load(folder / f"{kind}.legcf")
        questions = json.loads((folder / f"{kind}.json").read_text())["questions"]
        lines = [(line_of(scorer.model, one["ask"], one["options"]), one) for one in questions]
        kept = [(line, one) for line, one in lines if line is not None and one["answer"] is not None]
        found = asked(program, folder / f"{kind}.legcf", [line for line, _ in kept])
        assert len(found) == len(kept)
        for (items, scores), (line, one) in zip(found, kept, strict=True):
            expected = [float(entry["score"]) for entry in one["answer"]]
            largest = max(map(abs, expected), default=0.0)
            assert len(items) == len(expected), (kind, line)
            assert np.allclose(scores, expected, rtol=0, atol=1e-4 * largest), (kind, line)
            ids = [str(identifier) for identifier in scorer.model.items.external(items)]
            for rank, (identifier, entry) in enumerate(zip(ids, one["answer"], strict=True)):
                near = [other for other in expected if abs(other - expected[rank]) <= 2e-6 * largest]
                is_free = len(near) > 1 and not is_defined(scorer.model, one["ask"], one["options"])
                assert identifier == entry["id"] or is_free, (kind, line, rank)
            compared += 1
    assert compared > 1000


def test_items_are_found_by_their_ids_and_named(program: Path, golden: Path) -> None:
    folder = golden
    for kind in ("titles", "text-ids", "integer-ids", "range-ids"):
        scorer = Scorer.load(folder / f"{kind}.legcf")
        ids = [str(identifier) for identifier in scorer.model.items.external([3, 40, 77])]
        run = subprocess.run([program, folder / f"{kind}.legcf", *ids], capture_output=True, text=True, check=True)
        rows = [line.split("\t") for line in run.stdout.splitlines() if line.count("\t") == 2]
        expected = {str(one.id): one.name for one in scorer.recommend(Request(items=ids, k=10))}
        assert len(rows) >= 8
        assert all(expected[identifier] == name for _, identifier, name in rows)
    unknown = subprocess.run([program, folder / "titles.legcf", "none such"], capture_output=True, text=True)
    assert "does not know none such" in unknown.stderr


def refuses(program: Path, path: Path) -> bool:
    """Return whether the program ends with a sentence; a crash, a sanitizer or a hang fails the test."""
    run = subprocess.run([program, path, "0"], capture_output=True, text=True, timeout=MOST_SECONDS, errors="replace")
    assert run.returncode in (0, 2), run.stderr
    assert "Sanitizer" not in run.stderr, run.stderr
    assert "runtime error" not in run.stderr, run.stderr
    return run.returncode == 2


def test_thousands_of_damaged_files_are_refused_without_a_crash(golden: Path, tmp_path: Path) -> None:
    folder, kinds = golden, sorted(path.stem for path in golden.glob("*.legcf"))
    assert COMPILER is not None
    damage = tmp_path / "damage"
    source = Path(__file__).with_name("damage.c")
    subprocess.run([COMPILER, *STRICT, *SANITIZED, f"-I{SOURCE}", "-o", damage, source, "-lm"], check=True)
    refused = answered = 0
    small = [kind for kind in kinds if (folder / f"{kind}.legcf").stat().st_size < 20_000]
    for number, kind in enumerate(small):
        run = subprocess.run(
            [damage, folder / f"{kind}.legcf", str(number), "60"], capture_output=True, text=True, timeout=120
        )
        assert run.returncode == 0, (kind, run.returncode, run.stderr)
        words = run.stdout.split()
        refused, answered = refused + int(words[0]), answered + int(words[2])
    assert refused > 4000
    print(f"{refused:,} refused, {answered:,} answered")


def test_what_is_no_model_file_is_named(program: Path, tmp_path: Path) -> None:
    for content in (b"", b"PK\x03\x04" * 9, b"\xff" * 64, (10**9).to_bytes(8, "little") + b"{}"):
        path = tmp_path / "odd.legcf"
        path.write_bytes(content)
        assert refuses(program, path)
    assert refuses(program, tmp_path / "none.legcf")
