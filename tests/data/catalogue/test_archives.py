# SPDX-License-Identifier: Apache-2.0
"""Archives from strangers write nowhere but into their folder, and no more than they claim."""

import stat
import zipfile
from pathlib import Path

import pytest

from legcf.core.errors import UserError
from legcf.data.catalogue import archives
from legcf.data.catalogue.archives import extract


def packed(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_members_are_unpacked(tmp_path: Path) -> None:
    archive = packed(tmp_path / "a.zip", {"x/one.txt": b"1", "x/two.txt": b"2", "x/": b""})
    assert [path.read_bytes() for path in extract(archive, tmp_path / "all")] == [b"1", b"2"]
    assert extract(archive, tmp_path / "some", ["x/two.txt"]) == [tmp_path / "some" / "x" / "two.txt"]
    with pytest.raises(UserError, match=r"does not contain three\.txt"):
        extract(archive, tmp_path / "none", ["three.txt"])


@pytest.mark.parametrize("name", ["../out.txt", "/out.txt", "x/../../out.txt", "..\\out.txt", "C:\\out.txt"])
def test_paths_that_lead_out_are_refused_before_anything_is_written(name: str, tmp_path: Path) -> None:
    archive = packed(tmp_path / "a.zip", {"fine.txt": b"1", name: b"2"})
    with pytest.raises(UserError, match="leads out of its folder"):
        extract(archive, tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


def test_links_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        link = zipfile.ZipInfo("link.txt")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(UserError, match="leads out of its folder"):
        extract(tmp_path / "a.zip", tmp_path / "folder")


def test_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = packed(tmp_path / "a.zip", {"zeros": bytes(20 << 20)})
    with pytest.raises(UserError, match="more than 200 times its packed size"):
        extract(archive, tmp_path / "folder")
    monkeypatch.setattr(archives, "_MAX_BYTES", 1000)
    with pytest.raises(UserError, match="would unpack to more than"):
        extract(packed(tmp_path / "b.zip", {"a": bytes(600), "b": bytes(600)}), tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


def test_a_member_that_lies_about_its_size(tmp_path: Path) -> None:
    archive = packed(tmp_path / "a.zip", {"a.txt": b"x" * 5000})
    content = archive.read_bytes()
    archive.write_bytes(content.replace((5000).to_bytes(4, "little"), (7).to_bytes(4, "little")))
    with pytest.raises(UserError):
        extract(archive, tmp_path / "folder")
