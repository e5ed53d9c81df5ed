# SPDX-License-Identifier: Apache-2.0
"""Make model files from a run or from any table of vectors."""
