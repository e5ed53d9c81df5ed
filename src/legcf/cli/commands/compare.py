# SPDX-License-Identifier: Apache-2.0
"""`legcf compare`: two or more runs, metric by metric."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from legcf.cli.output import AsJson, Output, print_json, print_table


def compare(
    runs: Annotated[
        list[Path], Argument(metavar="RUN", help="Run folders on the same data, or folders of `legcf train --folds`.")
    ],
    k: Annotated[list[int] | None, Option("-k", help="List length; may be repeated.")] = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Test metrics of RUNs side by side; the others are tested against the first, user by user."""
    from legcf.experiments.compare import compare as side_by_side
    from legcf.experiments.compare import sheet_of
    from legcf.experiments.sheet import check_suffix, write_sheets
    from legcf.experiments.statistics import LEVEL

    check_suffix(output)
    comparison = side_by_side(runs, sorted(set(k or [10, 20])))
    if output is not None:
        write_sheets(output, [sheet_of(comparison)])
    if as_json:
        print_json(comparison)
        return
    columns = ["", *(run["run"] for run in comparison["runs"])]
    facts = [
        [name, *(str(run[name]) for run in comparison["runs"])] for name in ("method", "backbone", "preset", "seed")
    ]
    sizes: list[list[Any]] = [
        [name, *(run[name] for run in comparison["runs"])] for name in ("num_params", "storage_bytes")
    ]
    print_table(f"{comparison['dataset']}, protocol {comparison['protocol']}", columns, [*facts, *sizes])
    metrics = list(comparison["runs"][0]["metrics"])
    rows = [[name, *(_with_deviation(run, name) for run in comparison["runs"])] for name in metrics]
    print_table(f"Means over {comparison['users']:,} users, test", columns, rows)
    for run in comparison["runs"][1:]:
        tests = [
            [name, f"{test['difference']:+.4f}", f"{test['low']:+.4f} … {test['high']:+.4f}"]
            + [f"{test[kind]:.2g}" for kind in ("t_test", "wilcoxon")]
            + ["yes" if test["t_test"] < LEVEL else "no"]
            for name, test in run["against_first"].items()
        ]
        print_table(
            f"{run['run']} against {comparison['runs'][0]['run']}",
            ["", "difference", "95 % interval", "p, paired t", "p, Wilcoxon", f"significant (p < {LEVEL})"],
            tests,
        )


def _with_deviation(run: dict[str, Any], metric: str) -> float | str:
    mean = run["metrics"][metric]
    return f"{mean:.4f} ±{run['deviation'][metric]:.4f}" if "deviation" in run else mean
