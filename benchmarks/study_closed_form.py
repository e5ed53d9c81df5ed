# SPDX-License-Identifier: Apache-2.0
"""Why the closed form shrinks S where there are more meta-embeddings than columns (c > d).

    python benchmarks/study_closed_form.py DATA [--sizes C …] [--epochs N] [--seed N] [--batch N] [--rate X]

Pretrains the paper's model for several c at one d, then solves S anew by every solver from what it was pretrained to:
once from layer 0, where H_full = S · H_meta holds exactly and nothing is to be corrected, once from the final vectors.
Writes benchmarks/results/closed-form-DATA.json and docs/images/closed-form-DATA.svg. Test is never looked at.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from legcf.assignment.assignment import Assignment, relative_error
from legcf.assignment.solvers import SOLVERS
from legcf.core.arrays import FloatArray
from legcf.data.interactions import Dataset
from legcf.data.source import DataOptions, load_data
from legcf.training.loop import Session, TrainingOptions
from legcf.training.registry import METHODS, resolve
from legcf.training.run import build_model

HERE = Path(__file__).resolve().parent
SIZES = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
STYLES = {"pinv": ("o", "-"), "pinv-refit": ("s", "--"), "matching-pursuit": ("^", ":")}
T = 2


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data", help="a folder, a file, or a known name")
    options.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    options.add_argument("--width", type=int, default=128, help="d")
    options.add_argument("--epochs", type=int, default=4)
    options.add_argument("--batch", type=int, default=512)
    options.add_argument("--rate", type=float, default=2.5e-3)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    dataset = load_data(given.data, DataOptions())
    found = []
    for c in given.sizes:
        found.append(measured(dataset, c, given))
        print(json.dumps({key: value for key, value in found[-1].items() if key != "singular_values"}), flush=True)
    facts = {key: value for key, value in vars(given).items() if key not in ("data", "sizes")}
    content = {"dataset": dataset.name, "content_hash": dataset.content_hash, "t": T, **facts, "sizes": found}
    (HERE / "results" / f"closed-form-{dataset.name}.json").write_text(json.dumps(content) + "\n")
    draw(dataset.name, content)


def measured(dataset: Dataset, c: int, given: argparse.Namespace) -> dict[str, Any]:
    """The projection that the closed form leaves behind, and what each solver makes of the pretrained model."""
    training = {
        "epochs": given.epochs, "batch_size": given.batch, "learning_rate": given.rate, "keep": "last", "l2": 0.0,
    }  # fmt: skip
    overrides = {"method": {"c": c, "dim": given.width, "t": T, "update": "none"}, "training": training}
    config = resolve("legcf", None, "paper", given.seed, overrides)
    rng = np.random.default_rng(config.seed)
    model = build_model(config, dataset, rng, None)
    Session(
        model,
        dataset,
        config,
        METHODS["legcf"].recipe(config.method, config.training),
        rng,
        TrainingOptions(quiet=True),
    ).run()
    full, meta = model.entity_vectors(), model.meta_vectors()
    assert meta is not None
    codebook: FloatArray = model.layer.codebook.detach().numpy()  # type: ignore[union-attr]
    composed = model.layer.assignment.compose(codebook)  # type: ignore[operator, union-attr]
    projection = meta.astype(np.float64) @ np.linalg.pinv(meta.astype(np.float64), rcond=1e-6)
    return {
        "c": c,
        "singular_values": [float(f"{value:.4g}") for value in np.linalg.svd(meta, compute_uv=False)],
        "mean_diagonal": float(projection.diagonal().mean()),
        "expected_diagonal": min(1.0, given.width / c),
        "layer 0": {name: judged(solver(composed, codebook, T, 256.0), composed, codebook)
                    for name, solver in SOLVERS.items()},
        "final": {name: judged(solver(full, meta, T, 256.0), full, meta) for name, solver in SOLVERS.items()},
    }  # fmt: skip


def judged(assignment: Assignment, vectors: FloatArray, dictionary: FloatArray) -> dict[str, float]:
    return {
        "error": relative_error(vectors, dictionary, assignment),
        "row_sum": float(assignment.weights.sum(axis=1).mean()),
    }


def draw(name: str, content: dict[str, Any]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.4), layout="constrained")
    values, diagonal, error = figure.subplots(1, 3)
    sizes = [found["c"] for found in content["sizes"]]
    for found, style in zip([content["sizes"][i] for i in _three(len(sizes))], ("-", "--", ":"), strict=True):
        values.plot(found["singular_values"], style, color="#1a1a1a", label=f"c = {found['c']}")
    values.set(yscale="log", xlabel="number", ylabel="singular value of H_meta", title="never more than d of them")
    diagonal.plot(sizes, [found["mean_diagonal"] for found in content["sizes"]], "o", color="#1a1a1a", label="measured")
    fine = np.geomspace(min(sizes), max(sizes), 100)
    diagonal.plot(fine, np.minimum(1, content["width"] / fine), "-", color="#8a8a8a", label="min(1, d/c)")
    diagonal.set(xscale="log", ylim=(0, 1.08), xlabel="c", title="mean diagonal of P")
    for solver, (marker, style) in STYLES.items():
        for layer, colour in (("layer 0", "#1a1a1a"), ("final", "#b2182b")):
            error.plot(sizes, [found[layer][solver]["error"] for found in content["sizes"]], style, marker=marker,
                       markersize=4, linewidth=1, color=colour, label=f"{solver}, {layer}")  # fmt: skip
    error.set(xscale="log", ylim=(0, 1), xlabel="c", title=f"relative error of S · H_meta, t = {T}")
    for axes in (values, diagonal, error):
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=7)
    for axes in (diagonal, error):
        axes.axvline(content["width"], color="#8a8a8a", linewidth=0.8, linestyle=":")
    figure.savefig(HERE.parent / "docs" / "images" / f"closed-form-{name}.svg", metadata={"Date": None})


def _three(count: int) -> list[int]:
    return [0, count // 2, count - 1]


if __name__ == "__main__":
    main()
