# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from legcf.core.errors import UserError
from legcf.data.reading.vector_table import VectorTable
from legcf.export.compress.compress import compress
from legcf.export.compress.model import NamedTable, compare, name_rows, to_serving
from legcf.export.compress.search import smallest
from legcf.export.compress.sizes import Sizes
from tests.helpers import planted


def fitted(width: int = 16) -> NamedTable:
    """Vectors that rank the planted set well: a truncated SVD of its training pairs."""
    dataset = planted(120, 100)
    left, sizes, right = np.linalg.svd(dataset.train.to_scipy().toarray(), full_matrices=False)
    users, items = left[:, :width] * sizes[:width], right[:width].T
    return name_rows(VectorTable(items.astype(np.float32), users.astype(np.float32)), dataset)


def test_smallest_stops_at_the_tolerance() -> None:
    named = fitted()
    found = {}
    for tolerance in (0.02, 0.3):
        coded, trials = smallest(named, tolerance, lambda s: compress(named.users, named.items, s.c, s.t), 200)
        found[tolerance] = coded.num_values
        (chosen,) = [trial for trial in trials if trial.values == coded.num_values]
        assert chosen.loss <= tolerance
        assert all(trial.loss > tolerance for trial in trials if trial.values < chosen.values)
        validation = compare(named, coded)["validation"]["ndcg@20"]
        assert 1 - validation["after"] / validation["before"] == pytest.approx(chosen.loss)
    assert found[0.3] <= found[0.02]


def test_a_tolerance_that_cannot_be_held() -> None:
    named = fitted()
    with pytest.raises(UserError, match="between 0 and 1"):
        smallest(named, 0.0, lambda s: compress(named.users, named.items, s.c, s.t), 200)
    with pytest.raises(UserError, match="allow more with --tolerance"):
        smallest(named, 0.01, lambda s: compress(named.users, named.items, 2, 1), 200)
    with pytest.raises(UserError, match="--data"):
        smallest(
            name_rows(VectorTable(named.items, named.users), None), 0.1, lambda s: compress(None, named.items), 200
        )


def test_rows_follow_the_ids_of_the_data() -> None:
    named = fitted()
    assert named.dataset is not None
    order = np.random.default_rng(0).permutation(len(named.items))
    ids = [named.dataset.items.values.tolist()[place] for place in order]
    again = name_rows(VectorTable(named.items[order], named.users, item_ids=ids), named.dataset)
    np.testing.assert_array_equal(again.items, named.items)
    with pytest.raises(UserError, match=r"1 of the data's 100 items have no vector"):
        name_rows(VectorTable(named.items[order][1:], named.users, item_ids=ids[1:]), named.dataset)
    with pytest.raises(UserError, match="99 item vectors and the data 100 items"):
        name_rows(VectorTable(named.items[1:], named.users), named.dataset)
    with pytest.raises(UserError, match="repeat"):
        name_rows(VectorTable(named.items[:2], None, item_ids=[3, 3]), None)
    with pytest.raises(UserError, match="3 item ids for 2"):
        name_rows(VectorTable(named.items[:2], None, item_ids=[1, 2, 3]), None)


def test_the_model_file_gives_the_same_vectors(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from legcf.modelfile.served_model import ServedModel

    named = fitted()
    for dtype in ("int8", "float16"):
        coded = compress(named.users, named.items, 30, 3, dtype=dtype)
        assert coded.sizes == Sizes(30, 3)
        to_serving(coded, named, {}).save(tmp_path / "model.legcf")
        loaded = ServedModel.load(tmp_path / "model.legcf")
        assert loaded.user_rows is not None
        assert loaded.history is not None
        for rows, vectors in ((loaded.item_rows, coded.item_vectors), (loaded.user_rows, coded.user_vectors)):
            assert vectors is not None
            # The file rounds once more, which may move an 8-bit weight by a step.
            np.testing.assert_allclose(rows.vectors(slice(None)), vectors, atol=0.02 * float(np.abs(vectors).max()))
