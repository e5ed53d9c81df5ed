# SPDX-License-Identifier: Apache-2.0
"""Define methods that rank by filters of the item graph."""
