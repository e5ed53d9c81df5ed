# SPDX-License-Identifier: Apache-2.0
"""Solve sparse item lists and add them beside the vectors."""
