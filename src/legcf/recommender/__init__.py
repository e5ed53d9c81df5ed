# SPDX-License-Identifier: Apache-2.0
"""Offer the class that a Python user imports."""

from legcf.recommender.recommender import Recommender

__all__ = ["Recommender"]
