# SPDX-License-Identifier: Apache-2.0
"""`legcf compress` as people type it."""

import json
from pathlib import Path

import numpy as np
import pytest

from legcf.modelfile.served_model import ServedModel
from legcf.scoring.scorer import Request, Scorer
from tests.cli.typed import legcf, refused
from tests.helpers import planted, write_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`table.npz` with vectors of the data in `data`."""
    folder = tmp_path_factory.mktemp("compress")
    dataset = planted(120, 100)
    write_folder(dataset, folder / "data")
    left, sizes, right = np.linalg.svd(dataset.train.to_scipy().toarray(), full_matrices=False)
    users, items = left[:, :16] * sizes[:16], right[:16].T
    np.savez(folder / "table.npz", user_factors=users.astype(np.float32), item_factors=items.astype(np.float32))
    return folder


def test_a_file_that_serves(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.legcf"
    answer = legcf("compress", folder / "table.npz", out, "-c", 40, "-t", 3, "--json")
    assert answer.code == 0, answer.err
    report = json.loads(answer.out)
    assert report["values"] == 40 * 16 + 3 * 220
    assert report["bytes"] == out.stat().st_size
    assert 0 < report["relative_error"] < 1
    assert report["accuracy"] == {}
    model = ServedModel.load(out)
    assert model.users is not None
    assert (len(model.users), len(model.items)) == (120, 100)
    with np.load(folder / "table.npz") as table:
        scores = table["item_factors"] @ table["user_factors"][7]
    best = [scored.id for scored in Scorer.load(out).recommend(Request(user=7, k=5))]
    assert len(set(best) & set(np.argsort(-scores)[:10].tolist())) >= 4


def test_metrics_before_and_after(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.legcf"
    data = ("--data", folder / "data", "--protocol", "legcf")
    answer = legcf("compress", folder / "table.npz", out, "--budget", 2000, *data, "--json")
    assert answer.code == 0, answer.err
    report = json.loads(answer.out)
    assert report["values"] <= 2000
    pair = report["accuracy"]["test"]["ndcg@20"]
    assert pair["before"] > 0.3
    assert pair["after"] > 0.7 * pair["before"]
    assert ServedModel.load(out).history is not None
    shown = legcf("compress", folder / "table.npz", out, "--tolerance", 0.2, *data)
    assert "validation NDCG@20 lost" in shown.out
    assert "kept" in shown.out
    assert "have seen those of the test" in shown.err
    assert "seen" not in legcf("compress", folder / "table.npz", out, "-c", 20, "-t", 2).err


def test_ids_of_rows(folder: Path, tmp_path: Path) -> None:
    out, ids = tmp_path / "model.legcf", tmp_path / "ids.txt"
    ids.write_text("".join(f"song {number}\n" for number in range(100)))
    assert legcf("compress", folder / "table.npz", out, "-c", 20, "-t", 2, "--item-ids", ids, "-q").code == 0
    model = ServedModel.load(out)
    assert model.items.values[3] == "song 3"
    assert model.users is not None
    assert model.users.values[3] == 3


def test_text_of_word2vec_and_csv(folder: Path, tmp_path: Path) -> None:
    with np.load(folder / "table.npz") as table:
        rows = [" ".join(map(str, row)) for row in table["item_factors"]]
    lines = [f"song{number} {row}" for number, row in enumerate(rows)]
    (tmp_path / "items.vec").write_text(f"{len(rows)} {len(rows[0].split())}\n" + "\n".join(lines))
    (tmp_path / "items.csv").write_text("\n".join(lines).replace(" ", ","))
    models = []
    for name in ("items.vec", "items.csv"):
        answer = legcf("compress", tmp_path / name, tmp_path / "model.legcf", "-c", 20, "-t", 2, "--json")
        assert answer.code == 0, answer.err
        models.append(ServedModel.load(tmp_path / "model.legcf"))
    assert models[0].items.values[3] == models[1].items.values[3] == "song3"
    np.testing.assert_array_equal(models[0].item_rows.vectors(slice(None)), models[1].item_rows.vectors(slice(None)))
    (tmp_path / "cut.vec").write_text(f"{len(rows)} {len(rows[0].split())}\n" + "\n".join(lines[:-2]))
    assert "cut short" in refused("compress", tmp_path / "cut.vec", tmp_path / "no.legcf")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("-c", 500), "220 rows"),
        (("-c", 3, "-t", 4), "t ≤ c"),
        (("--budget", 100), "too small"),
        (("-c", 200, "-t", 8), "smaller -c or -t"),
        (("--budget", 5000), "smaller --budget"),
        (("--budget", 2000, "-c", 5, "-t", 2), "nothing left to solve"),
        (("--tolerance", 0.1), "--data"),
        (("--tolerance", 0.1, "-c", 5), "leave -c, -t and --budget out"),
        (("--protocol", "legcf"), "there is no --data"),
        (("--num-users", 5), "two already"),
        (("--dtype", "int4"), "int8 or float16"),
        (("--user-ids", "no.txt"), "no.txt"),
    ],
)
def test_what_cannot_be_done(folder: Path, tmp_path: Path, arguments: tuple[object, ...], complaint: str) -> None:
    assert complaint in refused("compress", folder / "table.npz", tmp_path / "out.legcf", *arguments)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("users", "items", "complaint"),
    [
        (np.ones((50, 4)), np.full((50, 4), np.nan), "NaN"),
        (np.ones((50, 4)), np.full((50, 4), np.inf), "infinite"),
        (np.ones((50, 4)), np.zeros((50, 4)), "--keep-zero-rows"),
        (np.ones((50, 4)), np.ones((50, 5)), "same width"),
    ],
)
def test_tables_that_cannot_be_coded(tmp_path: Path, users: np.ndarray, items: np.ndarray, complaint: str) -> None:
    np.savez(tmp_path / "t.npz", users=users, items=items)
    assert complaint in refused("compress", tmp_path / "t.npz", tmp_path / "out.legcf", "-c", 10, "-t", 2)
    assert not (tmp_path / "out.legcf").exists()
