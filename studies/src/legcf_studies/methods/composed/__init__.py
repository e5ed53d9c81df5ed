# SPDX-License-Identifier: Apache-2.0
"""Compose rows of fewer vectors, by hashes, codes or products."""
