# SPDX-License-Identifier: Apache-2.0
"""Numbers in documents are those of the JSON that a benchmark wrote."""

import importlib.util
import json
from pathlib import Path
from statistics import mean
from typing import Any

ROOT = Path(__file__).parents[1]


def written(name: str) -> Any:
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())


def benchmark(name: str) -> Any:
    """The script of this name, to ask it for the table it prints."""
    place = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert place is not None
    assert place.loader is not None
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


def rows(document: str, start: str) -> list[list[str]]:
    """The cells of the table whose header begins so."""
    text = (ROOT / document).read_text()
    table = text[text.index(start) :].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip(" *") for cell in line.strip("| ").split(" | ")] for line in table]


def test_speed() -> None:
    core = {line["what"]: line["value"] for line in written("bench_core")["lines"]}
    text = (ROOT / "docs" / "results.md").read_text()
    for what, told in {
        "step on the basis, 410 pairs × 5": "{:.1f} ms",
        "step by step, 410 pairs × 5": "{:.0f} ms",
        "basis against step by step": "{:.0f}×",
        "share of the dense floor, 410 pairs × 5": "{:.0f} %",
        "evaluation against the product": "{:.2f}",
    }.items():
        assert told.format(core[what]) in text, what


def test_compression() -> None:
    table = rows("docs/compress.md", "| table | c | t | stored as |")
    for run, cells in zip(written("compress")["runs"], table, strict=True):
        accuracy = [f"{run[f'test {name}']:.4f}" for name in ("recall@20", "ndcg@20")]
        assert cells[0] == run["table"]
        assert [cells[4], *cells[6:8]] == [f"{run['values']:,}", *accuracy]
        if "kept test recall@20" in run:
            kept = " / ".join(f"{100 * run[f'kept test {name}']:.1f} %" for name in ("recall@20", "ndcg@20"))
            assert [cells[5], cells[8]] == [f"{run['relative_error']:.3f}", kept]


def test_neighbours() -> None:
    table = {
        cells[0].partition(" ")[0]: cells[1:]
        for cells in rows("docs/reproduction/study-tables.md", "| weight | Gowalla |")
    }
    for column, run in enumerate(written("neighbours")):
        for weight, scores in run["scores"].items():
            name = "neighbours" if weight == "alone" else f"{float(weight):g}"
            assert table[name][column].strip("*") == " / ".join(f"{score:.4f}" for score in scores), (weight, column)


def test_served_file() -> None:
    text = (ROOT / "docs" / "serving.md").read_text()
    file = written("served-file")
    assert f"{file['bytes']:,}" in text
    for way in ("written", "kept"):
        found = file["batch"][way]
        ours, theirs = (f"{found[name]['users_per_second']:,.0f}" for name in ("legcf", "implicit"))
        assert f"{found['throughput_ratio']:.1f}×: {ours} against {theirs}" in text
        assert f"{found['memory_ratio']:.2f}" in text
    found = file["request_ms_same_codes"]
    assert f"{found['model']:.3f} against {found['against']:.3f} ms of CPU: {found['ratio']:.2f}×" in text
    alone, beside = (file["batches"][name]["p99_ms"] for name in ("alone", "beside"))
    assert f"p99 {alone:.2f} ms and {beside:.2f} ms: {file['batches']['p99_ratio']:.1f}×" in text
    for server in ("as it runs, nothing remembered", "as it runs, 2 workers, nothing remembered"):
        assert f"{file['servers'][server]['per_second']:,.0f} per second" in text
    accuracy = written("serving")["accuracy"]
    kept = {row["t"]: row["ndcg@20"] for row in accuracy["rows"] if (row["dtype"], row["users"]) == ("int8", "coded")}
    for t in (1, 2, 4, 8):
        assert f"{100 * kept[t] / accuracy['before']['ndcg@20']:.1f} % with {'t=' * (t == 1)}{t}" in text


def test_time_does_not_depend_on_pairs() -> None:
    table = rows("docs/serving.md", "| pairs | lists solved from |")
    for run, cells in zip(written("flat"), table, strict=True):
        times = [f"{run['request_ms']:.3f}", f"{run['batch_ms']:.3f}"]
        assert cells == [f"{run['pairs']:,}", f"{run['lists_from']:,}", *times]


