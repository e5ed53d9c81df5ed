# SPDX-License-Identifier: Apache-2.0
"""How vectors are stored: codes, bits, pooling."""
