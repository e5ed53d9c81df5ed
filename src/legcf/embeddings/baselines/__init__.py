# SPDX-License-Identifier: Apache-2.0
"""Define methods that are counted or solved: popularity, item-knn, EASE, ALS."""
