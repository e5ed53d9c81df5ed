# SPDX-License-Identifier: Apache-2.0
"""Serve a model file over HTTP."""
