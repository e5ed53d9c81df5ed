# SPDX-License-Identifier: Apache-2.0
import io
import pickle
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from safetensors.numpy import save_file

from legcf.core.errors import UserError
from legcf.data.reading.vector_table import read_ids, read_table

USERS = np.arange(12, dtype=np.float32).reshape(4, 3) + 1
ITEMS = -np.arange(15, dtype=np.float32).reshape(5, 3) - 1


def test_two_matrices_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", item_factors=ITEMS, user_factors=USERS, alpha=np.float64(3))
    save_file({"items": ITEMS, "users": USERS}, tmp_path / "t.safetensors")
    save_file({"item_embedding.weight": ITEMS, "user_embedding.weight": USERS}, tmp_path / "u.safetensors")
    for name in ("t.npz", "t.safetensors", "u.safetensors"):
        table = read_table(tmp_path / name)
        np.testing.assert_array_equal(table.users, USERS)
        np.testing.assert_array_equal(table.items, ITEMS)


def test_two_matrices_by_order_in_an_archive_only(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "t.npz", USERS, ITEMS)
    np.testing.assert_array_equal(read_table(tmp_path / "t.npz").users, USERS)
    save_file({"a": ITEMS, "b": USERS}, tmp_path / "t.safetensors")
    with pytest.raises(UserError, match=r"a \(5 × 3\), b \(4 × 3\)"):
        read_table(tmp_path / "t.safetensors")


def test_one_matrix_two_files_or_a_cut(tmp_path: Path) -> None:
    np.save(tmp_path / "users.npy", USERS)
    np.save(tmp_path / "items.npy", ITEMS.astype(np.float64))
    np.save(tmp_path / "both.npy", np.vstack([USERS, ITEMS]))
    assert read_table(tmp_path / "items.npy").users is None
    for table in (
        read_table(tmp_path / "users.npy", items=tmp_path / "items.npy"),
        read_table(tmp_path / "both.npy", num_users=4),
    ):
        np.testing.assert_array_equal(table.users, USERS)
        np.testing.assert_array_equal(table.items, ITEMS)
    with pytest.raises(UserError, match="--num-users 9"):
        read_table(tmp_path / "both.npy", num_users=9)


def test_a_npy_file_is_mapped_not_read(tmp_path: Path) -> None:
    np.save(tmp_path / "items.npy", ITEMS)
    assert isinstance(read_table(tmp_path / "items.npy").items, np.memmap)


def test_parquet_with_lists_arrays_or_columns(tmp_path: Path) -> None:
    ids = [f"i{k}" for k in range(5)]
    lists = pl.DataFrame({"item_id": ids, "vector": ITEMS.tolist()})
    frames = {
        "lists": lists,
        "arrays": lists.with_columns(pl.col("vector").cast(pl.Array(pl.Float32, 3))),
        "columns": pl.DataFrame({"item_id": ids, **{f"d{k}": ITEMS[:, k] for k in range(3)}}),
    }
    for name, frame in frames.items():
        frame.write_parquet(tmp_path / f"{name}.parquet")
        table = read_table(tmp_path / f"{name}.parquet")
        np.testing.assert_array_equal(table.items, ITEMS)
        assert table.item_ids == ids


