# SPDX-License-Identifier: Apache-2.0
"""Download files with resuming and checksums; a file gets its name only when it is whole and right."""

import hashlib
import http.client
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from legcf.core.errors import UserError
from legcf.core.progress import progress

_CHUNK = 1 << 18
_TRIES = 4
_TIMEOUT_SECONDS = 30
# What a server or a line may do now and not a second later.
_PASSING = (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError)


@dataclass(frozen=True)
class Checksum:
    algorithm: str
    digest: str

    def matches(self, path: Path) -> bool:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, self.algorithm).hexdigest() == self.digest


class Unreachable(UserError):
    """Say that the server could not be reached, or stopped answering."""


def download(address: str, path: Path, checksum: Checksum | None, quiet: bool = False, pause: float = 1.0) -> Path:
    """Bring `address` to `path`. What an earlier try has left in `path`.part is continued, not fetched again."""
    partial = path.with_name(f"{path.name}.part")
    partial.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(_TRIES):
        if checksum is not None and partial.exists() and checksum.matches(partial):
            break
        if attempt:
            time.sleep(pause * 2 ** (attempt - 1))
        try:
            _continue(address, partial, quiet)
            break
        except urllib.error.HTTPError as error:
            if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                partial.unlink(missing_ok=True)
            elif error.code < 500:
                raise Unreachable(f"{address} answers {error.code} {error.reason}.") from error
            failure: Exception = error
        except _PASSING as error:
            failure = error
        except ValueError as error:
            raise UserError(f"{address} is not an address: give one such as https://example.org/data.") from error
        except OSError as error:
            raise UserError(f"Cannot write {partial}: {error.strerror or error}.") from error
    else:
        reason = getattr(failure, "reason", None) or failure
        raise Unreachable(
            f"{address} could not be fetched in {_TRIES} tries ({reason}); what has come so far is kept, and the next "
            "try goes on from there."
        ) from failure
    if checksum is not None and not checksum.matches(partial):
        partial.unlink()
        raise UserError(
            f"What {address} sent does not have the {checksum.algorithm} {checksum.digest}: it was thrown away. Try "
            "again; if it happens again, the file has changed at its source."
        )
    partial.replace(path)
    return path


def _continue(address: str, partial: Path, quiet: bool) -> None:
    have = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(address, headers={"User-Agent": "legcf"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
        if response.status != http.HTTPStatus.PARTIAL_CONTENT:
            # The server does not know ranges, so it sends the whole file.
            have = 0
        length = response.headers.get("Content-Length")
        total = None if length is None else have + int(length)
        with open(partial, "ab" if have else "wb") as file, progress(partial.stem, total, "bytes", quiet) as task:
            task.advance(have)
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                have += len(chunk)
                task.advance(len(chunk))
    if total is not None and have < total:
        raise http.client.IncompleteRead(b"", total - have)
