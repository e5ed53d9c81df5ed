# SPDX-License-Identifier: Apache-2.0
"""Measure settings on folds, search for the best ones, compare runs: what a user asks before choosing."""
