"""Whole protocols, one file each: both roles stand side by side."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from protocol.variant import Variant
from protocol.variants.rr_independent import RRIndependent
from protocol.variants.rr_joint import RRJoint

__all__ = ["BUILT_IN", "RRIndependent", "RRJoint"]

BUILT_IN: Mapping[str, type[Variant]] = MappingProxyType(
    {cls.name: cls for cls in (RRIndependent, RRJoint)}
)
"""The variants of this project, by name."""
