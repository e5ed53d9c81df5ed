# SPDX-License-Identifier: Apache-2.0
"""Answers from a model in memory. Numpy only."""
