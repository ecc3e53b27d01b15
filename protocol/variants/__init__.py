"""Whole protocols, one file each: both roles stand side by side.

A variant's module is imported when the variant is asked for, by its class or by its name.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

_CLASSES = {
    "rr-independent": ("reports.rr_independent", "RRIndependent"),
    "rr-joint": ("reports.rr_joint", "RRJoint"),
    "rr-ind-joint": ("reports.rr_ind_joint", "RRIndJoint"),
    "secure-sum": ("sums.secure_sum", "SecureSumVariant"),
    "pair-counts": ("sums.pair_counts", "PairCounts"),
    "pair-rr": ("sums.pair_rr", "PairRR"),
    "rr-clusters": ("clusters.rr_clusters", "RRClusters"),
    "rrba": ("rrba.rrba", "RRBA"),
    "inp-rr": ("marginals.variant", "InpRR"),
    "inp-ps": ("marginals.variant", "InpPS"),
    "inp-ht": ("marginals.variant", "InpHT"),
    "marg-rr": ("marginals.variant", "MargRR"),
    "marg-ps": ("marginals.variant", "MargPS"),
    "marg-ht": ("marginals.variant", "MargHT"),
    "privkv": ("keyvalue.privkv", "PrivKVVariant"),
    "privkvm": ("keyvalue.privkv", "PrivKVMVariant"),
    "spl": ("oracles.attributes", "Spl"),
    "smp": ("oracles.attributes", "Smp"),
    "rs-fd": ("oracles.fake_data", "RsFd"),
    "numeric-mean": ("numeric.numeric_mean", "NumericMean"),
}
"""The module and the class of each variant, by the variant's name."""


class _BuiltIn(Mapping[str, "type[Variant]"]):
    """The variants' classes by name; to look for a name imports nothing."""

    __slots__ = ()

    def __getitem__(self, name: str) -> type[Variant]:
        module, cls = _CLASSES[name]
        found: type[Variant] = getattr(importlib.import_module(f"{__name__}.{module}"), cls)
        return found

    def __contains__(self, name: object) -> bool:
        return name in _CLASSES

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)


BUILT_IN: Mapping[str, type[Variant]] = _BuiltIn()
"""The variants of this project, by name."""

if not TYPE_CHECKING:  # To a type checker, a name that is not imported above is unknown.

    def __getattr__(name: str) -> object:
        for variant, (_, cls) in _CLASSES.items():
            if cls == name:
                return BUILT_IN[variant]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
