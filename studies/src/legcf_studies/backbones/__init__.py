# SPDX-License-Identifier: Apache-2.0
"""Define the other base recommenders that the paper puts LEGCF on."""
