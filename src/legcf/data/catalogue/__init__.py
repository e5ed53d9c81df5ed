# SPDX-License-Identifier: Apache-2.0
"""Known datasets: where they are, how they are fetched, kept and generated."""
