# SPDX-License-Identifier: Apache-2.0
"""Prepared folders: complete or absent, exact, and refused when damaged."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legcf.core.errors import UserError
from legcf.data.options import DataOptions
from legcf.data.preparing import pipeline, prepared
from legcf.data.preparing.prepared import is_prepared, open_prepared, verify
from legcf.data.source import load_data, prepare_source
from tests.data.files import write_lightgcn, write_table

KEPT = Path(__file__).parent / "kept"
ids = st.one_of(
    st.integers(-(2**63), 2**64 - 1).map(str),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)


@given(pairs=st.lists(st.tuples(ids, ids), min_size=1, max_size=12))
def test_ids_of_any_kind_round_trip(pairs: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("ids")
    frame = pl.DataFrame(pairs, schema={"user": pl.String, "item": pl.String}, orient="row")
    frame.write_parquet(folder / "pairs.parquet")
    prepared = prepare_source(folder / "pairs.parquet", folder / "out", quiet=True)
    opened = load_data(folder / "out")
    came_back = set()
    for part in (opened.train, opened.validation, opened.test):
        users, items = opened.users.external(part.users()), opened.items.external(part.items)
        came_back |= set(zip(map(str, users), map(str, items), strict=True))
    assert came_back == set(pairs)
    assert opened.content_hash == prepared.content_hash == load_data(frame).content_hash
    for identifier in opened.users.values.tolist():
        assert opened.users.find(identifier) is not None
    shutil.rmtree(folder)


def test_a_prepared_folder_is_what_loading_gives(tmp_path: Path) -> None:
    path = write_table(tmp_path, "ratings.csv")
    titles = tmp_path / "titles.csv"
    titles.write_text('item,title\n0,"Null, die"\n1,Eins\n')
    options = DataOptions(protocol="leave-last-out", titles=str(titles), min_rating=2)
    loaded, prepared = load_data(path, options), prepare_source(path, tmp_path / "out", options, quiet=True)
    assert loaded.content_hash == prepared.content_hash
    assert loaded.titles == prepared.titles
    assert loaded.provenance == prepared.provenance
    assert verify(prepared)
    for part in ("train", "validation", "test"):
        np.testing.assert_array_equal(getattr(loaded, part).items, getattr(prepared, part).items)
        np.testing.assert_array_equal(getattr(loaded, part).indptr, getattr(prepared, part).indptr)


def test_large_arrays_are_mapped_and_cannot_change_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from legcf.data.preparing import prepared as module

    monkeypatch.setattr(module, "_MAP_BYTES", 0)
    dataset = prepare_source(write_table(tmp_path, "ratings.csv"), tmp_path / "out", quiet=True)
    assert isinstance(dataset.train.items, np.memmap)
    before = dataset.train.items[0]
    dataset.train.items[0] = 3 + before
    assert open_prepared(tmp_path / "out").train.items[0] == before


def test_other_options_are_not_silently_ignored(tmp_path: Path) -> None:
    path = write_table(tmp_path, "ratings.csv")
    prepare_source(path, tmp_path / "out", DataOptions(min_rating=3), quiet=True)
    load_data(tmp_path / "out", DataOptions(min_rating=3))
    load_data(tmp_path / "out", DataOptions(protocol="ratio"))
    with pytest.raises(UserError, match="min_rating=4"):
        load_data(tmp_path / "out", DataOptions(min_rating=4))
    with pytest.raises(UserError, match="prepared already"):
        prepare_source(tmp_path / "out", tmp_path / "again", quiet=True)


def test_only_a_prepared_folder_is_replaced(tmp_path: Path) -> None:
    path = write_table(tmp_path, "ratings.csv")
    first = prepare_source(path, tmp_path / "out", quiet=True).content_hash
    second = prepare_source(path, tmp_path / "out", DataOptions(split_seed=1), quiet=True).content_hash
    assert first != second == load_data(tmp_path / "out").content_hash
    precious = write_lightgcn(tmp_path / "precious", "1 2\n")
    for place in (precious, path):
        with pytest.raises(UserError, match="not a prepared dataset"):
            prepare_source(path, place, quiet=True)
    assert (precious / "train.txt").read_text() == "1 2\n"


@pytest.mark.parametrize("damage", ["version", "format", "cut", "missing", "json", "pickle", "ids", "options", "kept"])
def test_damaged_folders_are_refused(damage: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    prepare_source(write_table(tmp_path, "ratings.csv"), out, quiet=True)
    manifest = json.loads((out / "manifest.json").read_text())
    if damage == "version":
        (out / "manifest.json").write_text(json.dumps({**manifest, "version": 99}))
    elif damage == "format":
        (out / "manifest.json").write_text(json.dumps([1]))
    elif damage == "cut":
        content = (out / "train.items.npy").read_bytes()
        (out / "train.items.npy").write_bytes(content[:-4])
    elif damage == "missing":
        (out / "test.indptr.npy").unlink()
    elif damage in ("options", "kept"):
        provenance = {**manifest["provenance"], damage: {"rows": None} if damage == "kept" else "ratio"}
        (out / "manifest.json").write_text(json.dumps({**manifest, "provenance": provenance}))
    elif damage == "json":
        (out / "manifest.json").write_text("{")
    elif damage == "pickle":
        np.save(out / "users.values.npy", np.array([object()]), allow_pickle=True)
    else:
        np.save(out / "users.values.npy", np.arange(3))
    with pytest.raises(UserError):
        load_data(out)


def test_changed_pairs_are_noticed_by_verify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many pairs, which are not hashed at every start; of few, opening them is enough."""
    out = tmp_path / "out"
    prepare_source(write_table(tmp_path, "ratings.csv"), out, quiet=True)
    content = bytearray((out / "train.items.npy").read_bytes())
    content[-4] ^= 1
    (out / "train.items.npy").write_bytes(content)
    with pytest.raises(UserError, match="not those that were prepared"):
        load_data(out)
    monkeypatch.setattr(prepared, "_FEW_PAIRS", -1)
    assert not verify(load_data(out))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("train.items.npy", lambda array: array + 10**6),
        ("train.items.npy", lambda array: array - 10**6),
        ("train.items.npy", lambda array: array.astype(np.float32)),
        ("train.indptr.npy", lambda array: array[::-1].copy()),
        ("train.indptr.npy", lambda array: np.where(np.arange(len(array)) == 1, 10**9, array)),
        ("test.indptr.npy", lambda array: array - 1),
    ],
    ids=["items beyond the end", "negative items", "items of another type", "backwards", "far offsets", "before 0"],
)
def test_what_compiled_loops_would_index_by_is_checked(
    name: str, change: Callable[[Any], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared, "_FEW_PAIRS", -1)
    out = tmp_path / "out"
    prepare_source(write_table(tmp_path, "ratings.csv"), out, quiet=True)
    np.save(out / name, change(np.load(out / name)))
    with pytest.raises(UserError, match="is damaged"):
        load_data(out)


def test_every_damaged_byte_of_prepared_data_is_noticed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    prepare_source(write_table(tmp_path, "ratings.csv"), out, quiet=True)
    rng, expected = np.random.default_rng(0), load_data(out)
    for path in sorted(out.iterdir()):
        content = path.read_bytes()
        for place in rng.integers(0, len(content), 25).tolist():
            path.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
            with suppress(UserError):
                opened = load_data(out)
                assert (opened.train.items == expected.train.items).all()
                assert (opened.train.indptr == expected.train.indptr).all()
                assert opened.items.values.tolist() == expected.items.values.tolist()
        path.write_bytes(content)


@pytest.mark.parametrize(
    "call", ["prepare_source(sys.argv[1], Path(sys.argv[2]), quiet=True)", "load_data(sys.argv[1])"]
)
def test_no_space_left(call: str, tmp_path: Path) -> None:
    """A real failed write: the process may not write files larger than 200 bytes."""
    path = write_table(tmp_path, "ratings.csv")
    code = (
        "import sys; from pathlib import Path; from legcf.data.source import load_data, prepare_source\n"
        "from legcf.data.preparing import pipeline; from legcf.core.errors import UserError\n"
        "pipeline.SPILL_PAIRS = 10\n"
        f"try: {call}\n"
        "except UserError as error: print(error); sys.exit(2)\n"
    )
    done = subprocess.run(
        # -B: else the limit cuts off the compiled modules that Python keeps, and the next process cannot import them.
        [sys.executable, "-B", "-c", code, str(path), str(tmp_path / "out")],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200)),
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "Cannot write" in done.stdout
    assert sorted(file.name for file in tmp_path.iterdir()) == ["ratings.csv"]


