# SPDX-License-Identifier: Apache-2.0
"""Tables composed of fewer vectors: codebooks, hashes, tensor trains."""
