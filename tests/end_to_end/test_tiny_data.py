# SPDX-License-Identifier: Apache-2.0
"""One item, one user, two pairs, nothing but duplicates, somebody who has everything: an answer, or a sentence."""

import json
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from legcf.server.app import Settings, create_app
from tests.cli.typed import legcf, refused

TINY = {
    "one user": "ax ay az aw",
    "two pairs": "ax by",
    "one user with two items": "ax ay",
    "duplicates": "ax ax ax by by",
    "everybody has everything": "ax ay bx by",
    "somebody has everything": "av aw ax ay az bv bw cx cy dz",
}


def written(pairs: str, folder: Path) -> Path:
    path = folder / "log.csv"
    path.write_text("user,item\n" + "".join(f"{user},{item}\n" for user, item in pairs.split()))
    return path


@pytest.mark.parametrize("final", [(), ("--final",)], ids=["", "final"])
@pytest.mark.parametrize("name", TINY)
def test_tiny_data(name: str, final: tuple[str, ...], tmp_path: Path) -> None:
    pairs = {tuple(pair) for pair in TINY[name].split()}
    left = len({user for user, _ in pairs}) * len({item for _, item in pairs}) - len(pairs)
    run, model = tmp_path / "run", tmp_path / "model.legcf"
    trained = legcf("train", written(TINY[name], tmp_path), "--out", run, "-q", *final)
    assert trained.code == 0, trained.err
    measured = bool(json.loads((run / "metrics.json").read_text())["test"])
    assert ("Accuracy is not measured" in trained.out) is not measured
    everybody = legcf("recommend", run, "--output", tmp_path / "all.csv")
    assert everybody.out.startswith(f"{left} recommendations")
    assert ("has every item already" in everybody.out) is (left == 0)
    if final or not measured:
        assert "to measure" in refused("evaluate", run)
    else:
        assert legcf("evaluate", run).code == 0
    exported = legcf("export", run, model)
    assert exported.code == 0, exported.err
    assert ("accuracy is not measured" in exported.err) is (bool(final) or not measured)
    with TestClient(create_app(Settings(str(model), access_log=False, popular_for_unknown=True))) as client:
        assert client.get("/recommend/nobody").json()["fallback"] == "popular"
        assert client.get("/similar-items/x").status_code in (200, 404)


def test_somebody_who_has_everything_is_told(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert legcf("train", written(TINY["somebody has everything"], tmp_path), "--out", run, "-q").code == 0
    assert legcf("recommend", run, "-u", "a").out == "User a has every item already: nothing is left to recommend.\n"


@pytest.mark.parametrize("pairs", ["ax", "ax bx cx"])
def test_one_item(pairs: str, tmp_path: Path) -> None:
    assert "only one item, 'x'" in refused("train", written(pairs, tmp_path), "--out", tmp_path / "run", "-q")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("method", ["full", "qr", "dhe"])
def test_other_methods_export_what_is_small(method: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    trained = legcf("train", written("ax by", tmp_path), "--out", run, "-q", "--method", method, "--epochs", 1)
    assert trained.code == 0, trained.err
    exported = legcf("export", run, tmp_path / "model.legcf", "-q")
    assert exported.code == 0, exported.err


def test_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths that were typed relative to one folder mean the same from another."""
    pairs = [(user, item) for user in range(20) for item in range(user % 2, 20, 2)]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "log.csv").write_text("user,item\n" + "".join(f"{user},{item}\n" for user, item in pairs))
    (tmp_path / "data" / "names.csv").write_text(
        "item,title\n" + "".join(f"{item},Item {item}\n" for item in range(20))
    )
    monkeypatch.chdir(tmp_path)
    options = ("--titles", "data/names.csv", "--method", "full", "--epochs", 1, "-q")
    for source, out in (("data/log.csv", "one"), ("data/lo*.csv", "two")):
        assert legcf("train", source, "--out", out, *options).code == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for out in ("../one", "../two"):
        evaluated = legcf("evaluate", out, "--json")
        assert evaluated.code == 0, evaluated.err
        metrics = json.loads((Path(out) / "metrics.json").read_text())
        assert json.loads(evaluated.out)["metrics"]["ndcg@20"] == pytest.approx(metrics["test"]["ndcg@20"])
        assert legcf("export", out, "model.legcf", "-q").code == 0
    other = legcf("evaluate", "../one", "--data", "../data/log.csv", "-k", 5)
    assert other.code == 0, other.err
    assert "the model was trained on them" in " ".join(other.out.split())
