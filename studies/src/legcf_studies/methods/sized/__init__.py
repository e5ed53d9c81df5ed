# SPDX-License-Identifier: Apache-2.0
"""Search or prune tables: those whose widths or entries are searched or pruned."""
