# SPDX-License-Identifier: Apache-2.0
"""Make the page that readers of the site try: a model of movielens-small, trained while the site is built."""

import tempfile
from pathlib import Path

from legcf import Recommender

DATA, PRESET, SEED = "movielens-small", "fast", 7
BYTES = 200_000  # of the model file


def page() -> bytes:
    """Return one HTML file with the model and all that answers from it."""
    model = Recommender(preset=PRESET, seed=SEED, ranking={"bytes": BYTES}).fit(DATA, min_rating=4, k_core=5)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        model.export(path)
        return path.read_bytes()
