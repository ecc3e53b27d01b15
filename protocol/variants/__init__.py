"""Whole protocols, one file each: both roles stand side by side."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from protocol.session.variant import Variant
from protocol.variants.clusters.rr_clusters import RRClusters
from protocol.variants.keyvalue.privkv import PrivKVMVariant, PrivKVVariant
from protocol.variants.marginals.variant import InpHT, InpPS, InpRR, MargHT, MargPS, MargRR
from protocol.variants.numeric.numeric_mean import NumericMean
from protocol.variants.oracles.attributes import Smp, Spl
from protocol.variants.oracles.fake_data import RsFd
from protocol.variants.reports.rr_ind_joint import RRIndJoint
from protocol.variants.reports.rr_independent import RRIndependent
from protocol.variants.reports.rr_joint import RRJoint
from protocol.variants.rrba.rrba import RRBA
from protocol.variants.sums.pair_counts import PairCounts
from protocol.variants.sums.pair_rr import PairRR
from protocol.variants.sums.secure_sum import SecureSumVariant

__all__ = [
    "BUILT_IN",
    "RRBA",
    "InpHT",
    "InpPS",
    "InpRR",
    "MargHT",
    "MargPS",
    "MargRR",
    "NumericMean",
    "PairCounts",
    "PairRR",
    "PrivKVMVariant",
    "PrivKVVariant",
    "RRClusters",
    "RRIndJoint",
    "RRIndependent",
    "RRJoint",
    "RsFd",
    "SecureSumVariant",
    "Smp",
    "Spl",
]

BUILT_IN: Mapping[str, type[Variant]] = MappingProxyType(
    {
        cls.name: cls
        for cls in (
            RRIndependent,
            RRJoint,
            RRIndJoint,
            SecureSumVariant,
            PairCounts,
            PairRR,
            RRClusters,
            RRBA,
            InpRR,
            InpPS,
            InpHT,
            MargRR,
            MargPS,
            MargHT,
            PrivKVVariant,
            PrivKVMVariant,
            Spl,
            Smp,
            RsFd,
            NumericMean,
        )
    }
)
"""The variants of this project, by name."""
