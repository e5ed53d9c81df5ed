# SPDX-License-Identifier: Apache-2.0
"""Read each file named, and print what it cost: seconds of a core, and megabytes beyond all that were needed before."""

import json
import resource
import sys
from pathlib import Path

from legcf.core.errors import UserError
from legcf.data.source import load_data

EVERYONE = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def peak() -> float:
    return max(resource.getrusage(who).ru_maxrss for who in EVERYONE) / 1024


def seconds() -> float:
    return sum(sum(resource.getrusage(who)[:2]) for who in EVERYONE)


for name in sys.argv[1:]:
    before, start = peak(), seconds()
    try:
        load_data(Path(name))
        sentence = ""
    except UserError as error:
        sentence = str(error)
    print(json.dumps([sentence, seconds() - start, peak() - before]), flush=True)
