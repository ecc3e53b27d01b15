"""Kinds of estimates that are worded in a way of their own."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeGuard

from protocol.estimators.estimate import Estimate

if TYPE_CHECKING:
    from protocol.variants.keyvalue.estimate import KeyValueTables


def is_of_keys(estimate: Estimate) -> TypeGuard[KeyValueTables]:
    """Whether an estimate is of keys and their values."""
    # Most estimates are not, and to import the class takes the whole family of variants with it.
    module = sys.modules.get("protocol.variants.keyvalue.estimate")
    return module is not None and isinstance(estimate, module.KeyValueTables)
