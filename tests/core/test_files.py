# SPDX-License-Identifier: Apache-2.0
"""Files are written whole or not at all."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from legcf.core import files
from legcf.core.errors import UserError
from legcf.core.files import cache_folder, folder_held, folder_written_whole, read_json, write_json, written_whole

HELD_PROGRAM = Path(__file__).parent / "held_program.py"


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


def test_odd_json_is_a_sentence(tmp_path: Path) -> None:
    for content in ("[" * 100_000, "9" * 5000, '{"a": 1'):
        (tmp_path / "a.json").write_text(content)
        with pytest.raises(UserError, match="cannot be read as JSON"):
            read_json(tmp_path / "a.json")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_a_folder_that_another_process_writes_is_refused_until_that_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    other = subprocess.Popen([sys.executable, str(HELD_PROGRAM), str(folder)], stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(UserError, match=f"{folder} is being written by another process"), folder_held(folder):
            pass
    finally:
        other.kill()
        other.wait()
        other.stdout.close()
    with folder_held(folder):
        assert list(folder.iterdir()) == []


def test_a_folder_that_was_made_for_nothing_goes(tmp_path: Path) -> None:
    with folder_held(tmp_path / "a" / "b"):
        pass
    assert not (tmp_path / "a" / "b").exists()
    (tmp_path / "empty").mkdir()
    with folder_held(tmp_path / "empty"):
        pass
    assert (tmp_path / "empty").exists()


def test_where_there_are_no_locks_work_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with folder_held(tmp_path / "run"):
        assert (tmp_path / "run").is_dir()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such exchange")
def test_a_folder_is_replaced_without_a_moment_when_it_is_gone(tmp_path: Path) -> None:
    path, replacing = tmp_path / "folder", threading.Event()
    missing = 0

    def look() -> None:
        nonlocal missing
        while not replacing.is_set():
            missing += not path.exists()

    with folder_written_whole(path):
        pass
    looking = threading.Thread(target=look)
    looking.start()
    for _ in range(300):
        with folder_written_whole(path) as temporary:
            (temporary / "one").write_text("one")
    replacing.set()
    looking.join()
    assert missing == 0
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_folder_that_cannot_be_replaced_stays(
    exchanges: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of two renames fails: the first is undone."""
    path = tmp_path / "folder"
    path.mkdir()
    (path / "old").write_text("old")
    before, calls = os.replace, []

    def second_fails(*names: object) -> None:
        calls.append(names)
        if len(calls) == 2:
            raise OSError(errno.EIO, "Input/output error")
        before(*names)  # type: ignore[arg-type]

    if exchanges:
        with folder_written_whole(path) as temporary:
            (temporary / "new").write_text("new")
        assert [entry.name for entry in path.iterdir()] == ["new"]
        return
    monkeypatch.setattr(files, "_exchanged", lambda *_: False)
    monkeypatch.setattr(os, "replace", second_fails)
    with pytest.raises(UserError, match="Input/output error"), folder_written_whole(path) as temporary:
        (temporary / "new").write_text("new")
    assert [entry.name for entry in path.iterdir()] == ["old"]


def test_disk_space_of_a_mapped_file_is_taken_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mapped"
    with open(path, "wb") as file:
        file.truncate(1 << 20)
    files.reserve(path)
    if sys.platform == "linux":
        assert path.stat().st_blocks * 512 >= 1 << 20

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(UserError, match="No space left"):
        files.reserve(path)
    assert not path.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="pipes and devices of Linux")
def test_nobody_waits_for_a_pipe_or_a_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(UserError, match="a pipe or a device"):
            read_json(path)
