"""The variants of this project by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import protocol.variants

if TYPE_CHECKING:
    from protocol.session.variant import Variant

_CLASSES = {
    "rr-independent": "RRIndependent",
    "rr-joint": "RRJoint",
    "rr-ind-joint": "RRIndJoint",
    "secure-sum": "SecureSumVariant",
    "pair-counts": "PairCounts",
    "pair-rr": "PairRR",
    "rr-clusters": "RRClusters",
    "rrba": "RRBA",
    "inp-rr": "InpRR",
    "inp-ps": "InpPS",
    "inp-ht": "InpHT",
    "marg-rr": "MargRR",
    "marg-ps": "MargPS",
    "marg-ht": "MargHT",
    "privkv": "PrivKVVariant",
    "privkvm": "PrivKVMVariant",
    "spl": "Spl",
    "smp": "Smp",
    "rs-fd": "RsFd",
    "numeric-mean": "NumericMean",
}


class _BuiltIn(Mapping[str, "type[Variant]"]):
    """The variants' classes by name; a look-up of a name alone imports nothing."""

    __slots__ = ()

    def __getitem__(self, name: str) -> type[Variant]:
        found: type[Variant] = getattr(protocol.variants, _CLASSES[name])
        return found

    def __contains__(self, name: object) -> bool:
        return name in _CLASSES

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)


BUILT_IN: Mapping[str, type[Variant]] = _BuiltIn()
"""The variants of this project, by name."""
