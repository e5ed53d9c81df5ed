# SPDX-License-Identifier: Apache-2.0
"""Define tables in which entities of a cluster share rows."""