def test_two_ranks_against_one() -> None:
    first, *others = written("scale")
    table = rows("docs/scale.md", "| | 1 × 1 thread |")
    for (name, figures), (label, *cells) in zip(first["ranks"]["1"].items(), table, strict=True):
        one, two = figures["seconds"], first["ranks"]["2"][name]["seconds"]
        assert name.split()[0] in label
        assert cells == [f"{one:.2f}", f"{two:.2f}", f"{first['ratios'][name]['seconds']:.2f}"]
    usual, spread = (row["ratios"] for row in others[:2])
    text = (ROOT / "docs" / "scale.md").read_text()
    assert f"the factorisation was {spread['factorisation']['seconds']:.2f} times as fast" in text
    told = (
        f"{usual['training']['seconds']:.2f} times as fast ({spread['training']['seconds']:.2f} with the 50,000 items)"
    )
    assert f"training was {told}" in text


def test_growing_pairs() -> None:
    found = {(row["step"], row["size"]): row for row in written("pairs")}
    for label, *cells in rows("docs/scale.md", "| | 10^6 pairs |"):
        for size, cell in zip(("1e6", "1e7", "1e8"), cells, strict=True):
            row = found.get((label.split()[0], size))
            assert cell == ("not measured" if row is None else f"{row['cpu']:.1f} s, {row['peak_mb'] / 1024:.2f} GB")
    requests = [found["serve", size] for size in ("1e6", "1e7")]
    text = (ROOT / "docs" / "scale.md").read_text()
    assert all(f"{row['request_ms']:.2f} ms" in text for row in requests)
    assert " and ".join(f"{row['peak_mb']:.0f}" for row in requests) + " MB" in text


def test_model_of_cost() -> None:
    model = written("cost_model")
    for one in model["checks"]:
        assert abs(one["predicted"] / one["measured"] - 1) < 0.25
    for cells, one in zip(rows("docs/scale.md", "| pairs | machines |"), model["read_off"], strict=True):
        factorisation = f"{one['factorisation_minutes']:.0f} + {one['factorisation_wire_minutes']:.1f}"
        epoch = f"{one['epoch_minutes']:.1f} + {one['epoch_wire_minutes']:.2f}"
        assert cells[1:] == [str(one["machines"]), factorisation, epoch, f"{one['gigabytes']:.0f}"]
    assert (
        f"at most {max(model['most_off'].values()):.0%} off".replace("%", " %")
        in (ROOT / "docs" / "scale.md").read_text()
    )


def test_events() -> None:
    text = (ROOT / "docs" / "events.md").read_text()
    kills, beside = written("events")["kills"], written("events")["beside"]
    assert (kills["acknowledged"], kills["lost"], kills["twice"], kills["kills"]) == (kills["events"], 0, 0, 5)
    assert f"{kills['per_second']:,.0f} events per second" in text
    assert f"p99 {beside['alone']['p99_ms']:.2f} ms and {beside['beside']['p99_ms']:.2f} ms" in text
    assert f"{beside['p99_ratio']:.1f}×" in text


def test_unseen() -> None:
    assert benchmark("unseen").table(written("unseen")) in (ROOT / "docs" / "results.md").read_text()


def test_one_file() -> None:
    one_file = benchmark("one_file")
    text = (ROOT / "docs" / "results.md").read_text()
    for line in one_file.table(written("one-file")).splitlines():
        assert line in text, line
    row = written("one-file")["gowalla-1.66MB 221"]
    (told,) = [cells for cells in rows("README.md", "| model | size |") if "--bytes 1.66MB" in cells[0]]
    assert told[1:4] == [f"{row['bytes']:,} bytes", f"{row['recall@20']:.4f}", f"{row['ndcg@20']:.4f}"]


def test_held_out() -> None:
    table = {
        (cells[0].lower(), cells[1]): cells[2:]
        for cells in rows("docs/reproduction/study-tables.md", "| data | judged by |")
    }
    for data, parts in written("held-out").items():
        for part, found in parts.items():
            scores = [f"{ndcg:.4f}" for _, ndcg in found["scores"].values()]
            assert table.pop((data, part)) == [f"{found['pairs per judge']:.1f}", *scores], (data, part)
    assert not table


