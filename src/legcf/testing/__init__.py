# SPDX-License-Identifier: Apache-2.0
"""Check a method, backbone, loss, solver, metric or format: tests that those of other packages inherit.

A test class inherits the contract and says under which name the part is registered; pytest does the rest.

    from legcf.testing.methods import MethodContract

    class TestBuckets(MethodContract):
        name = "buckets"
"""

import pytest

_CONTRACTS = ("backbones", "formats", "losses", "methods", "metrics", "solvers")
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _CONTRACTS))  # failures show their values
