# SPDX-License-Identifier: Apache-2.0
"""The notebook runs, from the first cell to the last."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES.parent / "src"))
    notebook = nbformat.read(EXAMPLES / "films.ipynb", as_version=4)
    NotebookClient(notebook, timeout=180, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    pages = [output.data["text/html"] for output in shown if "text/html" in output.get("data", {})]
    assert any("<strong>Recommender</strong>" in page and "ndcg@20" in page for page in pages)
    assert any("<strong>Scorer</strong>" in page and "legcf serve" in page for page in pages)
    assert sum("image/png" in output.get("data", {}) for output in shown) == 2
