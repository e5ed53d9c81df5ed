# SPDX-License-Identifier: Apache-2.0
"""Compose tables of fewer vectors: codebooks, hashes, tensor trains."""
