# SPDX-License-Identifier: Apache-2.0
"""Reproduce the experiments of the LEGCF paper, with the methods that it is compared with."""

__version__ = "0.1.0"
