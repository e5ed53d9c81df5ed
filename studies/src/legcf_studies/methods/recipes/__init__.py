# SPDX-License-Identifier: Apache-2.0
"""Train methods in stages of their own."""
