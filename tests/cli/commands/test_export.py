# SPDX-License-Identifier: Apache-2.0
"""`legcf export`: a run becomes one small file, in every form; what cannot be is one sentence."""

import base64
import json
import re
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from legcf import Recommender
from legcf.modelfile.served_model import ServedModel
from legcf.ranking.tables.embedding_table import CodebookTable, DenseTable
from legcf.scoring.scorer import Request, Scorer
from tests.cli.typed import legcf, refused
from tests.served import values_of


def test_size_and_accuracy_before_and_after(run: Path, tmp_path: Path) -> None:
    answer = legcf("export", run, tmp_path / "model", "-t", 4, "-q")
    assert answer.code == 0, answer.err
    for wanted in ("file (bytes)", "full table", "with the graph", "test recall@20", "kept"):
        assert wanted in answer.out
    scorer = Scorer.load(tmp_path / "model")
    user = scorer.model.users.values.tolist()[0] if scorer.model.users is not None else None
    assert len(scorer.recommend(Request(user=user, k=5))) == 5
    assert scorer.model.card["serving"]["accuracy"]["test"]["ndcg@20"]["after"] > 0


@pytest.mark.parametrize("dtype", ["int8", "float16"])
@pytest.mark.parametrize("form", ["coded", "full"])
def test_forms(run: Path, tmp_path: Path, dtype: str, form: str) -> None:
    answer = legcf("export", run, tmp_path / "model", "-t", 3, "--format", form, "--dtype", dtype, "--json")
    assert answer.code == 0, answer.err
    report = json.loads(answer.out)
    model = ServedModel.load(tmp_path / "model")
    assert isinstance(model.item_rows, DenseTable if form == "full" else CodebookTable)
    assert model.dtype == report["settings"]["dtype"] == dtype
    assert report["bytes"] == (tmp_path / "model").stat().st_size == sum(report["parts"].values())
    kept = report["accuracy"]["test"]["ndcg@20"]
    assert kept["after"] > (0.97 if form == "full" else 0.6) * kept["before"]


def test_items_only_and_without_history(run: Path, tmp_path: Path) -> None:
    assert legcf("export", run, tmp_path / "items", "--users", "none", "-q").code == 0
    alone = ServedModel.load(tmp_path / "items")
    assert alone.users is None
    assert alone.history is None
    assert legcf("export", run, tmp_path / "both", "--users", "none", "--history", "-q").code == 0
    assert ServedModel.load(tmp_path / "both").history is not None
    assert legcf("export", run, tmp_path / "bare", "--no-history", "--no-titles", "--no-evaluate", "-q").code == 0
    assert ServedModel.load(tmp_path / "bare").history is None


def test_pages_hold_the_model_without_its_users(run: Path, tmp_path: Path) -> None:
    answer = legcf("export", run, tmp_path / "page.html", "--json")
    assert answer.code == 0, answer.err
    report = json.loads(answer.out)
    page = (tmp_path / "page.html").read_text()
    assert report["bytes"] == (tmp_path / "page.html").stat().st_size == sum(report["parts"].values())
    inside = re.search(r'<script type="application/octet-stream" id="model">(.*?)</script>', page)
    assert inside is not None
    (tmp_path / "model").write_bytes(base64.b64decode(inside[1]))
    assert ServedModel.load(tmp_path / "model").users is None
    answer = legcf("export", run, tmp_path / "web", "--format", "web", "--users", "history", "--json")
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["bytes"] == sum(file.stat().st_size for file in (tmp_path / "web").iterdir())
    assert ServedModel.load(tmp_path / "web" / "model.legcf").history is not None
    assert "writes a folder" in refused("export", run, tmp_path / "page.html", "--format", "web")


