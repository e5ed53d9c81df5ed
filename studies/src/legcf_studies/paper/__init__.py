# SPDX-License-Identifier: Apache-2.0
"""Run the paper's experiments: studies declare cells, workers run them, a store keeps results."""