def test_taught() -> None:
    table = rows("docs/reproduction/study-tables.md", "| codes learn from |")
    for place, key in ((1, "gowalla legcf 1660000 taught"), (3, "lastfm legcf 1000000 taught")):
        found = written("views")[key]
        told = {cells[0]: cells[place : place + 2] for cells in table if cells[place] != "–"}
        assert {*told, "teacher alone"} == {*found}
        for name, (beside_lists, alone) in told.items():
            row = found[name]
            means = {metric: mean(one["alone"][metric] for one in row["seeds"]) for metric in ("recall@20", "ndcg@20")}
            assert beside_lists.startswith(f"{row['recall@20']:.4f} / {row['ndcg@20']:.4f}"), name
            assert alone == f"{means['recall@20']:.4f} / {means['ndcg@20']:.4f}", name


def reproduced(data: str, study: str) -> dict[str, list[dict[str, Any]]]:
    """Runs of a reproduction that is kept with the documents, by the label of their row."""
    content = json.loads((ROOT / "docs" / "reproduction" / data / "results.json").read_text())
    runs = {run["key"]: run for run in content["runs"]}
    (table,) = [table for table in content["tables"] if table["study"] == study]
    return {line["label"]: [runs[key] for key in line["runs"]] for line in table["lines"]}


def test_the_paper_checked() -> None:
    tables = benchmark("paper_tables")
    for path in tables.PAGES:
        text = path.read_text()
        assert tables.page(text) == text, "run `python benchmarks/paper_tables.py`"
        assert text.count(": begin -->") >= 4


def test_the_row_of_the_paper_in_the_readme() -> None:
    (first, *_) = reproduced("gowalla", "converged")["matching pursuit"]
    test = first["metrics"]["test"]
    (told,) = [cells for cells in rows("README.md", "| model | size |") if "graph-pursuit" in cells[0]]
    assert told[2:4] == [f"{test['recall@20']:.4f}", f"{test['ndcg@20']:.4f}"]
    assert f"`--preset graph-pursuit --seed {first['seed']}`" in told[0]


def test_updates() -> None:
    table = rows("docs/updating.md", "| data | draw | nine tenths |")
    draws = [(name, draw) for name in ("lastfm", "gowalla") for draw in written(f"bench_update-{name}")["draws"]]
    for (name, draw), cells in zip(draws, table, strict=True):
        keys = ("trained on nine tenths", "updated at once", "trained on all")
        assert cells[1:5] == [str(draw["seed"]), *(_both(draw[key], "{:.4f}") for key in keys)], name
        cost = f"{100 * draw['a hundredth with measuring / a training']:.1f} %"
        assert cells[5:] == [_shares(draw["at once / all"]), cost], name


def test_commands_of_updates() -> None:
    (draw,) = written("bench_update-commands-gowalla")["draws"]
    update, training = (draw[name]["clock"] for name in ("update", "train"))
    text = (ROOT / "docs" / "updating.md").read_text()
    assert f"`legcf update` takes {update:.1f} s where `legcf train` takes {training:.1f} s" in text


def test_thresholds() -> None:
    table = rows("docs/updating.md", "| threshold | movielens-small |")
    for column, name in enumerate(("movielens-small", "ml-1m"), 1):
        (draw,) = written(f"bench_update-thresholds-{name}")["draws"]
        for cells in table:
            assert cells[column] == _shares(draw[cells[0]]), name


def test_features() -> None:
    table = rows("docs/features.md", "| recall@20 | movielens-small |")
    found = written("bench_features")
    for cells in table:
        for column, name in enumerate(("movielens-small", "generated"), 1):
            values = found[name].get(cells[0])
            assert cells[column] == (f"{values['mean']:.3f}" if values else "–"), cells[0]


def test_user_features() -> None:
    found = written("bench_user_features")
    for name, *shares in rows("docs/features.md", "| recall of hidden users | features |"):
        assert shares == [f"{found[name][key]['mean']:.3f}" for key in ("features", "popularity")], name


def _shares(found: dict[str, float] | None) -> str:
    return "–" if found is None else _both(found, "{:.1%}").replace("%", " %")


def _both(found: dict[str, float], form: str) -> str:
    return " / ".join(form.format(found[key]) for key in ("recall@20", "ndcg@20"))


def test_frontier() -> None:
    page = benchmark("frontier_page")
    text = (ROOT / "docs" / "size.md").read_text()
    for line in page.table(page.results()).splitlines():
        assert line in text, f"{line}: python benchmarks/frontier.py --page"
