# SPDX-License-Identifier: Apache-2.0
"""What a model file is. Numpy only."""
