# SPDX-License-Identifier: Apache-2.0
"""The contract of every backbone that the studies bring."""

import pytest

from legcf.testing.backbones import BackboneContract
from legcf.training.registry import BACKBONES


@pytest.mark.parametrize("backbone_name", BACKBONES.of_studies)
class TestBackbones(BackboneContract):
    pass
