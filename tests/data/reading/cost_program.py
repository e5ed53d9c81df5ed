# SPDX-License-Identifier: Apache-2.0
"""Read each file named, and print what it cost: seconds, and megabytes beyond all that were needed before it."""

import json
import resource
import sys
import time
from pathlib import Path

from legcf.core.errors import UserError
from legcf.data.source import load_data


def peak() -> float:
    return max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024


for name in sys.argv[1:]:
    before, start = peak(), time.monotonic()
    try:
        load_data(Path(name))
        sentence = ""
    except UserError as error:
        sentence = str(error)
    print(json.dumps([sentence, time.monotonic() - start, peak() - before]), flush=True)
