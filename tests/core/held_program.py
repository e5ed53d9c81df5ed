# SPDX-License-Identifier: Apache-2.0
"""Hold a folder until the process is killed."""

import sys
import time
from pathlib import Path

from legcf.core.files import folder_held

with folder_held(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
