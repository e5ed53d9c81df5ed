# SPDX-License-Identifier: Apache-2.0
"""Unpack zip archives from strangers: bombs and names that lead out of the folder are refused before any write."""

import lzma
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from legcf.core.errors import UserError

_MAX_BYTES = 64 << 30
# Interactions as text compress about fivefold; a bomb a thousandfold.
_MAX_RATIO = 200
_ALWAYS_FINE_BYTES = 16 << 20
_CHUNK = 1 << 20
# What zipfile and the decompressors raise on damaged archives, and on encrypted ones and methods they do not know.
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    IndexError,
    RuntimeError,
    ValueError,
)


def extract(archive: Path, folder: Path, names: Sequence[str] | None = None) -> list[Path]:
    """Unpack the members called `names` (by default all files) into `folder`; return their paths."""
    try:
        with zipfile.ZipFile(archive) as opened:
            members = [member for member in opened.infolist() if not member.is_dir()]
            for member in members:
                _refuse_unsafe(archive, member)
            if sum(member.file_size for member in members) > _MAX_BYTES:
                raise UserError(f"{archive} would unpack to more than {_MAX_BYTES >> 30} GiB, so it was not unpacked.")
            for name in names or ():
                if name not in opened.NameToInfo:
                    raise UserError(f"{archive} does not contain {name}.")
            if names is not None:
                members = [opened.getinfo(name) for name in names]
            return [_unpack(archive, opened, member, folder) for member in members]
    except _UNREADABLE as error:
        raise UserError(f"{archive} is not a readable zip archive ({error}).") from error
    except OSError as error:
        raise UserError(f"{archive} cannot be unpacked into {folder}: {error.strerror or error}.") from error


def _refuse_unsafe(archive: Path, member: zipfile.ZipInfo) -> None:
    path = PurePosixPath(member.filename.replace("\\", "/"))
    is_link = (member.external_attr >> 16) & 0o170000 == 0o120000
    if not path.parts or path.is_absolute() or ".." in path.parts or ":" in path.parts[0] or is_link:
        raise UserError(f"{archive} holds the member {member.filename!r}, which leads out of its folder: not unpacked.")
    if member.file_size > _ALWAYS_FINE_BYTES and member.file_size > _MAX_RATIO * max(member.compress_size, 1):
        raise UserError(
            f"{archive} holds {member.filename!r}, which would unpack to {member.file_size:,} bytes, more than "
            f"{_MAX_RATIO} times its packed size: not unpacked."
        )


def _unpack(archive: Path, opened: zipfile.ZipFile, member: zipfile.ZipInfo, folder: Path) -> Path:
    target = folder / PurePosixPath(member.filename.replace("\\", "/"))
    target.parent.mkdir(parents=True, exist_ok=True)
    left = member.file_size
    with opened.open(member) as packed, open(target, "wb") as file:
        while chunk := packed.read(_CHUNK):
            left -= len(chunk)
            # The sizes in the directory of an archive are only what its maker claims.
            if left < 0:
                raise UserError(f"{archive}: {member.filename!r} is larger than it claims to be: unpacking stopped.")
            file.write(chunk)
    return target
