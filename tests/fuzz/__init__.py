# SPDX-License-Identifier: Apache-2.0
"""Feed damaged and invented input to every reader, for minutes (`make fuzz`); `test_smoke.py` does so for seconds."""
