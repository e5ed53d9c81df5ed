# SPDX-License-Identifier: Apache-2.0
"""A model file over HTTP."""
