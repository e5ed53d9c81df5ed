# SPDX-License-Identifier: Apache-2.0
"""Files are written whole or not at all."""

import sys
from pathlib import Path

import pytest

from legcf.core.errors import UserError
from legcf.core.files import cache_folder, folder_written_whole, read_json, write_json, written_whole


def test_replaced_only_when_complete(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    with written_whole(path) as temporary:
        temporary.write_text("one")
    with pytest.raises(ZeroDivisionError), written_whole(path) as temporary:
        temporary.write_text(f"half {1 / 0}")
    assert path.read_text() == "one"
    assert list(path.parent.iterdir()) == [path]


def test_folders_too(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    for content in ("one", "two"):
        with folder_written_whole(path) as temporary:
            (temporary / content).write_text(content)
    with pytest.raises(ZeroDivisionError), folder_written_whole(path) as temporary:
        (temporary / "half").write_text(f"half {1 / 0}")
    assert [entry.name for entry in path.iterdir()] == ["two"]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("writer", [written_whole, folder_written_whole])
def test_a_place_that_cannot_be_written_is_a_sentence(writer: object, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="Cannot write"), writer(tmp_path / "file" / "inside"):  # type: ignore[operator]
        pass


def test_there_is_one_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEGCF_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("LEGCF_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "mine"))
    assert cache_folder().name == "legcf"
    if sys.platform == "linux":
        assert cache_folder() == tmp_path / "mine" / "legcf"


def test_json(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"ä": [1, None]})
    assert read_json(tmp_path / "a.json") == {"ä": [1, None]}
    (tmp_path / "b.json").write_bytes(b"\xff{")
    for name in ("b.json", "none.json", "."):
        with pytest.raises(UserError):
            read_json(tmp_path / name)
