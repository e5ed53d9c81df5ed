# SPDX-License-Identifier: Apache-2.0
"""Write the folder of an updated run, whole or not at all."""

import json
from pathlib import Path

from legcf.core.files import folder_held, folder_written_whole, write_json
from legcf.training.run_folder import TrainedModel, save_model


def write_run(folder: Path, trained: TrainedModel) -> None:
    """Write the files of a training but for its checkpoint, and the model as it was last trained in a folder inside."""
    with folder_held(folder), folder_written_whole(folder) as temporary:
        save_model(temporary, trained)
        content = {**trained.config.to_json(), "content_hash": trained.metrics["content_hash"]}
        write_json(temporary / "config.json", content)
        write_json(temporary / "metrics.json", trained.metrics)
        lines = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in trained.curve)
        (temporary / "metrics.jsonl").write_text(lines, encoding="utf-8")