def test_same_seed_same_file(run: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert legcf("export", run, tmp_path / name, "--seed", 5, "-q").code == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_source_gone(run: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(run, moved)
    for name in ("model.json", "config.json"):
        text = (moved / name).read_text()
        source = json.loads(text).get("config", json.loads(text))["data"]["source"]
        (moved / name).write_text(text.replace(source, str(tmp_path / "gone")))
    answer = legcf("export", moved, tmp_path / "model")
    assert answer.code == 0, answer.err
    assert "accuracy is not measured" in answer.err
    assert "with the graph" not in answer.out


def test_refusals(run: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    assert "not a run" in refused("export", tmp_path / "nowhere", model)
    assert "dtype = 'float8' is not possible" in refused("export", run, model, "--dtype", "float8")
    assert "choose coded or full" in refused("export", run, model, "--format", "onnx")
    assert "choose coded or history or none" in refused("export", run, model, "--users", "some")
    assert "t = 9" in refused("export", run, model, "-t", 9, "-q")
    assert "codebook" in refused("export", run, model, "-c", 100_000, "-q")
    assert not model.exists()
    (tmp_path / "file").write_text("")
    assert "Cannot write" in refused("export", run, tmp_path / "file" / "model", "-q")


def test_attributes_from_a_table(run: Path, tmp_path: Path) -> None:
    plain = legcf("export", run, tmp_path / "plain", "--no-evaluate", "-q")
    assert plain.code == 0, plain.err
    ids = ServedModel.load(tmp_path / "plain").items.values.tolist()
    lines = [f"{item},{'AB'[place % 2]}|all,{place / 4},x" for place, item in enumerate(ids)]
    (tmp_path / "items.csv").write_text("item,kind,price,note\n" + "\n".join(lines) + "\n")
    options = ("--items", tmp_path / "items.csv", "--no-evaluate", "-q")
    answer = legcf("export", run, tmp_path / "model", "--attributes", "kind, price", *options)
    assert answer.code == 0, answer.err
    assert "attributes (bytes)" in answer.out
    scorer = Scorer.load(tmp_path / "model")
    assert scorer.model.attributes is not None
    assert values_of(scorer.model.attributes, 3) == {"kind": ["B", "all"], "price": [0.75]}
    found = scorer.recommend(Request(items=ids[:2], k=5, filter={"kind": "B", "price": {"min": 1}}))
    assert len(found) == 5
    assert all(ids.index(entry.id) % 2 == 1 and ids.index(entry.id) >= 4 for entry in found)
    assert "no column 'colour'" in refused("export", run, tmp_path / "x", "--attributes", "colour", *options)
    assert "give the table with --items" in refused("export", run, tmp_path / "x", "--attributes", "kind")


def test_vectors_for_a_vector_search(folder: Path, run: Path, tmp_path: Path) -> None:
    """A query formed as the guide says finds what the model recommends by its vectors; lists are left out."""
    model, out = tmp_path / "model", tmp_path / "vectors"
    words = ("--preset", "fast", "--set", "ranking.popularity_weight=0.5", "--set", "ranking.lists=0")
    assert legcf("train", folder, *words, "--out", model, "--quiet").code == 0
    answer = legcf("export", model, out, "--format", "vectors", "--json")
    assert answer.code == 0, answer.err
    report = json.loads(answer.out)
    assert report["bytes"] == sum(path.stat().st_size for path in out.iterdir()) == sum(report["parts"].values())
    kept = report["accuracy"]["test"]["ndcg@20"]
    assert kept["after"] == pytest.approx(kept["before"]), "without lists nothing is lost"
    items, query = pl.read_parquet(out / "items.parquet"), json.loads((out / "query.json").read_text())
    assert query["ends_in_one"]
    history = [3, 5, 11]
    known = items.filter(pl.col("id").is_in(history))
    sums = (known["vector"].to_numpy()[:, :-1] * known["history_weight"].to_numpy()[:, None]).sum(axis=0)
    formed = np.append(sums * len(history) ** -query["user_power"], 1)
    scores = items["vector"].to_numpy() @ formed
    scores[items["id"].is_in(history).to_numpy()] = -np.inf
    told = Recommender.load(model).recommend(items=history, k=10)
    assert items["id"].to_numpy()[np.argsort(-scores)[:10]].tolist() == told["item"].to_list()
    with np.load(out / "vectors.npz") as archive:
        np.testing.assert_array_equal(archive["items"], items["vector"].to_numpy())
        np.testing.assert_array_equal(archive["item_ids"], items["id"].to_numpy())
    assert legcf("compress", out / "vectors.npz", tmp_path / "small.legcf", "-c", 20, "-t", 2, "-q").code == 0

    assert legcf("export", run, tmp_path / "both", "--format", "vectors", "-q").code == 0
    users = pl.read_parquet(tmp_path / "both" / "users.parquet")
    first = Recommender.load(run).ranking
    np.testing.assert_allclose(users["vector"].to_numpy(), first.users, rtol=1e-6)


def test_vectors_that_are_not_there(folder: Path, run: Path, tmp_path: Path) -> None:
    assert "leave out -t, --dtype" in refused(
        "export", run, tmp_path / "v", "--format", "vectors", "-t", 2, "--dtype", "int8"
    )
    assert "writes a folder" in refused("export", run, tmp_path / "v.npz", "--format", "vectors")
    assert legcf("train", folder, "--method", "ease", "--out", tmp_path / "ease", "--quiet").code == 0
    assert "has no vectors" in refused("export", tmp_path / "ease", tmp_path / "v", "--format", "vectors")
    assert not (tmp_path / "v").exists()
