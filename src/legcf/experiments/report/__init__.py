# SPDX-License-Identifier: Apache-2.0
"""Tables, figures and pages of stored results."""
