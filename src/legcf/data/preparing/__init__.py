# SPDX-License-Identifier: Apache-2.0
"""From pairs to a dataset: ids, splits, blocks on disk."""
