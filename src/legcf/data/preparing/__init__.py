# SPDX-License-Identifier: Apache-2.0
"""Turn pairs into a dataset: sort, filter, split, in memory or on disk."""
