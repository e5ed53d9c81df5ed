# SPDX-License-Identifier: Apache-2.0
"""Hold the commands, one file each."""
