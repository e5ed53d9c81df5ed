# SPDX-License-Identifier: Apache-2.0
"""Answer from a model in memory. Numpy only."""
