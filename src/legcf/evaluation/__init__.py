# SPDX-License-Identifier: Apache-2.0
"""Measure rankings: rank all items in blocks, then compute metrics."""
