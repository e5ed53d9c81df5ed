# SPDX-License-Identifier: Apache-2.0
"""Files and frames as pairs: formats, columns, times, item tables."""
