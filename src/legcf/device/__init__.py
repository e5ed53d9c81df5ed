# SPDX-License-Identifier: Apache-2.0
"""Answer from a model file on a device: the reader in JavaScript, and pages that hold it."""
