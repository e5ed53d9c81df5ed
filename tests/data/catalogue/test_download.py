# SPDX-License-Identifier: Apache-2.0
"""Downloads against a real HTTP server on loopback that can break off, lie about length and forget ranges."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from legcf.core.errors import UserError
from legcf.data.catalogue.download import Checksum, Unreachable, download

CONTENT = bytes(range(256)) * 4000
RIGHT = Checksum("sha256", hashlib.sha256(CONTENT).hexdigest())


class Server:
    """Serves `files`; `break_after` bytes it cuts the line, that many times."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {"/data.bin": CONTENT}
        self.requests: list[tuple[str, str | None]] = []
        self.break_after = 0
        self.breaks = 0
        self.knows_ranges = True
        self.failures = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.answer(self)

            def log_message(self, *arguments: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        wanted = request.headers.get("Range")
        self.requests.append((request.path, wanted))
        if self.failures:
            self.failures -= 1
            request.send_error(503)
            return
        if request.path not in self.files:
            request.send_error(404)
            return
        content = self.files[request.path]
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and self.knows_ranges else 0
        if start >= len(content):
            request.send_error(416)
            return
        request.send_response(206 if start else 200)
        request.send_header("Content-Length", str(len(content) - start))
        request.end_headers()
        if self.breaks:
            self.breaks -= 1
            request.wfile.write(content[start : start + self.break_after])
            request.close_connection = True
        else:
            request.wfile.write(content[start:])


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.http.shutdown()
    server.http.server_close()


def fetched(server: Server, path: Path, checksum: Checksum | None = RIGHT) -> Path:
    return download(f"{server.address}/data.bin", path, checksum, quiet=True, pause=0)


def test_a_file_arrives_whole(server: Server, tmp_path: Path) -> None:
    assert fetched(server, tmp_path / "data.bin").read_bytes() == CONTENT
    assert [file.name for file in tmp_path.iterdir()] == ["data.bin"]


def test_a_broken_connection_is_resumed(server: Server, tmp_path: Path) -> None:
    server.breaks, server.break_after = 2, 300_000
    assert fetched(server, tmp_path / "data.bin").read_bytes() == CONTENT
    assert [wanted for _, wanted in server.requests] == [None, "bytes=300000-", "bytes=600000-"]


def test_what_an_earlier_run_left_is_continued(server: Server, tmp_path: Path) -> None:
    server.breaks, server.break_after = 99, 10_000
    with pytest.raises(Unreachable, match="the next try goes on from there"):
        fetched(server, tmp_path / "data.bin")
    assert [file.name for file in tmp_path.iterdir()] == ["data.bin.part"]
    server.breaks = 0
    server.requests.clear()
    assert fetched(server, tmp_path / "data.bin").read_bytes() == CONTENT
    assert server.requests == [("/data.bin", "bytes=40000-")]


def test_a_server_without_ranges_sends_all_again(server: Server, tmp_path: Path) -> None:
    server.breaks, server.break_after, server.knows_ranges = 1, 1000, False
    assert fetched(server, tmp_path / "data.bin").read_bytes() == CONTENT


def test_a_wrong_checksum_is_thrown_away(server: Server, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not have the md5"):
        fetched(server, tmp_path / "data.bin", Checksum("md5", "0" * 32))
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_got_shorter_is_fetched_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(b"x" * (len(CONTENT) + 5))
    assert fetched(server, tmp_path / "data.bin").read_bytes() == CONTENT


def test_a_whole_part_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(CONTENT)
    assert fetched(server, tmp_path / "data.bin").read_bytes() == CONTENT
    assert server.requests == []


def test_a_passing_failure_of_the_server_passes(server: Server, tmp_path: Path) -> None:
    server.failures = 2
    assert fetched(server, tmp_path / "data.bin").read_bytes() == CONTENT


def test_nobody_there_and_nothing_there(server: Server, tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="404"):
        download(f"{server.address}/other", tmp_path / "other", None, quiet=True, pause=0)
    with pytest.raises(Unreachable, match="4 tries"):
        download("http://127.0.0.1:1/other", tmp_path / "other", None, quiet=True, pause=0)
