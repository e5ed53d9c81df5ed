# SPDX-License-Identifier: Apache-2.0
"""The folder of an updated run: written whole or not at all."""

import json
from pathlib import Path

from legcf.core.files import folder_written_whole, write_json
from legcf.training.run_folder import TrainedModel, save_model


def write_run(folder: Path, trained: TrainedModel) -> None:
    """The same files as of a training, but for its checkpoint, and the trained model in a folder of its own."""
    with folder_written_whole(folder) as temporary:
        save_model(temporary, trained)
        content = {**trained.config.to_json(), "content_hash": trained.metrics["content_hash"]}
        write_json(temporary / "config.json", content)
        write_json(temporary / "metrics.json", trained.metrics)
        lines = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in trained.curve)
        (temporary / "metrics.jsonl").write_text(lines, encoding="utf-8")
