# SPDX-License-Identifier: Apache-2.0
"""What goes over the wire: head and body of an answer together, and nothing held back that somebody waits for."""

import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest


@pytest.fixture
def wire(base: str) -> Iterator[socket.socket]:
    address = urlsplit(base)
    with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
        yield connection


def lines(*head: str) -> bytes:
    return "\r\n".join([*head, "Host: localhost", "", ""]).encode()


def received(wire: socket.socket, answers: int) -> bytes:
    content = b""
    while content.count(b"HTTP/1.1 ") < answers or b"\r\n\r\n" not in content[content.rindex(b"HTTP/1.1 ") :]:
        part = wire.recv(2**16)
        assert part, "the server hung up"
        content += part
    return content


def test_head_and_body_come_together(wire: socket.socket) -> None:
    wire.sendall(lines("GET /recommend/u1?k=3 HTTP/1.1"))
    head, body = wire.recv(2**16).split(b"\r\n\r\n")
    assert f"content-length: {len(body)}".encode() in head
    assert body.endswith(b"}")


def test_an_answer_without_a_body_does_not_wait_for_the_next(wire: socket.socket) -> None:
    wire.sendall(lines("HEAD /recommend/u1 HTTP/1.1"))
    assert received(wire, 1).endswith(b"\r\n\r\n")
    wire.sendall(lines("GET /live HTTP/1.1"))
    assert received(wire, 1).endswith(b'{"status":"alive"}')


def test_requests_may_be_sent_before_their_turn(wire: socket.socket) -> None:
    wire.sendall(lines("GET /live HTTP/1.1") + lines("HEAD /live HTTP/1.1") + lines("GET /nowhere HTTP/1.1"))
    content = received(wire, 3)
    assert [part[:3] for part in content.split(b"HTTP/1.1 ")[1:]] == [b"200", b"200", b"404"]


def test_whoever_asks_first_is_told_to_go_on(wire: socket.socket) -> None:
    body = b'{"requests": [{"user": "u1", "k": 2}]}'
    kind = "Content-Type: application/json"
    wire.sendall(lines("POST /recommend HTTP/1.1", kind, f"Content-Length: {len(body)}", "Expect: 100-continue"))
    assert wire.recv(2**16) == b"HTTP/1.1 100 Continue\r\n\r\n"
    wire.sendall(body)
    assert received(wire, 1).startswith(b"HTTP/1.1 200 OK\r\n")


def test_the_last_answer_comes_before_the_end(wire: socket.socket) -> None:
    wire.sendall(lines("HEAD /live HTTP/1.1", "Connection: close"))
    content = b""
    while part := wire.recv(2**16):
        content += part
    assert content.startswith(b"HTTP/1.1 200 OK\r\n")
    assert content.endswith(b"\r\n\r\n")


def test_what_is_no_request_is_told(wire: socket.socket) -> None:
    wire.sendall(b"nonsense\r\n\r\n")
    assert wire.recv(2**16).startswith(b"HTTP/1.1 400 ")


def _refused(wire: socket.socket) -> tuple[bytes, dict[str, str]]:
    """Return the status of the answer and its content; the server hangs up behind it."""
    content = b""
    while part := wire.recv(2**16):
        content += part
    head, body = content.split(b"\r\n\r\n")
    return head.split()[1], json.loads(body)


def test_a_path_of_8_kb_is_taken_and_a_longer_one_refused(wire: socket.socket) -> None:
    wire.sendall(lines(f"GET /live?{'x' * (8192 - 6)} HTTP/1.1"))
    assert received(wire, 1).startswith(b"HTTP/1.1 200 ")
    wire.sendall(lines(f"GET /live?{'x' * (8192 - 5)} HTTP/1.1"))
    status, content = _refused(wire)
    assert (status, "by POST" in content["detail"]) == (b"414", True)


@pytest.mark.parametrize("count", [1, 40])
def test_headers_of_32_kb_are_taken_and_longer_ones_refused(wire: socket.socket, count: int) -> None:
    fitting = [f"X-{n}: {'x' * (32_000 // count - 10)}" for n in range(count)]
    wire.sendall(lines("GET /live HTTP/1.1", *fitting))
    assert received(wire, 1).startswith(b"HTTP/1.1 200 ")
    wire.sendall(lines("GET /live HTTP/1.1", *fitting, f"Y: {'x' * 1000}"))
    status, content = _refused(wire)
    assert (status, "headers" in content["detail"]) == (b"431", True)


def test_a_header_without_an_end_is_refused_before_it_is_kept(wire: socket.socket) -> None:
    wire.sendall(b"GET /live HTTP/1.1\r\nX: ")
    sent = 0
    wire.settimeout(0.05)
    while sent < 2**24:
        sent += wire.send(b"x" * 2**14)
        try:
            answer = wire.recv(2**16)
        except TimeoutError:
            continue
        break
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert sent < 2**18


def test_trailers_count_as_headers(wire: socket.socket) -> None:
    wire.sendall(lines("POST /recommend HTTP/1.1", "Transfer-Encoding: chunked", "Content-Type: application/json"))
    wire.sendall(b"2\r\n{}\r\n0\r\n")
    wire.sendall(b"".join(b"X-%d: %s\r\n" % (n, b"x" * 1000) for n in range(40)))
    assert _refused(wire)[0] == b"431"


def test_bodies_have_a_limit_of_their_own(wire: socket.socket) -> None:
    body = json.dumps({"requests": [{"items": ["i/1"] * 9000, "k": 1}] * 2}).encode()
    assert len(body) > 2 * 32 * 1024
    head = lines("POST /recommend HTTP/1.1", f"Content-Length: {len(body)}", "Content-Type: application/json")
    for _ in range(2):
        wire.sendall(head + body)
        assert received(wire, 1).startswith(b"HTTP/1.1 200 ")
