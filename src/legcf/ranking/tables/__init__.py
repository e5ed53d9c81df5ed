# SPDX-License-Identifier: Apache-2.0
"""Store vectors: as codes, in few bits, or pooled from histories."""
