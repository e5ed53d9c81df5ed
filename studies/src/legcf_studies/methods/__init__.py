# SPDX-License-Identifier: Apache-2.0
"""Hold the methods that LEGCF is compared with: layers, recipes that train them, and their names."""
