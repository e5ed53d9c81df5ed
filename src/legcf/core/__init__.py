# SPDX-License-Identifier: Apache-2.0
"""Foundations that know nothing of recommenders."""
