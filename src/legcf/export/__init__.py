# SPDX-License-Identifier: Apache-2.0
"""Model files made from a run or from any table of vectors."""
