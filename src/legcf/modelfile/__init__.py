# SPDX-License-Identifier: Apache-2.0
"""Define what a model file is. Numpy only."""
