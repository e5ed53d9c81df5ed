# SPDX-License-Identifier: Apache-2.0
"""Read files and frames as pairs: formats, columns, times, item tables."""
