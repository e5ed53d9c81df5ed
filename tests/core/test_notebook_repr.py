# SPDX-License-Identifier: Apache-2.0
"""What objects say of themselves: at a prompt and in a notebook, fitted or not, with files or without."""

from pathlib import Path

from legcf import Recommender, Scorer
from legcf.core import notebook_repr
from legcf.modelfile.served_model import ServedModel
from tests.served import model, toy  # noqa: F401 - fixtures


def test_html_is_escaped() -> None:
    class Example(notebook_repr.Shown):
        def _facts(self) -> notebook_repr.Facts:
            return notebook_repr.Facts("A <b>", {"x & y": "<script>"}, "a < b")

    page = Example()._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "x &amp; y" in page


def test_sizes_as_people_read_them() -> None:
    assert notebook_repr.size(48_910) == "48,910 bytes"
    assert notebook_repr.size(1_651_273) == "1.65 MB"


def test_a_recommender_before_and_after_fitting() -> None:
    untrained = Recommender(method="full")
    assert repr(untrained) == "Recommender(method: full, preset default, state: not fitted yet)"
    assert "fit(data)" in untrained._repr_html_()


def test_a_scorer_names_its_file(model: ServedModel, tmp_path: Path) -> None:  # noqa: F811
    model.save(tmp_path / "toy.legcf")
    scorer = Scorer.load(tmp_path / "toy.legcf")
    assert "file: toy.legcf" in repr(scorer)
    assert "90 items, 60 users by id" in repr(scorer)
    assert f"legcf serve {tmp_path / 'toy.legcf'}" in scorer._repr_html_()
    (tmp_path / "toy.legcf").unlink()
    assert "size" not in repr(scorer)  # a file that is gone is no reason to fail
    assert "Scorer(holds: 90 items" in repr(Scorer(model))
