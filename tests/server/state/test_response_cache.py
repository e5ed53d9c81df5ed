# SPDX-License-Identifier: Apache-2.0
"""Answers kept for whoever asks again."""

from legcf.server.state.loaded_model import LruCache


def test_what_was_not_asked_for_longest_is_forgotten() -> None:
    memory = LruCache(3 * 1200)
    for name in "abc":
        memory.keep(name, name.encode() * 1000)
    assert memory.get("a") == b"a" * 1000
    memory.keep("d", b"d" * 1000)
    assert len(memory) == 3
    assert memory.get("b") is None
    assert memory.get("a") is not None


def test_too_large_for_it_and_none_at_all() -> None:
    memory = LruCache(1000)
    memory.keep("large", b"x" * 1000)
    memory.keep("small", b"x")
    memory.keep("small", b"y")
    assert memory.get("large") is None
    assert memory.get("small") == b"x"
    off = LruCache(0)
    off.keep("a", b"")
    assert len(off) == 0
