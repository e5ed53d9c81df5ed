# SPDX-License-Identifier: Apache-2.0
"""Accuracy against bytes: model files of several sizes, beside full tables, tables in few bits, and full-size models.

    python benchmarks/frontier.py DATA [DATA …] [--rows legcf full als ease] [--sizes 500kB 1MB] [--seed 11]
    python benchmarks/frontier.py --page

Every row is trained and tested once and then kept in benchmarks/results/frontier-DATA.json, so that a stopped run goes
on where it was. `--page` writes the table of docs/size.md and its figure from these files.

Rows of `legcf` are whole model files as `legcf train DATA --protocol legcf --cold keep --bytes SIZE --seed SEED` and
`legcf export` make them (data of the registry, such as movielens-small: without `--protocol` and `--cold`); what sizes
have in common is worked out once for all of them. The others are described in frontier_rivals.py; product quantisation
needs faiss-cpu.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from one_file import described, write

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PROTOCOL = "legcf"
SIZES = ("250kB", "500kB", "1MB", "2MB", "4MB", "8MB")
ROWS = ("legcf", "full", "als", "ease")
ComparisonRow = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="*", type=Path)
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=ROWS)
    parser.add_argument("--sizes", nargs="*", default=list(SIZES))
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--page", action="store_true", help="write docs/size.md and its figure; train nothing")
    asked = parser.parse_args()
    for data in asked.data:
        for kind in asked.rows:
            names = asked.sizes if kind == "legcf" else None
            _fill(data, asked.seed, kind, names)
    if asked.page:
        from frontier_page import show

        show()


def _fill(data: Path, seed: int, kind: str, names: list[str] | None) -> None:
    """Make the rows of a kind that are not there yet."""
    from legcf.data.source import load_data

    path = RESULTS / f"frontier-{data.name}.json"

    def known() -> list[ComparisonRow]:
        return json.loads(path.read_text()) if path.exists() else []

    have = {row["name"] for row in known() if (row["kind"], row["seed"]) == (kind, seed)}
    missing = [name for name in names if name not in have] if names is not None else [] if have else ["all"]
    if not missing:
        return
    dataset = load_data(*source(data))
    if kind == "legcf":
        rows = model_files(data, dataset, seed, missing)
    else:
        from frontier_rivals import RIVALS, Course

        rows = RIVALS[kind](Course(dataset, seed))
    started = time.perf_counter()
    for name, row in rows:
        new = {"kind": kind, "name": name, "seed": seed, **row, "seconds": round(time.perf_counter() - started, 1)}
        started = time.perf_counter()
        # Read again: rows may have been added meanwhile.
        write(path, json.dumps([*known(), new], indent=1))
        print(data.name, json.dumps(new), flush=True)


def source(data: Path) -> tuple[Any, Any]:
    """What to load, and how: a folder by the paper's protocol, a known data set by the usual one."""
    from legcf.data.options import DataOptions

    return (data, DataOptions(protocol=PROTOCOL, cold="keep")) if data.exists() else (str(data), DataOptions())


def model_files(data: Path, dataset: Any, seed: int, sizes: list[str]) -> Iterator[tuple[str, ComparisonRow]]:
    """Model files of several sizes; a size that cannot hold the items says so."""
    from sizes_together import SharedWork

    from legcf.core.errors import UserError
    from legcf.training.loop import TrainingOptions
    from legcf.training.registry import resolve
    from legcf.training.run import train

    work = SharedWork()
    name, options = source(data)
    about = options.reference(str(name))
    for size in sizes:
        config = resolve("legcf", seed=seed, overrides={"ranking": {"bytes": size}}, data=about)
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            try:
                train(dataset, config, TrainingOptions(run, quiet=True, work=work))
            except UserError as error:
                if "too small" not in str(error):
                    raise
                yield size, {"refused": str(error)}
            else:
                yield size, described(run)


if __name__ == "__main__":
    main()
