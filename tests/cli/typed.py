# SPDX-License-Identifier: Apache-2.0
"""Commands as a user types them, in this process: what they print and how they exit."""

import contextlib
import io
import json
import sys
from dataclasses import dataclass
from unittest.mock import patch

from legcf.cli.app import main

_IN_TURN = """
import json, sys
from legcf.cli.app import main

for words in json.loads(sys.argv.pop()):
    sys.argv[1:] = words
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise
"""


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


def legcf(*arguments: object, together: bool = False) -> Answer:
    """Run a command; `together` has both streams in `out`, as on a terminal."""
    out = io.StringIO()
    err = out if together else io.StringIO()
    with (
        patch.object(sys, "argv", ["legcf", *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 1
    return Answer(code, out.getvalue(), "" if together else err.getvalue())


def refused(*arguments: object) -> str:
    """The one sentence of a command that must fail for a reason the user can mend."""
    answer = legcf(*arguments)
    assert answer.code == 2, answer
    assert answer.out == ""
    assert "Traceback" not in answer.err
    lines = answer.err.strip().splitlines()
    assert len(lines) == 1, answer.err
    assert lines[0].startswith("legcf: ")
    return lines[0]


def in_turn(*commands: tuple[object, ...]) -> list[str]:
    """What starts a process of its own for commands, one after the other: imports are waited for once."""
    return [sys.executable, "-c", _IN_TURN, json.dumps([[str(word) for word in command] for command in commands])]
