# SPDX-License-Identifier: Apache-2.0
"""Provide foundations that know nothing of recommenders."""
