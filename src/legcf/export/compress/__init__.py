# SPDX-License-Identifier: Apache-2.0
"""Make any embedding table small: readers, the coding itself, and the choice of sizes."""
