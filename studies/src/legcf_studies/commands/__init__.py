# SPDX-License-Identifier: Apache-2.0
"""Add commands to `legcf`."""
