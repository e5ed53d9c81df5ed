# SPDX-License-Identifier: Apache-2.0
"""`legcf train`: from interactions to a run directory."""

import json
import shlex
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from legcf.cli.data_options import with_data_options
from legcf.cli.output import AsJson, print_json, print_table
from legcf.cli.workers import join_ranks, start_ranks
from legcf.core.config import SECTIONS, merged, parse_assignments, validated, value_from_text, with_current_keys
from legcf.core.errors import UserError
from legcf.core.files import lasting, read_json
from legcf.data.options import DataOptions

if TYPE_CHECKING:
    from legcf.core.config import RunConfig
    from legcf.data.interactions import Dataset
    from legcf.experiments.cross_validation import CrossValidation
    from legcf.training.run_folder import TrainedModel

_WIDEST = 4096  # wider vectors only take time, which grows with the cube of the width


@with_data_options
def train(
    data_options: DataOptions,
    data: Annotated[str, Argument(metavar="DATA", help="A folder, a file, or a known name such as movielens-small.")],
    out: Annotated[Path, Option("--out", "-o", help="The run's folder: settings, metrics, checkpoint, model.")],
    preset: Annotated[str | None, Option(help="Named settings of the method.  [default: default]")] = None,
    method: Annotated[str | None, Option(help="What makes the embeddings.  [default: legcf]")] = None,
    backbone: Annotated[str | None, Option(help="What propagates them; the preset names one by default.")] = None,
    seed: Annotated[int | None, Option(help="Seed of every draw in the run.  [default: 0]")] = None,
    epochs: Annotated[int | None, Option(help="Largest number of epochs in each stage.")] = None,
    dim: Annotated[int | None, Option(min=1, help="Width of the method's vectors.")] = None,
    budget: Annotated[
        str | None,
        Option(help="Number of stored values to fit the method's sizes to: 1e5, or legcf (500·128 + 2·entities)."),
    ] = None,
    size: Annotated[
        str | None,
        Option("--bytes", help="Largest size of the model file, such as 1.6MB; the preset decides by default."),
    ] = None,
    warm_start: Annotated[str | None, Option(help="A run or a file of vectors to start the codebook from.")] = None,
    seconds: Annotated[
        float | None,
        Option(
            min=0.1,
            help="Have the whole command done in this time, --final included: the best model that these cores make in"
            " it, at least `fast`. A clock is not repeatable; --config RUN/model.json makes what was kept again.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None, Option("--set", help="Any configuration key, e.g. --set training.learning_rate=0.01.")
    ] = None,
    config: Annotated[
        Path | None, Option(help="A JSON file with the keys of a run's config.json, or its model.json.")
    ] = None,
    item_features: Annotated[
        Path | None,
        Option(
            help="A table of items (csv, parquet, jsonl) with features, so that items without users can be recommended."
        ),
    ] = None,
    user_features: Annotated[
        Path | None,
        Option(help="A table of users with features, so that people without items are recommended something by them."),
    ] = None,
    folds: Annotated[
        int | None, Option(min=2, help="Measure the settings on so many folds of all pairs; no model is kept.")
    ] = None,
    final: Annotated[
        bool, Option("--final", help="After choosing and testing, train once more on every pair: the model to use.")
    ] = False,
    baselines: Annotated[
        bool | None, Option(help="Compare with popularity and item-knn.  [default: where it takes seconds]")
    ] = None,
    log: Annotated[str | None, Option(help="Also log epochs to tensorboard or mlflow.")] = None,
    workers: Annotated[
        int, Option(min=1, help="Processes of this machine that train together; lost ones are started again.")
    ] = 1,
    resume: Annotated[
        bool, Option("--resume", help="Continue a run that was stopped; the result is the same.")
    ] = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="No progress and no line per epoch.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train on DATA and write a run folder; ends with accuracy and size."""
    started = time.perf_counter() - time.process_time()  # when this process began, but for what it waited for
    if folds is not None:
        _refuse_beside_folds(
            {
                "--final": final, "--resume": resume, "--item-features": item_features,
                "--user-features": user_features, "--log": log, "--baselines": baselines, "--workers": workers > 1,
            }, out,
        )  # fmt: skip
    if start_ranks(workers):
        return
    from legcf.cli.tracking import tracker
    from legcf.core import distributed, jit
    from legcf.data.source import load_training_data
    from legcf.data.summary import what_was_kept
    from legcf.recommender.outcome import epoch_lines, print_outcome
    from legcf.training.build import require_packages
    from legcf.training.registry import require_width, resolve
    from legcf.training.run import train as run
    from legcf.training.run_folder import remove_unfinished
    from legcf.training.selection.in_time import check_seconds
    from legcf.training.session import TrainingOptions

    join_ranks()
    speaks = distributed.is_first()
    quiet = quiet or not speaks
    if quiet:
        jit.silence()
    from_file = _from_file(config)
    chosen_method = _first(method, _name(from_file, "method"), "legcf")
    typed = data_options.model_dump(include=data_options.model_fields_set)
    options = validated(DataOptions, {**from_file.get("data", {}).get("options", {}), **typed}, "data")
    typed_settings = parse_assignments(settings or [])
    if not all(isinstance(values, dict) for values in typed_settings.values()):
        sections = ", ".join(f"{section}.…" for section in SECTIONS)
        raise UserError(f"--set takes a section and a key ({sections}), as in training.epochs=5.")
    if dim is not None:
        require_width(chosen_method)
    overrides = merged(
        with_current_keys({key: _options(from_file[key]) for key in SECTIONS if key in from_file}, chosen_method),
        with_current_keys(typed_settings, chosen_method),
        {} if warm_start is None else {"method": {"start": "table", "table": lasting(warm_start)}},
        {} if epochs is None else {"training": {"epochs": epochs}},
        {} if seconds is None else {"training": {"seconds": seconds}},
        {} if size is None else {"ranking": {"bytes": size}},
        {} if budget is None else {"method": {"budget": value_from_text(budget)}},
        {} if dim is None else {"method": {"dim": dim}},
    )
    backbone = backbone or _name(from_file, "backbone")
    preset, seed = _first(preset, from_file.get("preset"), "default"), _first(seed, from_file.get("seed"), 0)
    resolved = resolve(chosen_method, backbone, preset, seed, overrides, options.reference(data))
    require_packages(resolved)
    check_seconds(resolved, resume)
    dataset = load_training_data(data, options)
    if not (quiet or as_json or folds):
        typer.echo(what_was_kept(dataset), err=True)
    if dim is not None:
        _refuse_too_wide(dim, resolved, dataset)
    if folds is not None:
        result = _measure_folds(resolved, dataset, folds, options, quiet or as_json)
        result.save(out)
        _show_folds(result, out, as_json)
        return
    watching: list[Callable[[dict[str, Any]], None]] = []
    if not (quiet or as_json):
        watching.append(epoch_lines(partial(typer.echo, err=True)))
    logged = None if log is None or not speaks else tracker(log, out, resolved)
    if logged is not None:
        watching.append(logged.epoch)

    def on_epoch(line: dict[str, Any]) -> None:
        for watch in watching:
            watch(line)

    trained = None
    is_new = not out.is_dir() or not any(out.iterdir())
    resume = distributed.goes_on(out, may_begin=is_new or resume) or resume
    try:
        folder = out if speaks else None
        trained = run(dataset, resolved, TrainingOptions(folder, resume, quiet or as_json, on_epoch, final, started))
        distributed.leave()  # what follows is done by the one that speaks
        if speaks and (item_features is not None or user_features is not None):
            trained = _with_features(trained, item_features, user_features, dataset, options, out)
    except UserError:
        if is_new and speaks:
            remove_unfinished(out)
        raise
    except KeyboardInterrupt:
        if speaks:
            typer.echo(f"Stopped; the same command with --resume continues {out}.", err=True)
        raise
    finally:
        if logged is not None:
            logged.close(None if trained is None else trained.metrics)
    if not speaks:
        return
    if as_json:
        print_json(trained.metrics)
    else:
        if quiet:
            typer.echo(what_was_kept(dataset))
        print_outcome(trained, dataset, resolved.method.name, baselines)
        next_command = shlex.join(["legcf", "recommend", str(out), "--user", str(dataset.users.external([0])[0])])
        typer.echo(f"Run: {out}. Next: {next_command}")


def _refuse_beside_folds(asked: dict[str, Any], out: Path) -> None:
    """Refuse what a measurement on folds, which keeps no model, has no use for."""
    if names := [name for name, value in asked.items() if value]:
        raise UserError(f"--folds measures settings and keeps no model: leave out {', '.join(names)}.")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} is not empty: choose another --out for the folds.")


def _measure_folds(
    config: "RunConfig", dataset: "Dataset", folds: int, options: DataOptions, quiet: bool
) -> "CrossValidation":
    """Train on all folds but one, for each of them."""
    from legcf.experiments.cross_validation import cross_validated
    from legcf.scoring.run_files import SHOWN_METRICS

    def tell(metrics: dict[str, float]) -> None:
        if not quiet:
            typer.echo("fold  " + "  ".join(f"{name} {metrics[name]:.4f}" for name in SHOWN_METRICS), err=True)

    return cross_validated(config, dataset, folds, options, tell)


def _show_folds(result: "CrossValidation", out: Path, as_json: bool) -> None:
    """Print means and deviations."""
    if as_json:
        print_json(result.to_json())
        return
    rows = [(name, measured.mean, measured.spread) for name, measured in result.metrics.items()]
    title = f"{result.facts['method']} on {result.facts['folds']} folds of {result.facts['dataset']}"
    print_table(title, ("", "mean", "deviation"), rows)
    typer.echo(f"Folds: {out}. Next: {shlex.join(['legcf', 'compare', str(out), 'OTHER'])}")


def _with_features(
    trained: "TrainedModel", items: Path | None, users: Path | None, dataset: "Dataset", options: DataOptions, out: Path
) -> "TrainedModel":
    """Write the run again with a model that knows what tables say of items and users, and return that model."""
    from legcf.core.files import folder_held, write_json
    from legcf.training.run_folder import save_model
    from legcf.updating.apply import with_item_features, with_user_features

    if items is not None:
        trained = with_item_features(trained, dataset, items, options.item_col)
    if users is not None:
        trained = with_user_features(trained, users, options.user_col)
    with folder_held(out):
        save_model(out, trained)
        write_json(out / "metrics.json", trained.metrics)
    return trained


def _refuse_too_wide(dim: int, config: "RunConfig", dataset: "Dataset") -> None:
    """Say how wide vectors may be, if vectors of --dim are beyond the method's budget or nobody would wait."""
    from legcf.embeddings.budget import widest_within
    from legcf.training.registry import METHODS

    layer = METHODS[config.method.name].layer
    widest = widest_within(layer, config.method, (dataset.num_users, dataset.num_items), _WIDEST)
    # If nothing fits, the width is not what is wrong: the run says what is.
    if 0 < widest < dim:
        larger = "." if widest == _WIDEST else " with this budget of stored values: choose less, or a larger --budget."
        raise UserError(f"--dim {dim:,} is too wide: at most --dim {widest:,} is possible here{larger}")


def _from_file(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    content = read_json(path)
    if not isinstance(content, dict):
        raise UserError(f"{path} must hold a JSON object such as {json.dumps({'training': {'epochs': 5}})}.")
    kept = content.get("config")  # of model.json: the settings that the model was kept with, nothing left to choose
    if isinstance(kept, dict) and "metrics" in content:
        ranking = kept.get("ranking")
        content = {**kept, "ranking": {**ranking, "fit_weight": False}} if isinstance(ranking, dict) else kept
    known = {"preset", "seed", *SECTIONS, "data", "content_hash"}
    for key, value in content.items():
        if key not in known:
            sections = ", ".join(sorted(known))
            raise UserError(f"Unknown configuration key `{key}` in {path}: the sections are {sections}.")
        if key in (*SECTIONS, "data") and not isinstance(value, dict):
            raise UserError(f"`{key}` in {path} must be an object of keys and values.")
    return content


def _name(from_file: dict[str, Any], section: str) -> str | None:
    name = from_file.get(section, {}).get("name")
    return name if isinstance(name, str) else None


def _options(section: dict[str, Any]) -> dict[str, Any]:
    """Return a section without its name, which is chosen apart: options go before the file."""
    return {key: value for key, value in section.items() if key != "name"}


def _first(*values: Any) -> Any:
    return next(value for value in values if value is not None)
