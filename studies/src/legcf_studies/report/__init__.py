# SPDX-License-Identifier: Apache-2.0
"""Make tables, figures and pages of stored results."""
