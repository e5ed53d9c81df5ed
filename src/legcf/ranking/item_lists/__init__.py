# SPDX-License-Identifier: Apache-2.0
"""Sparse item lists beside the vectors: how they are solved and added."""
