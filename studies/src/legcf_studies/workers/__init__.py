# SPDX-License-Identifier: Apache-2.0
"""Do work in other processes of this machine, and on other machines by Dask."""
