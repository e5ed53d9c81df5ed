# SPDX-License-Identifier: Apache-2.0
"""`legcf update`: a run with new interactions in it, without training."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from legcf.cli.data_options import with_data_options
from legcf.cli.output import AsJson, Quiet, print_json, print_pairs
from legcf.core.errors import UserError
from legcf.data.options import DataOptions


@with_data_options
def update(
    data_options: DataOptions,
    run: Annotated[Path, Argument(metavar="RUN", help="A run folder of `legcf train` or `legcf update`.")],
    out: Annotated[Path, Option("--out", "-o", help="The folder of the updated run.")],
    new: Annotated[
        str | None, Argument(metavar="NEW", help="New interactions: a file or folder, as `legcf train` takes them.")
    ] = None,
    item_features: Annotated[
        Path | None,
        Option(help="A table of items (csv, parquet, jsonl): an id and what is known of each; new ones as well."),
    ] = None,
    events: Annotated[
        Path | None,
        Option(help="The folder of `legcf serve --accept-events`: its events that RUN does not know, once each."),
    ] = None,
    threshold: Annotated[
        float | None,
        Option(
            min=0,
            max=1,
            help="Solve an item again when at least this share of its pairs is new; 0: every item with a new pair."
            "  [default: 0.1]",
        ),
    ] = None,
    evaluate: Annotated[
        bool,
        Option(
            help="Measure the updated model on what was held out, and whether training anew is due; where much is new,"
            " weigh the lists by it."
        ),
    ] = True,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Take NEW interactions into RUN without training, and write the updated run.

    A user's vector follows from the items they have. New items, and items with many new pairs, are solved again.
    """
    from legcf.core import jit
    from legcf.recommender import Recommender
    from legcf.scoring.run_files import summary
    from legcf.updating.apply import write_run
    from legcf.updating.vectors import RESOLVE_SHARE

    if quiet or as_json:
        jit.silence()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} is there already and not empty: choose another --out.")
    model = Recommender.load(run)
    share = RESOLVE_SHARE if threshold is None else threshold
    model.update(new, data_options, threshold=share, item_features=item_features, events=events, evaluate=evaluate)
    write_run(out, model.trained)
    metrics = model.metrics
    if as_json:
        print_json(metrics)
        return
    title = " with ".join(str(one) for one in (run, new, item_features, events) if one is not None)
    print_pairs(title, {**_lines(metrics["updated"]), **summary(metrics)})
    typer.echo(_verdict(metrics["updated"]))
    typer.echo(f"Run: {out}. Next: legcf export {out} model.legcf")


def _lines(report: dict[str, Any]) -> dict[str, Any]:
    return {
        "pairs since the training": report["pairs"],
        "new users": report["new_users"],
        "new items": report["new_items"],
        "items that nobody has": report["items_nobody_has"],
        "items solved again": report["solved_items"],
        "from a new share of": report["threshold"],
        "lists weighed again": "yes" if report["lists_weighed_again"] else "no",
    }


def _verdict(report: dict[str, Any]) -> str:
    from legcf.updating.update import LEAST_RATIO, MOST_GROWTH

    ratio = report["validation_ratio"]
    measured = (
        "There are no held-out pairs to measure drift by"
        if ratio is None
        else f"Validation ndcg@20 is {ratio:.1%} of that of the trained model"
    )
    grown = f"{report['growth']:.1%} more pairs than it was trained on"
    rule = f"retraining is due below {LEAST_RATIO:.0%} or from {MOST_GROWTH:.0%} more pairs"
    return f"{measured}, with {grown}; {rule}: {'it is due.' if report['retrain'] else 'not yet.'}"
