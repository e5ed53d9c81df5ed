# SPDX-License-Identifier: Apache-2.0
"""Any embedding table made small: readers, the coding itself, and the choice of sizes."""
