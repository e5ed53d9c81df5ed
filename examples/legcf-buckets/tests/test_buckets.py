# SPDX-License-Identifier: Apache-2.0
"""The contract that legcf asks of every method."""

from legcf.testing.methods import MethodContract


class TestBuckets(MethodContract):
    name = "buckets"
