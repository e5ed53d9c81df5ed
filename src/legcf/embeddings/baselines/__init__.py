# SPDX-License-Identifier: Apache-2.0
"""Methods that are counted or solved: popularity, item-knn, EASE, ALS."""
