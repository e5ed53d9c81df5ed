# SPDX-License-Identifier: Apache-2.0
"""Name the methods as the entry points of pyproject.toml do: each a layer and the stages that train it."""

from legcf.training.registry import Method
from legcf.training.stage import single_stage
from legcf_studies.methods.clustered.cce import Cce
from legcf_studies.methods.clustered.cel import Cel
from legcf_studies.methods.clustered.graphhash import GraphHash
from legcf_studies.methods.composed.binary_code import BinaryCode
from legcf_studies.methods.composed.c2f import C2f
from legcf_studies.methods.composed.dhe import DeepHash
from legcf_studies.methods.composed.double_hash import DoubleHash
from legcf_studies.methods.composed.lerg import Lerg
from legcf_studies.methods.composed.lightrec import LightRec
from legcf_studies.methods.composed.nimble_tt import NimbleTT
from legcf_studies.methods.composed.qr import QuotientRemainder
from legcf_studies.methods.recipes import (
    autoemb,
    ciess,
    clustering,
    compositional,
    esapn,
    optembed,
    pruning,
    quantising,
    refining,
)
from legcf_studies.methods.sized.autoemb import AutoEmb
from legcf_studies.methods.sized.bigear import Bigear
from legcf_studies.methods.sized.cerp import Cerp
from legcf_studies.methods.sized.ciess import Ciess
from legcf_studies.methods.sized.esapn import Esapn
from legcf_studies.methods.sized.magprune import MagPrune
from legcf_studies.methods.sized.optembed import OptEmbed
from legcf_studies.methods.sized.pep import Pep

AUTOEMB = Method(AutoEmb, autoemb.stages)
BIGEAR = Method(Bigear, quantising.bigear_stages)
BINARY_CODE = Method(BinaryCode, single_stage)
C2F = Method(C2f, refining.stages)
CCE = Method(Cce, compositional.stages)
CEL = Method(Cel, clustering.stages)
CERP = Method(Cerp, pruning.pushed_stages)
CIESS = Method(Ciess, ciess.stages)
DHE = Method(DeepHash, single_stage)
DOUBLE_HASH = Method(DoubleHash, single_stage)
ESAPN = Method(Esapn, esapn.stages)
GRAPHHASH = Method(GraphHash, single_stage)
LERG = Method(Lerg, quantising.lerg_stages)
LIGHTREC = Method(LightRec, quantising.stages)
MAGPRUNE = Method(MagPrune, pruning.magnitude_stages)
NIMBLE_TT = Method(NimbleTT, single_stage)
OPTEMBED = Method(OptEmbed, optembed.stages)
PEP = Method(Pep, pruning.stages)
QR = Method(QuotientRemainder, single_stage)
