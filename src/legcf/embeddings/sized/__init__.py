# SPDX-License-Identifier: Apache-2.0
"""Tables whose widths or entries are searched or pruned."""