def test_text(tmp_path: Path) -> None:
    """As word2vec, GloVe, pandas, numpy and spreadsheets write it; ids stay as they are written."""
    ids, numbers = ["a b", "007", "x", "y", "z"], [" ".join(map(str, row)) for row in ITEMS]
    words = [f"{name.replace(' ', '_')} {row}" for name, row in zip(ids, numbers, strict=True)]
    commas = [f"{name},{row.replace(' ', ',')}" for name, row in zip(ids, numbers, strict=True)]
    files = {
        "word2vec.txt": "5 3\n" + "\n".join(words) + "\n",
        "spaces.vec": "5 3\n" + " \n".join(words) + " \n",
        "glove.txt": "\n".join(words),
        "header.csv": "\n".join(["item_id,d0,d1,d2", *commas]),
        "pandas.csv": "\n".join([",0,1,2", *commas]),
        "plain.csv": "\n".join(commas),
        "other.csv": "\n".join(["product,d0,d1,d2", *commas]),
        "tabs.tsv": "\n".join(["id\td0\td1\td2", *commas]).replace(",", "\t"),
        "quoted.csv": "\r\n".join(
            ["d0,d1,item,d2", *(f'{r[0]},{r[1]},"{n}",{r[2]}' for n, r in zip(ids, ITEMS, strict=True))]
        ),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        table = read_table(tmp_path / name)
        np.testing.assert_array_equal(table.items, ITEMS, err_msg=name)
        assert table.item_ids == (ids if name.endswith("sv") else [one.replace(" ", "_") for one in ids]), name
    np.savetxt(tmp_path / "bare.csv", ITEMS, delimiter=",")
    bare = read_table(tmp_path / "bare.csv")
    np.testing.assert_array_equal(bare.items, ITEMS)
    assert bare.item_ids is None
    (tmp_path / "whole.csv").write_text("a,1,2\nb,3,4\n")
    assert read_table(tmp_path / "whole.csv").items.tolist() == [[1, 2], [3, 4]]
    (tmp_path / "numbers.txt").write_text("2 1\n7 0.5\n12 1.5\n")
    assert read_table(tmp_path / "numbers.txt").item_ids == [7, 12]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("", "empty line"), ("a,0.5\nb,zero\n", "cannot be read"), ("a,0.5\nb,1,2\n", "cannot be read")],
)
def test_text_that_is_no_table(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(UserError, match=complaint):
        read_table(tmp_path / "t.csv")


def test_a_model_of_implicit(tmp_path: Path) -> None:
    from implicit.als import AlternatingLeastSquares

    pairs = sp.random(30, 20, 0.2, format="csr", dtype=np.float32, random_state=0)
    model = AlternatingLeastSquares(factors=4, iterations=1, random_state=0)
    model.fit(pairs, show_progress=False)
    model.save(tmp_path / "model.npz")
    table = read_table(tmp_path / "model.npz")
    np.testing.assert_array_equal(table.users, model.user_factors)
    np.testing.assert_array_equal(table.items, model.item_factors)


def test_ids_come_back_as_they_went_in(tmp_path: Path) -> None:
    path = tmp_path / "ids.txt"
    for text, ids in (("3\n-1\n", [3, -1]), ("007\n8\n", ["007", "8"]), ("a\nb c\n", ["a", "b c"])):
        path.write_text(text)
        assert read_ids(path) == ids
    path.write_text("a\n\nb\n")
    with pytest.raises(UserError, match="line 2"):
        read_ids(path)


def _bytes(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("t.xls", b"1,2", "must end in one of .npy, .npz"),
        ("t.pkl", pickle.dumps(ITEMS), "must end in one of"),
        ("t.npy", pickle.dumps(ITEMS), "pickled"),
        ("t.npy", _npy(np.array([{}, 1], dtype=object)), "pickled"),
        ("t.npz", _bytes(a=np.array([[None]], dtype=object)), "pickled"),
        ("t.npy", _npy(ITEMS)[:-7], "cannot be read"),
        ("t.npy", b"", "cannot be read"),
        ("t.npz", _bytes(a=ITEMS)[:-30], "not an .npz"),
        ("t.npz", _bytes(a=ITEMS)[:60], "not an .npz"),
        ("t.npz", b"", "not an .npz"),
        ("t.npz", _npy(ITEMS), "not an .npz"),
        ("t.npz", _bytes(a=np.ones((9, 9))).replace(np.ones(3).tobytes(), bytes(24)), "cannot be read"),
        ("t.npy", _bytes(a=ITEMS), "not a plain .npy"),
        ("t.npz", _bytes(a=ITEMS, b=ITEMS, c=ITEMS), r"a \(5 × 3\), b"),
        ("t.npz", _bytes(a=np.arange(3)), "its matrices are: none"),
        ("t.npy", _npy(np.arange(3)), "rows and columns"),
        ("t.npy", _npy(np.empty((0, 3))), "rows and columns"),
        ("t.npy", _npy(np.array([["a"]])), "real numbers"),
        ("t.npy", _npy(np.array([[1j]])), "real numbers"),
        ("t.parquet", b"PAR1 and nothing more", "cannot be read"),
        ("t.safetensors", b"\x10\0\0\0\0\0\0\0{}", "cannot be read"),
    ],
)
def test_what_is_no_table(tmp_path: Path, name: str, content: bytes, complaint: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=complaint) as raised:
        read_table(tmp_path / name)
    assert "\n" not in str(raised.value)


def test_uneven_or_missing_vectors_in_parquet(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pl.DataFrame({"vector": [[1.0, 2.0], [3.0]]}).write_parquet(path)
    with pytest.raises(UserError, match="differ in length"):
        read_table(path)
    pl.DataFrame({"name": ["a"], "x": [1.0]}).write_parquet(path)
    with pytest.raises(UserError, match="name holds no numbers"):
        read_table(path)
    with pytest.raises(UserError, match="does not exist"):
        read_table(tmp_path / "no.npy")
