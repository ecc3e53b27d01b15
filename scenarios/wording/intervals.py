"""How figures with intervals are written: their decimals, and shares in percent."""

from __future__ import annotations

from collections.abc import Callable, Collection

from protocol.estimators.inference.words import Shown, decimals
from scenarios.wording.formatting import signed


def in_percent(shares: Collection[Shown]) -> Callable[[float], str]:
    """Writes shares in percent, without the sign, with the decimals that their intervals need."""
    digits = decimals(shares, least=3, digits=1) - 2
    return lambda share: signed(100 * share, digits)


def decimal(figures: Collection[Shown]) -> Callable[[float], str]:
    """Writes numbers with the decimals that their intervals need."""
    digits = decimals(figures, least=0)
    return lambda value: signed(value, digits)