def test_killed_while_preparing_leaves_nothing_that_looks_finished(tmp_path: Path) -> None:
    lines = "".join(f"{user} {' '.join(map(str, range(user % 7, 300, 3)))}\n" for user in range(4000))
    folder = write_lightgcn(tmp_path / "graph", lines, None)
    code = (
        "import sys; from pathlib import Path; from legcf.data.source import prepare_source\n"
        "print('go', flush=True); prepare_source(sys.argv[1], Path(sys.argv[2]))"
    )
    for delay in (0.05, 0.3):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(folder), str(tmp_path / "out")], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        if (tmp_path / "out").exists():
            assert verify(load_data(tmp_path / "out"))
        else:
            assert not any(is_prepared(path) for path in tmp_path.iterdir() if path.name != "graph")


def test_spilling_prepare_equals_loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_table(tmp_path, "ratings.csv")
    expected = load_data(path).content_hash
    monkeypatch.setattr(pipeline, "SPILL_PAIRS", 10)
    assert prepare_source(path, tmp_path / "out", quiet=True).content_hash == expected
    assert not [name for name in os.listdir(tmp_path / "out") if "spill" in name]


def test_a_folder_that_an_earlier_version_prepared() -> None:
    """Its parts are those that this version makes of the same table, to the last bit."""
    opened = load_data(KEPT / "prepared")
    assert verify(opened)
    assert opened.content_hash == load_data(KEPT / "pairs.csv", DataOptions(k_core=2)).content_hash
    assert opened.users.external([0, 7]) == ["u0", "u7"]
    assert opened.titles is not None
    assert opened.titles[3] == "Title 3"
